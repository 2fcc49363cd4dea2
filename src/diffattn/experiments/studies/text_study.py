"""What the studies of trainings on text share: jobs, step times, tables and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from diffattn.data import PreparedData
from diffattn.evaluation import TrainingStepConfig, training_step
from diffattn.experiments.intervals import bootstrap_over_parts
from diffattn.experiments.presets import Preset
from diffattn.experiments.speed import alternate, ratios
from diffattn.experiments.studies.budgets import final_bits, named
from diffattn.experiments.studies.charts import axis, curves_chart, seed_curves
from diffattn.experiments.studies.comparisons import p_text
from diffattn.experiments.studies.variants import variant_config
from diffattn.report.wording import MISSING, as_given, count, decimals_for, finite, number, signed, variant_name
from diffattn.training import build_model

__all__ = [
    "Configs",
    "add_parts",
    "comparison_table",
    "failures",
    "limits",
    "step_ratios",
    "training_charts",
    "variant_table",
]

Run = Mapping[str, Any]
Configs = Mapping[str, tuple[str, Mapping[str, Any]]]


def step_ratios(size: Preset, data: PreparedData, configs: Configs, rounds: int) -> dict[str, dict[str, float]]:
    """Median and quartiles of each variant's training step over that of the first, in alternating rounds.

    Args:
        size: the baseline's size and training.
        data: the corpus.
        configs: names to (variant, fields of its configuration); the first is the baseline.
        rounds: samples of each.
    """
    baseline, context = size.baseline(data.vocab_size), size.settings.context
    models = {
        name: build_model(variant_config(baseline, variant, context, **fields), 0)
        for name, (variant, fields) in configs.items()
    }
    config = TrainingStepConfig(context=context, batch_size=size.settings.batch_size)
    samples = alternate(models, lambda model: training_step.measure(model, data, config), rounds)
    first = samples[next(iter(configs))]
    return {name: ratios(values, first) for name, values in samples.items()}


def add_parts(comparisons: Sequence[dict[str, Any]], runs: Sequence[Run]) -> None:
    """Give each comparison on the test text its `parts`: the interval of bits a byte by bootstrap over the text."""
    for entry in comparisons:
        if entry["measure"].startswith("test"):
            entry["parts"] = _parts_interval(named(runs, entry["variant"]), named(runs, entry["baseline"]))


def _parts_interval(ours: Sequence[Run], theirs: Sequence[Run]) -> dict[str, Any] | None:
    """None where a run of a pair broke down."""
    pairs = [
        (a["evaluation"].get("test"), b["evaluation"].get("test"))
        for a in ours
        for b in theirs
        if a["seed"] == b["seed"]
    ]
    tests = [(a, b) for a, b in pairs if a and b]
    if not tests or len(tests) < len(pairs) or any(finite(one["nll"]) is None for pair in tests for one in pair):
        return None
    differences = [[x - y for x, y in zip(a["part_nll"], b["part_nll"], strict=True)] for a, b in tests]
    first = tests[0][0]
    # Parts are weighed by their tokens; one factor takes nats a token to bits a byte.
    found = bootstrap_over_parts(differences, first["part_tokens"])
    factor = first["bits_per_byte"] / first["nll"] * first["tokens"]
    return {key: value * factor if key in _SCALED and value is not None else value for key, value in found.items()}


_SCALED = ("difference_mean", "interval_low", "interval_high")


def variant_table(results: Mapping[str, Any], beside: str = "softmax's") -> dict[str, Any]:
    """What each variant is and what it came to; `beside` says whose step time is 1."""
    rows = [_variant_row(name, results) for name in results["variants"]]
    head = ["Variant", "Parameters", "Training FLOPs a token", "Learning rate", "Step time"]
    return {
        "name": "variants",
        "title": "Variants",
        "head": [*head, "Test bits a byte, mean", "Lowest to highest", "Diverged"],
        "rows": rows,
        "note": f"Step time is a multiple of {beside}, the median of alternating rounds. Lower bits a byte are better.",
    }


def _variant_row(name: str, results: Mapping[str, Any]) -> list[str]:
    own = named(results["runs"], name)
    whole = [value for run in own if (value := final_bits(run)) is not None]
    broken = len(own) - len(whole)
    return [
        variant_name(name),
        count(own[0]["parameters"]),
        count(own[0]["flops_per_token"]),
        as_given(results["tuning"][name]["rate"]),
        number(results["step_ratios"][name]["ratio_median"], 3),
        f"{fmean(whole):.4f}" if whole else MISSING,
        f"{min(whole):.4f} to {max(whole):.4f}" if whole else MISSING,
        f"{broken} of {len(own)}" if broken else "none",
    ]


def comparison_table(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Every comparison with its interval over seeds and, where it was taken, over parts of the text."""
    rows = [_comparison_row(entry) for entry in comparisons]
    return {
        "name": "comparisons",
        "title": "Comparisons, paired by seed",
        "head": [
            "Pair",
            "Measure",
            "Mean",
            "95% t interval over seeds",
            "95% bootstrap over parts of the text",
            "Corrected by Holm",
            "Smallest difference seen with 80% power",
            "Outcome",
        ],
        "rows": rows,
        "note": "The interval over seeds covers initial weights and token order; that over parts of the text covers "
        "which text was measured, these models taken as given.",
    }


def _comparison_row(entry: Mapping[str, Any]) -> list[str]:
    found = [finite(entry[key]) for key in _SCALED]
    decimals = decimals_for([value for value in found if value is not None])
    mean, low, high = (MISSING if value is None else signed(value, decimals) for value in found)
    smallest = finite(entry["detectable"])
    return [
        f"{variant_name(entry['variant'])} minus {variant_name(entry['baseline'])}",
        f"{entry['at']}, {entry['measure']}",
        mean,
        f"{low} to {high}",
        _parts(entry.get("parts"), decimals),
        p_text(entry["p_holm"]),
        MISSING if smallest is None else number(smallest, 2),
        entry["outcome"],
    ]


def training_charts(runs: Sequence[Run], names: Sequence[str], of: str = "") -> list[dict[str, Any]]:
    """Validation, training loss, gradient norm and lambda over tokens; `of` tells several such sets apart."""
    spread = "Lines are means over seeds, bands the lowest to highest. A gap: a run had no finite number."
    x = axis("training tokens")

    def chart(name: str, title: str, label: str, values: Any, **look: Any) -> dict[str, Any] | None:
        curves = seed_curves(runs, values, names)
        return curves_chart(
            f"{name}{of and '-' + of}", f"{title}{of and ', ' + of}", spread, x, axis(label, **look), curves
        )

    found = [
        chart("validation", "Validation text", "bits a byte", lambda run: _watched(run, "validation")),
        chart("loss", "Training loss", "nats a token", lambda run: run["curves"]["loss"]),
        chart(
            "gradient", "Gradient norm before clipping", "norm", lambda run: run["curves"]["gradient_norm"], log=True
        ),
        chart("lambda", "Lambda, mean over layers", "lambda", _mean_lambda),
    ]
    return [one for one in found if one is not None]


def failures(runs: Sequence[Run]) -> list[str]:
    """A sentence for each run that diverged."""
    return [
        f"{variant_name(run['variant'])}, seed {run['seed']}, rate {as_given(run['learning_rate'])}, "
        f"{'clipped' if run['max_grad_norm'] else 'not clipped'}: diverged, its loss was not finite from step "
        f"{run['diverged_at']}."
        for run in runs
        if run["diverged_at"] is not None
    ]


def limits(results: Mapping[str, Any]) -> list[str]:
    """What a study of small models on text cannot say."""
    sizes, tokens = ([run[key] for run in results["runs"]] for key in ("parameters", "tokens"))
    return [
        f"Models of {count(min(sizes))} to {count(max(sizes))} parameters, at most {count(max(tokens))} tokens of "
        f"{results['corpus']['name']}, sequences of {results['settings']['context']}: larger models, longer training "
        "and longer sequences may come out otherwise.",
        "The learning rate is constant after its warm-up, so that equal FLOPs and equal time can be read off the "
        "curves; a decaying rate gives lower losses and may change differences.",
    ]


def _watched(run: Run, name: str) -> Sequence[float | None] | None:
    return (run["curves"].get("watched") or {}).get(name)


def _mean_lambda(run: Run) -> list[float | None] | None:
    logged = (run["curves"].get("lambda") or {}).get("mean")
    if not logged:
        return None
    return [None if any(finite(one) is None for one in layers) else fmean(layers) for layers in logged]


def _parts(found: Mapping[str, Any] | None, decimals: int) -> str:
    if found is None or found["interval_low"] is None:
        return MISSING
    return f"{signed(found['interval_low'], decimals)} to {signed(found['interval_high'], decimals)}"
