"""Numbers as a results file keeps them: enough digits for any reader, no more."""

from __future__ import annotations

from typing import Any

__all__ = ["rounded"]


def rounded(tree: Any, digits: int = 6) -> Any:
    """The same tree of dicts and lists with every float at `digits` significant digits."""
    if isinstance(tree, dict):
        return {key: rounded(value, digits) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [rounded(value, digits) for value in tree]
    return float(f"{tree:.{digits}g}") if isinstance(tree, float) else tree
