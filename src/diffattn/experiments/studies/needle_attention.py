"""Tables of the needle study: where attention goes, and what is lost without the subtraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from diffattn.experiments.studies.needle_values import runs_of, variants_of
from diffattn.report.wording import MISSING, finite, signed, variant_name

__all__ = ["attention_table", "switch_off_table"]

Results = Mapping[str, Any]
Table = dict[str, Any]


def attention_table(results: Results) -> Table | None:
    """Where the attention of the head that finds the answer goes."""
    rows = []
    for condition in results["conditions"]:
        for variant in variants_of(results, condition):
            own = [run for run in runs_of(results, condition, variant) if run["mass"]]
            for length in (results["lengths"][0], results["lengths"][-1]) if own else ():
                masses = [run["mass"][str(length)]["summary"]["best_mass"] for run in own]
                cells_of = [
                    _mean_of(masses, name) for name in ("answer_share", "noise_share", "sink_share", "negative")
                ]
                rows.append([variant_name(variant), condition, f"{length:,}", *cells_of, _entropy(own, length)])
    if not rows:
        return None
    return {
        "name": "attention",
        "title": "Attention on the answer and on noise, in the head that gives the answer most",
        "head": ["Variant", "Task", "Tokens", "On the answer", "On noise", "On the first token", "Negative", "Entropy"],
        "rows": rows,
        "note": "Shares of the absolute weights that multiply the values (the signed map's for V1 and V2), means "
        "over seeds. Entropy, in nats, of the first map, a mean over heads.",
    }


def _mean_of(masses: Sequence[Mapping[str, Any] | None], name: str) -> str:
    values = [finite(mass[name]) if mass else None for mass in masses]
    whole = [value for value in values if value is not None]
    return f"{fmean(whole):.3f}" if whole else MISSING


def _entropy(runs: Sequence[Mapping[str, Any]], length: int) -> str:
    return _mean_of([run["mass"][str(length)]["summary"]["first"] for run in runs], "entropy")


def switch_off_table(results: Results) -> Table | None:
    """What differential models lose without a part, all heads together, at the length trained on."""
    rows = []
    for run in results["runs"]:
        if not run.get("switch_off"):
            continue
        pairs = run["dead_pairs"]
        effects = {row["intervention"]: row["effect"] for row in run["switch_off"]["rows"] if row["layer"] is None}
        cells_of = [_effect(effects.get(name)) for name in ("lambda_zero", "lambda_mean", "uniform_noise_map")]
        dead = f"{pairs['dead_count']} of {pairs['pairs_count']}"
        before = run["switch_off"]["accuracy"]
        rows.append(
            [
                variant_name(run["variant"]),
                run["condition"],
                str(run["seed"]),
                MISSING if before is None else f"{before:.3f}",
                *cells_of,
                dead,
            ]
        )
    if not rows:
        return None
    return {
        "name": "switch-off",
        "title": "Accuracy lost when the subtraction is switched off",
        "head": [
            "Variant",
            "Task",
            "Seed",
            "Accuracy",
            "Lambda 0",
            "Lambda at its mean",
            "Second map uniform",
            "Dead pairs",
        ],
        "rows": rows,
        "note": "Changes of accuracy in all heads together, at the length trained on. A pair is dead where its maps "
        "are correlated above .99 or its mean lambda is below .05.",
    }


def _effect(effect: Mapping[str, Any] | None) -> str:
    value = finite(((effect or {}).get("accuracy_difference") or {}).get("mean"))
    return MISSING if value is None else signed(value, 3)
