"""The plan: every number that a decision about differential attention needs, from one configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffattn.planning.body import Model
from diffattn.planning.comparison import LABELS, comparison
from diffattn.planning.cost import TOKENS_A_PARAMETER, alternatives, break_even, training_cost
from diffattn.planning.families import read_model
from diffattn.planning.figures import bounds, decode, sizes
from diffattn.planning.floor import noise_floor
from diffattn.planning.flops import training_flops
from diffattn.planning.integration import fields_to_change, is_expressible
from diffattn.planning.own_attention import own_attention
from diffattn.planning.published import nearest_retrieval
from diffattn.planning.request import PlanRequest
from diffattn.planning.sample_size import difference_shown, paired_losses, pairs_needed, tokens_needed
from diffattn.planning.verdict import verdict

__all__ = ["plan"]


def plan(request: PlanRequest) -> dict[str, Any]:
    """All sections of the plan as plain numbers and words, ready for JSON.

    Raises:
        ValueError: the configuration describes no decoder with softmax attention, or lacks a field, or the variant
            cannot be made of it; the message names the field and what was expected.
    """
    baseline = read_model(request.config, request.name)
    models, missing = comparison(baseline)
    if request.variant in missing:
        raise ValueError(missing[request.variant])
    own = own_attention(request.config, baseline.layers[0].attention)
    if own is not None:
        models["own"] = baseline.with_attention({baseline.layers[0].attention: own}, name=LABELS["own"])
    found = {
        "schema": 1,
        "kind": "plan",
        "model": request.name,
        "notes": list(baseline.notes),
        "missing": missing,
        "asked": _asked(request, baseline),
        "sizes": {key: sizes(model, request) for key, model in models.items()},
        "decode": decode(models, request),
        "bounds": bounds(models, request),
        "noise": noise_floor(request.noise, max(request.contexts)),
        "retrieval": [vars(entry) for entry in nearest_retrieval(max(request.contexts))],
        "training": _training(models, request),
        "experiment": _experiment(request),
        "fields": [] if own is not None else fields_to_change(request, baseline, models),
        "expressible": own is None and is_expressible(request.config),
    }
    return found | {"verdict": verdict(request.situation, _decisive(found, request))}


def _asked(request: PlanRequest, baseline: Model) -> dict[str, Any]:
    machine = request.hardware
    return {
        "variant": request.variant,
        "contexts": list(request.contexts),
        "batches": list(request.batches),
        "queries": request.queries,
        "dtype": request.dtype,
        "positions": baseline.positions,
        "noise": vars(request.noise),
        "situation": vars(request.situation),
        "hardware": {
            "name": machine.name,
            "flops": machine.rate(request.dtype),
            "bandwidth": machine.bandwidth,
            "memory": machine.memory,
            "watts": machine.watts,
            "ridge": machine.ridge(request.dtype),
            "source": machine.source,
        },
    }


def _training(models: Mapping[str, Model], request: PlanRequest) -> dict[str, Any]:
    """Costs of training, beside those of cheaper ways."""
    baseline, length = models["softmax"], request.train_length
    tokens = request.train_tokens or float(TOKENS_A_PARAMETER * baseline.active)
    rest = (request.hardware, request.dtype, request.prices)
    runs = {key: training_cost(training_flops(model, length) * tokens, *rest) for key, model in models.items()}
    others = {key: model for key, model in models.items() if key != "softmax"}
    return {
        "length": length,
        "tokens": tokens,
        "tokens_assumed": request.train_tokens is None,
        "from_scratch": request.from_scratch,
        "prices": vars(request.prices),
        "runs": runs,
        "break_even": {key: break_even(baseline, model, length, tokens, *rest) for key, model in others.items()},
        "alternatives": alternatives(models, length),
    }


def _experiment(request: PlanRequest) -> dict[str, Any]:
    """How many paired seeds would show the difference; without a pilot, for spreads that are assumed."""
    goal, pairs = request.difference, request.pairs
    shown = difference_shown(pairs, 1.0)  # in units of the spread
    found: dict[str, Any] = {"difference": goal, "pairs_given": pairs, "pilot": None}
    if request.pilot is None:
        spreads = [factor * goal for factor in (0.5, 1, 2)]
        rows = [{"spread": spread, "pairs": pairs_needed(goal, spread)} for spread in spreads]
        return found | {"table": [{**row, "shown": shown * row["spread"]} for row in rows]}
    pilot = paired_losses(request.pilot, request.variant)
    if pilot["deviation"] is None:
        raise ValueError("pilot: expected two seeds or more, one has no spread; run diffattn compare with --seeds 3")
    needed, spread = pairs_needed(goal, pilot["deviation"]), pilot["token_deviation"]
    return found | {
        "pilot": pilot,
        "pairs": needed,
        "shown": shown * pilot["deviation"],
        "tokens": pilot["tokens"] and 2 * needed * pilot["tokens"],
        "evaluation_tokens": None if spread is None else tokens_needed(goal, spread),
    }


def _decisive(found: Mapping[str, Any], request: PlanRequest) -> dict[str, Any]:
    """The numbers that the verdict about V2 rests on; decoding at the largest batch that fits, else at the smallest."""
    context, sizes = max(request.contexts), found["sizes"]
    steps = [row for row in found["decode"] if row["model"] == "v2" and row["context"] == context]
    plain = sorted((row for row in steps if not row["combined"]), key=lambda row: row["batch"])
    step = max((row for row in plain if row["fits"] is not False), key=lambda row: row["batch"], default=plain[0])
    pilot = found["experiment"]["pilot"]
    return {
        "decode_ratio": step["ratio"],
        "decode_batch": step["batch"],
        "memory_bound": found["bounds"]["v2"][0]["memory_bound"],
        "prefill_ratio": sizes["v2"]["prefill_flops"][context] / sizes["softmax"]["prefill_flops"][context],
        "training_ratio": found["training"]["break_even"]["v2"]["ratio"],
        "train_length": request.train_length,
        "noise_mass": found["noise"]["noise_mass"],
        "noise_measured": request.noise.measured,
        "noise_holds": found["noise"]["holds"],
        "gains": {row["correlation"]: row["gain"] for row in found["noise"]["rows"]},
        "weights": sizes["v2"]["total"] / sizes["softmax"]["total"],
        "positions": found["asked"]["positions"],
        "pilot": pilot["interval"] if pilot and request.variant == "v2" else None,
    }
