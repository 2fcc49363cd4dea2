"""Tables and charts of the stability study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diffattn.experiments.headlines import by_kind
from diffattn.experiments.studies.charts import axis, curves_chart, index_of
from diffattn.experiments.studies.stability_events import LARGE_LAMBDA
from diffattn.report.wording import MISSING, as_given, count, finite, number, quantity, variant_name

__all__ = ["stability_charts", "stability_tables"]

Run = Mapping[str, Any]


def stability_tables(runs: Sequence[Run], results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Events by rate, sizes by rate, gradient shares, and what each variant costs."""
    return [
        *(_grid(runs, results, clip, "events", "Events", _events, _EVENTS) for clip in results["clips"]),
        *(
            _grid(runs, results, clip, "loss", "Final loss", _loss, "Nats a token, mean of the last 50 steps.")
            for clip in results["clips"]
        ),
        *(
            _grid(runs, results, clip, "rms", "Largest RMS of the context before any norm", _rms, _RMS)
            for clip in results["clips"]
        ),
        *(_grid(runs, results, clip, "error", "Error in bfloat16", _error, _ERROR) for clip in results["clips"]),
        _gradients(runs, results),
        _costs(runs, results),
    ]


_EVENTS = "Of all seeds: diverged, spikes, and the largest lambda where it is above 10. A dot: none."
_RMS = "Over layers, tokens and logged steps. Softmax's stays below 1 for values of unit size."
_ERROR = "RMS error of the logits under bfloat16, over their RMS in float32, at the end of the training."


def _grid(
    runs: Sequence[Run],
    results: Mapping[str, Any],
    clip: float,
    name: str,
    title: str,
    cell: Callable[[list[Run]], str],
    note: str,
) -> dict[str, Any]:
    """A row for each variant, a column for each rate."""
    rows = []
    for variant in results["variants"]:
        at = [
            [r for r in runs if r["variant"] == variant and r["learning_rate"] == rate and r["max_grad_norm"] == clip]
            for rate in results["rates"]
        ]
        rows.append([variant_name(variant), *(cell(own) if own else MISSING for own in at)])
    clipping = f"clipped at {as_given(clip)}" if clip else "without clipping"
    return {
        "name": f"{name}-clip{clip:g}",
        "title": f"{title}, {clipping}",
        "head": ["Variant", *(f"at {as_given(rate)}" for rate in results["rates"])],
        "rows": rows,
        "note": note,
    }


def _events(own: list[Run]) -> str:
    events = [run["events"] for run in own]
    diverged, spikes = sum(e["diverged"] for e in events), sum(e["spikes"] for e in events)
    large = [e["largest_lambda"] or 0.0 for e in events if e["large_lambda_at"] is not None]
    parts = [f"diverged {diverged} of {len(own)}"] if diverged else []
    parts += [f"{spikes} spike{'s' if spikes > 1 else ''}"] if spikes else []
    if large:
        # An event without a lambda above the bound is one that was not finite.
        parts.append(f"lambda {quantity(max(large), 3)}" if max(large) > LARGE_LAMBDA else "lambda not finite")
    return ", ".join(parts) or "·"


def _loss(own: list[Run]) -> str:
    return _span([run["events"]["final_loss"] for run in own])


def _rms(own: list[Run]) -> str:
    return _span([run["events"]["largest_context_rms"] for run in own])


def _error(own: list[Run]) -> str:
    return _span([((run.get("measures") or {}).get("bfloat16_error") or {}).get("rms") for run in own])


def _span(values: Sequence[Any]) -> str:
    whole = [finite(value) for value in values]
    kept = [value for value in whole if value is not None]
    if not kept:
        return "diverged" if values else MISSING
    low, high = min(kept), max(kept)
    text = quantity(low, 3) if low == high else f"{quantity(low, 3)} to {quantity(high, 3)}"
    return text if len(kept) == len(values) else f"{text}, {len(values) - len(kept)} diverged"


def _gradients(runs: Sequence[Run], results: Mapping[str, Any]) -> dict[str, Any]:
    """At the end of the run at the lowest rate, clipped as first named, first seed."""
    rate, clip = min(results["rates"]), results["clips"][0]
    found = {
        run["variant"]: by_kind(run["measures"]["gradient_norms"])
        for run in runs
        if run["learning_rate"] == rate and run["max_grad_norm"] == clip and run["seed"] == 0 and run.get("measures")
    }
    kinds = list(dict.fromkeys(kind for norms in found.values() for kind in norms))
    return {
        "name": "gradients",
        "title": f"Gradient norm by module at the end, at {as_given(rate)}",
        "head": ["Variant", *kinds],
        "rows": [[variant_name(name), *(_cell(norms.get(kind)) for kind in kinds)] for name, norms in found.items()],
        "note": "Of the loss on a few sequences of the validation text, over all layers together.",
    }


def _cell(value: Any) -> str:
    return MISSING if finite(value) is None else number(value, 3)


def _costs(runs: Sequence[Run], results: Mapping[str, Any]) -> dict[str, Any]:
    rows = []
    for name in results["variants"]:
        own = [run for run in runs if run["variant"] == name]
        seconds = sorted(run["seconds"] for run in own)
        cells = [count(own[0]["parameters"]), count(own[0]["flops_per_token"]), count(own[0]["tokens"])]
        rows.append([variant_name(name), *cells, number(seconds[len(seconds) // 2], 3)])
    return {
        "name": "costs",
        "title": "What a run cost",
        "head": ["Variant", "Parameters", "Training FLOPs a token", "Tokens", "Seconds, median"],
        "rows": rows,
        "note": "Seconds were taken while other runs went on beside.",
    }


def stability_charts(runs: Sequence[Run], results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """At the two highest rates: loss, the context's RMS, lambda, gradient norm; and the final loss by rate."""
    clip = results["clips"][0]
    found = [_final_loss(runs, results, clip)]
    for rate in sorted(results["rates"])[-2:]:
        own = [
            run for run in runs if run["learning_rate"] == rate and run["max_grad_norm"] == clip and run["seed"] == 0
        ]
        found += [
            _over_steps(own, f"loss-{rate:g}", f"Loss at {as_given(rate)}", "nats a token", lambda c: c["loss"]),
            _over_steps(
                own,
                f"rms-{rate:g}",
                f"Largest context RMS at {as_given(rate)}",
                "RMS",
                _watched("context_rms"),
                log=True,
            ),
            _over_steps(own, f"lambda-{rate:g}", f"Largest lambda at {as_given(rate)}", "lambda", _lambda, log=True),
            _over_steps(
                own,
                f"gradient-{rate:g}",
                f"Gradient norm at {as_given(rate)}",
                "norm",
                lambda c: c["gradient_norm"],
                log=True,
            ),
        ]
    return [chart for chart in found if chart]


def _final_loss(runs: Sequence[Run], results: Mapping[str, Any], clip: float) -> dict[str, Any] | None:
    curves = []
    for name in results["variants"]:
        own = [run for run in runs if run["variant"] == name and run["max_grad_norm"] == clip and run["seed"] == 0]
        line = sorted([run["learning_rate"], run["events"]["final_loss"]] for run in own)
        curves.append({"name": variant_name(name), "variant": index_of(name, ()), "points": [], "line": line})
    return curves_chart(
        "final-loss",
        "Final loss by learning rate",
        "A gap: the run diverged. Clipping as first named, first seed.",
        axis("learning rate", log=True),
        axis("nats a token"),
        curves,
    )


def _over_steps(
    own: Sequence[Run], name: str, title: str, label: str, values: Callable[[Any], Any], **look: Any
) -> dict[str, Any] | None:
    curves = []
    for run in own:
        y = values(run["curves"])
        if y:
            line = [list(pair) for pair in zip(run["curves"]["step"], y, strict=False)]
            curves.append(
                {
                    "name": variant_name(run["variant"]),
                    "variant": index_of(run["variant"], ()),
                    "points": [],
                    "line": line,
                }
            )
    caption = "One run each, first seed. A gap: not finite."
    return curves_chart(name, title, caption, axis("step"), axis(label, **look), curves)


def _watched(name: str) -> Callable[[Any], Any]:
    return lambda curves: (curves.get("watched") or {}).get(name)


def _lambda(curves: Any) -> list[float | None] | None:
    logged = (curves.get("lambda") or {}).get("max")
    return (
        [None if any(finite(one) is None for one in layers) else max(layers) for layers in logged] if logged else None
    )
