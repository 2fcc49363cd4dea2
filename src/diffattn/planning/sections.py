"""A plan as sections, the verdict first, and as a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffattn.planning import sections_of_advice as advice
from diffattn.planning import sections_of_size as size
from diffattn.planning.document import Section, markdown

__all__ = ["sections", "to_markdown"]


def sections(plan: Mapping[str, Any]) -> list[Section]:
    """The whole plan, the verdict first.

    Args:
        plan: as `planning.plan.plan` gives it, or its JSON.
    """
    return [
        *advice.verdict(plan),
        *size.parameters(plan),
        size.memory(plan),
        size.decode(plan),
        size.bounds(plan),
        advice.noise(plan),
        advice.retrieval(plan),
        *advice.training(plan),
        advice.experiment(plan),
        advice.fields(plan),
        advice.basis(plan),
    ]


def to_markdown(plan: Mapping[str, Any]) -> str:
    """The plan as a Markdown page."""
    return markdown(f"Differential attention for {plan['model']}", sections(plan))
