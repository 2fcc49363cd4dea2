"""What to make of the numbers: verdict, noise model, published results, costs, experiments, fields; as sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from diffattn.planning.comparison import LABELS
from diffattn.planning.cost import SCALING_SOURCE
from diffattn.planning.document import Section, Table, amount, plain, share
from diffattn.planning.published import GRADES

__all__ = ["basis", "experiment", "fields", "noise", "retrieval", "training", "verdict"]

Plan = Mapping[str, Any]

_MORE = ("hours more", "money more", "nats to beat")


def verdict(plan: Plan) -> Iterator[Section]:
    """The answer, its reasons by grade, what would change it, and what is refused."""
    found = plan["verdict"]
    yield Section(
        title=f"Verdict on V2: {found['answer']}",
        before=(
            *plan["notes"],
            *(f"- {entry['text']} ({entry['grade']}: {entry['source']})" for entry in found["reasons"]),
        ),
        after=("What would change it:", *(f"- {text}" for text in found["would_change"])),
    )
    rows = tuple(
        (
            entry["case"],
            {True: "yes", False: "no", None: f"not said ({entry['option']})"}[entry["applies"]],
            entry["why"],
        )
        for entry in found["refusals"]
    )
    yield Section(title="Refused where", table=Table(columns=("case", "so here", "why"), rows=rows))


def noise(plan: Plan) -> Section:
    """The floor at the longest context, and what subtraction gains by the correlation of the maps' noise."""
    noise, assumed = plan["noise"], plan["asked"]["noise"]
    source = "Given" if assumed["measured"] else "Assumed, as no configuration tells"
    before = (
        f"{source}: margin {assumed['margin']:g}, strength {assumed['strength']:g}, the "
        f"match's margin in the second map {assumed['second_margin']:g}. Your own model: diffattn noise --model.",
        f"Softmax at {noise['context']:,} tokens: {share(noise['noise_mass'])} of the weight on noise; signal-to-noise "
        f"of a position {noise['signal_to_noise']:,.4g}, the same at every length; of the output "
        f"{noise['output_signal_to_noise']:.3g}; the match scores highest with probability "
        f"{share(noise['largest_chance'])}. A noise mass of 10% needs a margin of {noise['margin_for_tenth']:.2f}.",
    )
    columns = (
        "correlation of noise",
        "best lambda",
        "gain",
        f"gain at {assumed['lam']:g}",
        "gain of output",
        "length carried",
    )
    rows = tuple(
        (
            f"{row['correlation']:g}",
            f"{row['best_lambda']:.3f}",
            f"{row['gain']:.2f}",
            f"{row['fixed_gain']:.2f}",
            f"{row['output_gain']:.2f}",
            f"{row['length_factor']:.2f}",
        )
        for row in noise["rows"]
    )
    holds = "" if noise["holds"] else " The closed form fails here: the noise's sum is too far from its mean."
    after = (
        f"Sharper scores alone (times {noise['sharpening']:.3g}) also raise it: compare with those.{holds}",
        "Length carried: a context so many times longer has softmax's output noise again.",
    )
    return Section(
        title="What the noise model says", before=before, table=Table(columns=columns, rows=rows), after=after
    )


def retrieval(plan: Plan) -> Section:
    """What was published at the nearest context."""
    entries = plan["retrieval"]
    rows = tuple(
        (f"{entry['context']:,}", entry["task"], f"{entry['softmax']:.2f}", f"{entry['differential']:.2f}")
        for entry in entries
    )
    first = entries[0]
    return Section(
        title="Published retrieval nearest to it",
        table=Table(columns=("context", "task", "softmax", "differential"), rows=rows),
        after=(
            f"{first['model']} ({first['grade']}: {first['source']}).",
            "No retrieval result is published for V2, and none for any version beyond 65,536 tokens.",
        ),
    )


def training(plan: Plan) -> Iterator[Section]:
    """What a variant costs more, what it must bring, and cheaper ways."""
    training = plan["training"]
    assumed = ", assumed as 20 a parameter" if training["tokens_assumed"] else ""
    rows = tuple(_cost(key, training) for key in training["runs"])
    columns = ("model", "FLOPs of baseline", "device hours", "money", "kWh", "for energy", *_MORE)
    before = (
        f"{training['tokens'] / 1e9:,.4g} billion tokens{assumed}, sequences of {training['length']:,}, "
        f"{training['prices']['utilization']:.0%} of the machine's rate.",
    )
    after = (
        "Nats to beat: what the same extra FLOPs, spent on more tokens for the baseline, would lower the loss by "
        f"({SCALING_SOURCE}). A variant pays where it lowers the loss by more, or brings retrieval that loss does not "
        "show. The law is of training from scratch, and of 40 million to 100 billion parameters.",
    )
    yield Section(
        title="Training, and what must be brought for it",
        before=before,
        table=Table(columns=columns, rows=rows),
        after=after,
    )
    others = tuple(
        (entry["name"], f"{entry['parameters']:+,}", f"{entry['flops_ratio']:.3f}", entry["what"])
        for entry in training["alternatives"]
    )
    names = ("alternative", "parameters", "FLOPs of baseline", "what it does")
    yield Section(title="Cheaper ways to try first", table=Table(columns=names, rows=others))


def _cost(key: str, training: Mapping[str, Any]) -> tuple[str, ...]:
    """One model's whole training, and what it costs more than the baseline's."""
    run, more = training["runs"][key], training["break_even"].get(key)
    cells = tuple(_money(run[name]) for name in ("device_hours", "money", "energy_kwh", "energy_money"))
    if more is None:
        return (LABELS[key], "1.000", *cells, "-", "-", "-")
    known = training["from_scratch"] and more["loss_bought"] is not None
    beat = f"{more['loss_bought']:.4f}" if known else "-"
    extra = (_money(more["device_hours"]), _money(more["money"]))
    return (LABELS[key], f"{more['ratio']:.3f}", *cells, *extra, beat)


def _money(value: float | None) -> str:
    return "-" if value is None else plain(value)


def experiment(plan: Plan) -> Section:
    """How many paired seeds would show the difference asked for."""
    found = plan["experiment"]
    goal = f"To show a difference of {found['difference']:g} nats a token (95% interval, 80% power)"
    shown = f"{found['pairs_given']} pairs show"
    title = "How many seeds and tokens"
    if found["pilot"] is None:
        rows = tuple((f"{row['spread']:g}", str(row["pairs"]), f"{row['shown']:.4f}") for row in found["table"])
        table = Table(columns=("spread assumed", "pairs of runs", shown), rows=rows)
        text = f"{goal}, for assumed spreads of the paired difference over seeds; a pilot's comes from --pilot."
        return Section(title=title, before=(text,), table=table)
    pilot, tokens, evaluated = found["pilot"], found["tokens"], found["evaluation_tokens"]
    total = f", {tokens / 1e6:,.4g} million training tokens in all runs together" if tokens else ""
    low, high = pilot["interval"]
    texts = (
        f"The pilot: {pilot['mean']:+.4f} nats a token, 95% interval {low:+.4f} to {high:+.4f}.",
        f"{goal} at its spread of {pilot['deviation']:.4f} over {len(pilot['differences'])} seeds: "
        f"{found['pairs']} pairs of runs{total}; {shown} {found['shown']:.4f}. The spread at another size or length of "
        "training is another.",
        "The pilot keeps no losses by part of the text, so that the tokens to evaluate on cannot be told."
        if evaluated is None
        else f"{evaluated:,} tokens to evaluate on, so that the text alone does not hide it, by the pilot's parts.",
    )
    return Section(title=title, before=texts)


def fields(plan: Plan) -> Section:
    """What changes in the configuration."""
    title = f"Fields to change for {LABELS[plan['asked']['variant']]}"
    if not plan["fields"]:
        return Section(title=title, before=("The model is differential already: compare its column with the others'.",))
    rows = tuple(
        (entry["field"], _shown(entry["before"]), _shown(entry["after"]), entry["why"]) for entry in plan["fields"]
    )
    after = "DiffTransformerConfig.from_baseline(config, attention=...) sets them, match_parameters=True the width too."
    if not plan["expressible"]:
        after = "DiffTransformerConfig has no such body: change the model's own code, by the parameters listed above."
    return Section(title=title, table=Table(columns=("field", "now", "then", "why"), rows=rows), after=(after,))


def basis(plan: Plan) -> Section:
    """Machine, conventions and grades."""
    hardware = plan["asked"]["hardware"]
    return Section(
        title="What the numbers rest on",
        after=(
            f"{hardware['name']}: {amount(hardware['flops'], 'FLOP/s')}, {amount(hardware['bandwidth'], 'B/s')} "
            f"({hardware['source']}); the most that a kernel can reach.",
            "A multiply-add is 2 FLOPs; matrix products alone count; causal queries see what precedes them; a backward "
            "is twice its forward; a step reads all weights, and experts at random.",
            *(f"Grade {name}: {meaning}." for name, meaning in GRADES.items()),
        ),
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{value.count(kind)} x {kind}" for kind in dict.fromkeys(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "-" if value is None else str(value)
