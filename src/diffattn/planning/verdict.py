"""Use it, consider it, or do not: with reasons and their grades, what would change it, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diffattn.planning.published import EVIDENCE, Evidence

__all__ = ["TASKS", "TRAININGS", "Situation", "refusals", "verdict"]

TRAININGS = ("pretraining", "mid-training", "lora", "none")
TASKS = ("retrieval", "general", "code")

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


def refusals(situation: Situation) -> list[dict[str, Any]]:
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
    )  # fmt: skip
    return [{"case": case, "applies": applies, "why": why, "option": option} for case, applies, why, option in cases]


def verdict(situation: Situation, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The answer for V2.

    Args:
        situation: what is wanted and what is there.
        numbers: `decode_ratio`, V2's step over the baseline's at the target; `memory_bound`, whether its attention
            still is; `training_ratio`, FLOPs a token; `noise_mass` and `gains` by correlation, of the noise model;
            `weights`, V2's parameters over the baseline's.

    Returns:
        `answer` ("use V2", "consider", "do not"), `reasons`, `refusals`, `would_change`.
    """
    refused = refusals(situation)
    answer = _answer(situation, refused, numbers)
    return {
        "answer": answer,
        "reasons": [reason.to_dict() for reason in _reasons(situation, numbers, refused)],
        "refusals": refused,
        "would_change": _would_change(situation, refused, numbers),
    }


def _answer(situation: Situation, refused: list[dict[str, Any]], numbers: Mapping[str, Any]) -> str:
    if any(entry["applies"] for entry in refused):
        return "do not"
    unknown = any(entry["applies"] is None for entry in refused)
    trained = situation.training in ("pretraining", "mid-training")
    long = situation.context >= LONG_CONTEXT and situation.task != "code"
    return "use V2" if long and trained and not unknown and numbers["memory_bound"] else "consider"


def _reasons(situation: Situation, numbers: Mapping[str, Any], refused: list[dict[str, Any]]) -> list[Evidence]:
    found = [_derived(f"Refused: {entry['case']}: {entry['why']}.") for entry in refused if entry["applies"]]
    found += [_derived(text) for text in (_floor(situation, numbers), _decode(numbers), _training(numbers))]
    names = ["loss measured", "loss claimed", "small effects", "attention"]
    if situation.task != "code":
        names.append("hallucination")
    if situation.training in ("lora", "mid-training", None):
        names.append("fine-tuning control")
    return found + [EVIDENCE[name] for name in (*names, "gated", "instability", "engines")]


def _floor(situation: Situation, numbers: Mapping[str, Any]) -> str:
    gains = ", ".join(f"{gain:.2f} at a correlation of {rho:g}" for rho, gain in numbers["gains"].items())
    return (
        f"At {situation.context:,} tokens the noise model leaves {numbers['noise_mass']:.1%} of softmax's weight to "
        f"noise under the assumptions given; the best lambda gains {gains} in signal-to-noise."
    )


def _decode(numbers: Mapping[str, Any]) -> str:
    bound = "memory" if numbers["memory_bound"] else "arithmetic"
    return (
        f"V2's cache is the baseline's; its decode step takes {numbers['decode_ratio']:.3f} of the baseline's time by "
        f"the roofline, its attention being bound by {bound}."
    )


def _training(numbers: Mapping[str, Any]) -> str:
    return (
        f"V2 has {numbers['weights']:.3f} of the baseline's parameters and {numbers['training_ratio']:.3f} of its "
        "training FLOPs a token, where the feed-forward is not narrowed."
    )


def _would_change(situation: Situation, refused: list[dict[str, Any]], numbers: Mapping[str, Any]) -> list[str]:
    found = [f"Say {entry['option']}: {entry['case']} is refused." for entry in refused if entry["applies"] is None]
    found += [f"Were it not for {entry['case']}." for entry in refused if entry["applies"]]
    if situation.context < LONG_CONTEXT:
        found.append(f"A target of {LONG_CONTEXT:,} tokens or more, where the published gains in retrieval are large.")
    if situation.training == "lora":
        found.append("Training of all weights instead of LoRA.")
    if situation.task == "code":
        found.append("Another task than code, whose answers are mostly near.")
    if not numbers["memory_bound"]:
        found.append(
            "Fewer query heads a key/value head or fewer tokens a step, until decoding is bound by memory again."
        )
    found.append("Your own model measured: heads that find the answer and yet leave most weight to the rest.")
    found.append("A pilot with paired seeds whose interval for V2 minus softmax excludes 0 (--pilot).")
    return found


def _derived(text: str) -> Evidence:
    return Evidence(text=text, grade="derived", source="diffattn plan")


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value
