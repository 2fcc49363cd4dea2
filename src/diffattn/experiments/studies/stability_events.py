"""What counts as an event of a training run, and what the events say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from diffattn.report.wording import as_given, finite, join_words, variant_name

__all__ = ["LARGE_LAMBDA", "count_spikes", "describe_run", "highest_sound_rate", "is_sound", "stability_outcomes"]

LARGE_LAMBDA = 10.0
_SPIKE, _BACK = 0.5, 0.25
_LAST = 10  # logged entries that the final loss is the mean of

Run = Mapping[str, Any]
Outcome = dict[str, str]


def count_spikes(losses: Sequence[float | None]) -> int:
    """How often the loss rises more than 0.5 above the lowest before it, anew once it is back within 0.25 of that."""
    lowest, inside, spikes = float("inf"), False, 0
    for loss in losses:
        if loss is None or finite(loss) is None:
            continue
        if not inside and loss > lowest + _SPIKE:
            inside, spikes = True, spikes + 1
        elif inside and loss <= lowest + _BACK:
            inside = False
        lowest = min(lowest, loss)
    return spikes


def describe_run(run: Run) -> dict[str, Any]:
    """The events of a run of `text_job.run`.

    Returns:
        `diverged`, `spikes`, `largest_lambda` (absolute, over heads, tokens and logged steps; None without one),
        `large_lambda_at` (the first logged step at which it is above 10), `largest_context_rms`, `final_loss` (mean of
        the last 50 steps; None where the run diverged).
    """
    curves = run["curves"]
    lambdas = _largest_lambda(curves.get("lambda"))
    over = [step for step, value in zip(curves["step"], lambdas, strict=False) if value is None or value > LARGE_LAMBDA]
    sizes = [value for value in (curves.get("watched") or {}).get("context_rms") or () if finite(value) is not None]
    last = curves["loss"][-_LAST:]
    return {
        "diverged": run["diverged_at"] is not None,
        "spikes": count_spikes(curves["loss"]),
        "largest_lambda": max((value for value in lambdas if value is not None), default=None),
        "large_lambda_at": over[0] if over else None,
        "largest_context_rms": max(sizes, default=None),
        "final_loss": None if any(finite(value) is None for value in last) else fmean(last),
    }


def is_sound(run: Run) -> bool:
    """Whether the run had no event."""
    events = run["events"]
    return not events["diverged"] and not events["spikes"] and events["large_lambda_at"] is None


def highest_sound_rate(runs: Sequence[Run], variant: str, clip: float, rates: Sequence[float]) -> float | None:
    """The highest of the rates up to which no run of the variant had an event; None where the lowest had one."""
    found = None
    for rate in sorted(rates):
        own = [run for run in runs if _is(run, variant, clip) and run["learning_rate"] == rate]
        if not own or not all(map(is_sound, own)):
            break
        found = rate
    return found


def stability_outcomes(runs: Sequence[Run], rates: Sequence[float]) -> list[Outcome]:
    """The hypotheses, as `name` and `text` where there are no runs yet, else each with its outcome and sentence."""
    stated = {
        "norm hides": "V1's norm hides growth: some run of V1 with the norm reaches a lambda above 10 without a spike.",
        "norm needed": "V1 without its norm has its first event at a lower learning rate than V1 with it.",
        "V2 stable": "V2, which has no norm, has no event at any rate and clipping at which softmax has none.",
        "gate stable": "Gated attention has no event at any rate and clipping at which softmax has none.",
    }
    if not runs:
        return [{"name": name, "text": text} for name, text in stated.items()]
    found = [_norm_hides(runs), _norm_needed(runs, rates), _as_sound(runs, "v2"), _as_sound(runs, "gated")]
    return [
        {"hypothesis": name, "outcome": outcome, "sentence": sentence}
        for name, (outcome, sentence) in zip(stated, found, strict=True)
    ]


def _is(run: Run, variant: str, clip: float | None = None) -> bool:
    return run["variant"] == variant and (clip is None or run["max_grad_norm"] == clip)


def _where(runs: Sequence[Run]) -> str:
    places = [
        f"{as_given(run['learning_rate'])} {'with' if run['max_grad_norm'] else 'without'} clipping" for run in runs
    ]
    return join_words(list(dict.fromkeys(places)))


def _norm_hides(runs: Sequence[Run]) -> tuple[str, str]:
    own = [run for run in runs if _is(run, "v1")]
    if not own:
        return "not measured", "V1 was not among the variants."
    hidden = [run for run in own if _hides(run["events"])]
    if hidden:
        return "supported", f"V1's lambda passed 10 without a spike in the loss at {_where(hidden)}."
    largest = max((run["events"]["largest_lambda"] or 0.0 for run in own), default=0.0)
    return "contradicted", f"No run of V1 did so at these rates; its largest lambda was {as_given(largest)}."


def _hides(events: Mapping[str, Any]) -> bool:
    """A lambda above 10 beside a loss that shows nothing; one that is not finite in a run that diverged is none."""
    return events["large_lambda_at"] is not None and not events["spikes"] and not events["diverged"]


def _norm_needed(runs: Sequence[Run], rates: Sequence[float]) -> tuple[str, str]:
    first = {name: _first_event(runs, name, rates) for name in ("v1", "v1-no-norm")}
    if not all(any(_is(run, name) for run in runs) for name in first):
        return "not measured", "V1 with and without its norm were not both among the variants."
    words = {
        name: f"first at {as_given(rate)}" if rate is not None else "at no rate tried" for name, rate in first.items()
    }
    sentence = f"V1 has an event {words['v1']}, V1 without its norm {words['v1-no-norm']}."
    with_norm, without = (float("inf") if rate is None else rate for rate in first.values())
    if with_norm == without:
        return "not resolved", f"{sentence} These rates do not tell them apart."
    return ("supported" if without < with_norm else "contradicted"), sentence


def _first_event(runs: Sequence[Run], variant: str, rates: Sequence[float]) -> float | None:
    broken = [run["learning_rate"] for run in runs if _is(run, variant) and not is_sound(run)]
    return min(broken, default=None)


def _as_sound(runs: Sequence[Run], variant: str) -> tuple[str, str]:
    name = variant_name(variant)
    if not any(_is(run, variant) for run in runs) or not any(_is(run, "softmax") for run in runs):
        return "not measured", f"{name} and softmax were not both among the variants."
    settings = {(run["learning_rate"], run["max_grad_norm"], run["seed"]) for run in runs if _is(run, "softmax")}
    sound = {place for place in settings if all(is_sound(run) for run in runs if _at(run, "softmax", place))}
    worse = [run for run in runs for place in sound if _at(run, variant, place) and not is_sound(run)]
    if worse:
        return "contradicted", f"{name} had an event where softmax had none: {_where(worse)}."
    if not sound:
        return "not resolved", "Softmax itself had an event everywhere."
    return "supported", f"{name} had no event in any of the {len(sound)} runs in which softmax had none."


def _at(run: Run, variant: str, place: tuple[float, float, int]) -> bool:
    return _is(run, variant) and (run["learning_rate"], run["max_grad_norm"], run["seed"]) == place


def _largest_lambda(logged: Mapping[str, Any] | None) -> list[float | None]:
    """Of each logged step, over layers: the largest absolute lambda; None where it is not finite."""
    if not logged:
        return []
    found = []
    for low, high in zip(logged["min"], logged["max"], strict=True):
        ends = [finite(value) for value in (*low, *high)]
        found.append(None if None in ends else max(abs(value) for value in ends if value is not None))
    return found
