"""The noise laboratory: draw, measure, say what came of it."""

from __future__ import annotations

import json
from typing import Any

from diffattn.experiments.environment import machine, now, versions
from diffattn.experiments.noise.answers import answers
from diffattn.experiments.noise.settings import NoiseRequest
from diffattn.experiments.noise.sweeps import FIXED_LAMBDAS, measure_all
from diffattn.planning.noise_model import losing_strength
from diffattn.storage import to_json

__all__ = ["run_noise"]


def run_noise(request: NoiseRequest, *, command: str, progress: bool = True) -> dict[str, Any]:
    """All sweeps and controls of `request`, and the answers in words.

    Args:
        request: what to draw.
        command: kept in the results.
        progress: show a bar on standard error where it takes longer than two seconds.

    Returns:
        What `results.json` holds: `schema`, `kind` "noise", `created`, `command`, `versions`, `machine`, `options`,
        `seed`, `losing_strengths` (from which a fixed lambda loses), `rows` and `answers`. Numbers that are not finite
        are None.
    """
    results = {
        "schema": 1,
        "kind": "noise",
        "created": now(),
        "command": command,
        "versions": versions(("torch", "numpy", "scipy")),
        "machine": machine(),
        "options": request.to_dict(),
        "seed": request.seed,
        "losing_strengths": [{"lambda": lam, "strength": losing_strength(lam)} for lam in FIXED_LAMBDAS],
        "rows": measure_all(request, progress),
    }
    results["answers"] = answers(results)
    return json.loads(to_json(results))
