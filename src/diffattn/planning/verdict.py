"""Use it, consider it, or do not: with reasons and their grades, what would change it, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diffattn.planning.document import share
from diffattn.planning.published import EVIDENCE, Evidence

__all__ = ["TASKS", "TRAININGS", "Situation", "refusals", "verdict"]

TRAININGS = ("pretraining", "mid-training", "lora", "none")
TASKS = ("retrieval", "general", "code")

#: Below this share of noise a measured model holds up; a gain of less than this is none.
_HOLDS_UP, _NO_GAIN = 0.1, 1.05
#: Under this a context is short: nothing published shows a gain in retrieval there that decides.
SHORT_CONTEXT = 16_384
#: From this on the published gains in retrieval are large.
LONG_CONTEXT = 65_536
_INDISTINGUISHABLE = 4_096


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What the decision depends on besides the model. None: not said.

    Attributes:
        context: the target, tokens.
        training: one of `TRAININGS`, how the model would be trained with the new attention.
        task: one of `TASKS`, what the model is mostly for.
        long_data: whether there is training text as long as the context.
        long_evaluation: whether there is an evaluation at that length.
    """

    context: int
    training: str | None = None
    task: str | None = None
    long_data: bool | None = None
    long_evaluation: bool | None = None

    def __post_init__(self) -> None:
        for name, known in (("training", TRAININGS), ("task", TASKS)):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")


def refusals(situation: Situation, numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """When no plan for adding differential attention is given, and whether that is so here (None: not said)."""
    training, context = situation.training, situation.context
    short = context < (_INDISTINGUISHABLE if training == "pretraining" else SHORT_CONTEXT)
    cases = (
        ("no training", None if training is None else training == "none",
         "a trained softmax model cannot be switched over: its second map has to be learnt", "--training"),
        ("no long-context data", _not(situation.long_data),
         "what a model is to find at length it must have been trained to find at length", "--long-data"),
        ("no long-context evaluation", _not(situation.long_evaluation),
         "without one nobody will know whether it helped", "--long-evaluation"),
        ("short contexts", short,
         f"under {SHORT_CONTEXT:,} tokens (under {_INDISTINGUISHABLE:,} from scratch) no gain has been shown that pays",
         "--context"),
        ("the model holds up", _holds_up(situation, numbers),
         "by the margin and strength given softmax leaves under 10% to noise", "--margin and --strength"),
    )  # fmt: skip
    return [{"case": case, "applies": applies, "why": why, "option": option} for case, applies, why, option in cases]


def _holds_up(situation: Situation, numbers: Mapping[str, Any]) -> bool | None:
    """Whether a model that is there already has no floor to speak of; one trained from scratch is not there yet."""
    if numbers["noise_measured"]:
        return bool(numbers["noise_mass"] < _HOLDS_UP)
    return False if situation.training == "pretraining" else None


def verdict(situation: Situation, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The answer for V2.

    Args:
        situation: what is wanted and what is there.
        numbers: `decode_ratio`, V2's step over the baseline's at the target, at `decode_batch`; `memory_bound`, whether
            its attention still is; `prefill_ratio`, `training_ratio`: FLOPs; `noise_mass` and `gains` by correlation,
            of the noise model, whether its assumptions are `noise_measured` and whether it `noise_holds`; `weights`,
            V2's parameters over the baseline's; `positions`, tokens that the model was made for; `pilot`, the interval
            of V2's loss minus the baseline's, or None.

    Returns:
        `answer` ("use V2", "consider", "do not"), `reasons`, `refusals`, `would_change`.
    """
    refused = refusals(situation, numbers)
    return {
        "answer": _answer(situation, refused, numbers),
        "reasons": [reason.to_dict() for reason in _reasons(situation, numbers, refused)],
        "refusals": refused,
        "would_change": _would_change(situation, refused, numbers),
    }


def _answer(situation: Situation, refused: list[dict[str, Any]], numbers: Mapping[str, Any]) -> str:
    pilot = numbers["pilot"]
    if any(entry["applies"] for entry in refused) or (pilot and pilot[0] > 0):
        return "do not"
    said = all(entry["applies"] is not None for entry in refused) and situation.task == "retrieval"
    trained = situation.training in ("pretraining", "mid-training")
    gains = numbers["noise_holds"] and max(numbers["gains"].values()) > _NO_GAIN and not (pilot and pilot[1] >= 0)
    long = situation.context >= LONG_CONTEXT
    return "use V2" if said and trained and gains and long and numbers["memory_bound"] else "consider"


def _reasons(situation: Situation, numbers: Mapping[str, Any], refused: list[dict[str, Any]]) -> list[Evidence]:
    found = [_derived(f"Refused: {entry['case']}: {entry['why']}.") for entry in refused if entry["applies"]]
    found += [_pilot(numbers["pilot"])] if numbers["pilot"] else []
    texts = (_floor, _decode, _prefill, _training, _positions)
    found += [_derived(text) for text in (make(situation, numbers) for make in texts) if text]
    names = ["loss measured", "loss claimed", "small effects", "attention"]
    if situation.task != "code":
        names.append("hallucination")
    if situation.training != "pretraining":
        names.append("fine-tuning control")
    return found + [EVIDENCE[name] for name in (*names, "gated", "instability", "stability", "engines")]


def _pilot(interval: list[float]) -> Evidence:
    low, high = interval
    text = f"Your pilot: V2 minus softmax {low:+.4f} to {high:+.4f} nats a token (95% t interval)."
    return Evidence(text=text, grade="measured here", source="--pilot")


def _floor(situation: Situation, numbers: Mapping[str, Any]) -> str:
    gains = ", ".join(f"{gain:.2f} at a correlation of {rho:g}" for rho, gain in numbers["gains"].items())
    source = "by the margin and strength given" if numbers["noise_measured"] else "under assumptions"
    fails = "" if numbers["noise_holds"] else " The closed form fails at this strength, so that no gain is known."
    return (
        f"At {situation.context:,} tokens the noise model leaves {share(numbers['noise_mass'])} of softmax's weight to "
        f"noise, {source}; the best lambda gains {gains} in signal-to-noise.{fails}"
    )


def _decode(situation: Situation, numbers: Mapping[str, Any]) -> str:
    bound = "memory" if numbers["memory_bound"] else "arithmetic"
    return (
        f"V2's cache is the baseline's; its decode step takes {numbers['decode_ratio']:.3f} of the baseline's time at "
        f"batch {numbers['decode_batch']} by the roofline, its attention being bound by {bound}."
    )


def _prefill(situation: Situation, numbers: Mapping[str, Any]) -> str:
    return (
        f"Reading a prompt of {situation.context:,} tokens takes {numbers['prefill_ratio']:.2f} times the baseline's "
        "FLOPs: prefill is not free."
    )


def _training(situation: Situation, numbers: Mapping[str, Any]) -> str:
    return (
        f"V2 has {numbers['weights']:.3f} of the baseline's parameters and {numbers['training_ratio']:.3f} of its "
        f"training FLOPs a token at {numbers['train_length']:,} tokens a sequence, the feed-forward as it is."
    )


def _positions(situation: Situation, numbers: Mapping[str, Any]) -> str:
    positions = numbers["positions"]
    if not positions or situation.context <= positions:
        return ""
    return (
        f"The target is {situation.context / positions:.3g} times the {positions:,} positions that the model was made "
        "for: extend them (RoPE base or YaRN), and the control's in the same way."
    )


def _would_change(situation: Situation, refused: list[dict[str, Any]], numbers: Mapping[str, Any]) -> list[str]:
    found = [
        f"{entry['case'].capitalize()} would be refused: say {entry['option']}."
        for entry in refused
        if entry["applies"] is None
    ]
    found += [f"If it were not so: {entry['case']}." for entry in refused if entry["applies"]]
    if situation.task is None:
        found.append("Say --task: what is published is about retrieval.")
    if situation.context < LONG_CONTEXT:
        found.append(f"A target of {LONG_CONTEXT:,} tokens or more, where the published gains in retrieval are large.")
    if situation.training == "lora":
        found.append("Training of all weights instead of LoRA.")
    if situation.task in ("code", "general"):
        found.append("Retrieval or questions over many documents as the task.")
    if not numbers["memory_bound"]:
        found.append("Fewer heads a key/value head or fewer tokens a step, until decoding is bound by memory again.")
    if not numbers["noise_measured"]:
        found.append("Your own model measured (diffattn noise --model), and its --margin and --strength given.")
    if not numbers["pilot"]:
        found.append("A pilot with paired seeds (--pilot): worse than softmax is a no, not told apart a consider.")
    return found


def _derived(text: str) -> Evidence:
    return Evidence(text=text, grade="derived", source="diffattn plan")


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value
