"""Part 13: when to use it, by the planner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from diffattn.lesson.pages.part import Cell, Column, Exercise, Part, Step, Table
from diffattn.planning.comparison import comparison
from diffattn.planning.families import read_model
from diffattn.planning.figures import decode
from diffattn.planning.floor import NoiseAssumptions
from diffattn.planning.plan import plan
from diffattn.planning.presets import PRESETS
from diffattn.planning.published import EVIDENCE, GRADES
from diffattn.planning.request import PlanRequest

__all__ = ["CASES", "COMBINES", "PART", "Case", "decided", "step_ratio"]

MODEL, LENGTH, BATCH = "llama-3.1-8b", 32_768, 16
HOLDS_UP, FLOODED = (NoiseAssumptions(margin=margin, measured=True) for margin in (16.0, 8.0))
KNOWN = (
    "loss measured",
    "loss claimed",
    "small effects",
    "hallucination",
    "fine-tuning control",
    "gated",
    "instability",
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A situation, the answer in words, and what the planner is asked."""

    words: str
    answer: str
    context: int
    training: str
    task: str = "retrieval"
    noise: NoiseAssumptions = FLOODED


CASES = (
    Case(words="retrieval at 128K, from scratch", answer="measure, then yes", context=131_072, training="pretraining"),
    Case(words="retrieval at 64K, trained on", answer="measure, then yes", context=65_536, training="mid-training"),
    Case(words="retrieval at 64K, LoRA", answer="only beside its control", context=65_536, training="lora"),
    Case(words="a dense model that holds up at 64K", answer="no", context=65_536, training="mid-training",
         noise=HOLDS_UP),
    Case(words="trained on for 12K", answer="no", context=12_288, training="mid-training", task="general"),
    Case(words="code completion at 8K, from scratch", answer="marginal", context=8_192, training="pretraining",
         task="code"),
    Case(words="2K, from scratch", answer="not to be told apart", context=2_048, training="pretraining",
         task="general"),
    Case(words="no training at all", answer="no: the second map has to be learnt", context=131_072, training="none"),
)  # fmt: skip

# Name, the answer, and where a number tells more: a preset, and the tokens a step.
COMBINES = (
    ("Grouped queries", "free; both maps of a pair read one key and value, and the cache is the baseline's.",
     "llama-3.1-8b", 1),
    ("MLA", "not free; all heads share one latent, so the baseline is near the ridge and V2 beyond it. Motif-3 lets "
     "few noise maps serve many heads.", "deepseek-v3", 1),
    ("Mixtures of experts", "yes; they change the feed-forward alone, beside which V2's weights are few.",
     "mixtral-8x7b", 1),
    ("RoPE", "yes; it turns both maps' queries and the keys, and no values.", None, 1),
    ("YaRN", "yes; it also sharpens the scores, which raises signal-to-noise by itself: give it to the baseline too.",
     None, 1),
    ("FlashAttention", "V2 as it stands: one ordinary call with twice the heads, then a subtraction.", None, 1),
    ("Speculative decoding", "free up to a point; each token of a step multiplies the intensity (here 64).",
     "llama-3.1-8b", 64),
    ("Sliding windows on alternate layers", "yes; a window bounds the noise, so the gain is in the layers that see "
     "all keys.", "gemma-2-9b", 1),
)  # fmt: skip


@cache
def decided(case: Case) -> dict[str, Any]:
    """The plan for a case."""
    return plan(
        PlanRequest(
            config=PRESETS[MODEL],
            name=MODEL,
            contexts=(case.context,),
            batches=(1,),
            noise=case.noise,
            training=case.training,
            task=case.task,
            long_data=True,
            long_evaluation=True,
        )
    )


def the_decision() -> Step:
    rows: list[tuple[Cell, ...]] = []
    for case in CASES:
        found = decided(case)
        verdict, sizes = found["verdict"], found["sizes"]
        prefill = [sizes[name]["prefill_flops"][case.context] for name in ("v2", "softmax")]
        refused = next((entry["case"] for entry in verdict["refusals"] if entry["applies"]), "-")
        step = next(row["ratio"] for row in found["decode"] if row["model"] == "v2")
        numbers = found["noise"]["noise_mass"], step, prefill[0] / prefill[1]
        rows.append((case.words, case.answer, verdict["answer"], refused, *numbers))
    at = decided(CASES[0])["noise"]["rows"]
    gains = [f"{row['gain']:.2f} at rho {row['correlation']:g}" for row in at]
    return Step(
        heading="The decision, by the planner",
        text=(
            f"The planner's answers for {MODEL} made V2, with text and an evaluation of the length at hand. The noise "
            f"mass is softmax's at a margin of {FLOODED.margin:g} ({HOLDS_UP.margin:g} for the model that holds up) "
            "and s = 1, as if measured on the model. The best lambda then gains "
            f"{', '.join(gains)}; which correlation training finds nobody knows beforehand. Decode step (batch 1, "
            "H100) and prefill are V2's time and FLOPs over the baseline's.",
            "'Use V2' means: measure it against ordinary attention of the same size, at its own best temperature, and "
            "against gated attention, with paired seeds. For a model of yours: `diffattn plan CONFIG`; whether it has "
            "the problem: `diffattn noise --model MODEL`.",
        ),
        table=Table(
            (
                Column("situation"),
                Column("in words"),
                Column("planner", "derived"),
                Column("refused for", "derived"),
                Column("noise mass", "derived", ".3f"),
                Column("decode step", "derived", ".3f"),
                Column("prefill", "derived", ".2f"),
            ),
            rows,
        ),
        corrections=(
            "'Differential attention is for every long-context model.' A model whose heads keep their weight on the "
            "answer has nothing to gain, and no trained softmax model can be switched over without training.",
        ),
        shows="Long retrieval, training of all weights and a measured floor speak for it; short contexts, models that "
        "hold up and no training against it.",
    )


def how_it_combines() -> Step:
    return Step(
        heading="How it combines",
        text=(
            f"The time of V2's whole decode step over the baseline's, on an H100 by the roofline at {LENGTH:,} tokens "
            f"and batch {BATCH}, weights included, for a public model of each kind: the planner's number. More of "
            "each: docs/combining.md and docs/when-to-use.md.",
        ),
        table=Table(
            (Column("with"), Column("answer"), Column("model"), Column("V2's step", "derived", ".3f")),
            [
                (name, words, preset or "-", None if preset is None else step_ratio(preset, tokens))
                for name, words, preset, tokens in COMBINES
            ],
        ),
        shows="Nothing forbids a combination; where many heads or tokens share one key, decoding is no longer free.",
    )


@cache
def step_ratio(preset: str, tokens: int) -> float:
    """Time of V2's decode step over the baseline's, maps not combined."""
    config = PRESETS[preset]
    request = PlanRequest(config=config, name=preset, contexts=(LENGTH,), batches=(BATCH,), queries=tokens)
    models, _ = comparison(read_model(config, preset))
    rows = [row for row in decode(models, request) if row["model"] == "v2" and not row["combined"]]
    return float(rows[0]["ratio"])


def what_is_known() -> Step:
    return Step(
        heading="What is known, and by whom",
        text=tuple(f"{name.capitalize()}: {meaning}." for name, meaning in GRADES.items()),
        table=Table(
            (Column("about"), Column("what"), Column("grade")),
            [(name, EVIDENCE[name].text, EVIDENCE[name].grade) for name in KNOWN],
        ),
        shows="The large gains are their authors' own; what others measured is small, and only paired seeds with an "
        "interval can show it.",
    )


def exercises() -> tuple[Exercise, ...]:
    eight, mla = step_ratio(MODEL, 1), step_ratio("deepseek-v3", 1)
    scratch = decided(CASES[0])["sizes"]
    extra = scratch["v2"]["total"] - scratch["softmax"]["total"]
    return (
        Exercise(
            "A trained 8B model leaves 5 % of its attention to noise at 64K. Its owner wants V2 by LoRA. Your advice?",
            "No: by its own numbers it holds up, so there is no floor to take away. Were it otherwise, the same LoRA "
            "without the second map would be the control: a control study found that fine-tuning alone brought the "
            "gain.",
        ),
        Exercise(
            f"What does V2 cost {MODEL} in parameters, and one decode step at {LENGTH:,} tokens, batch {BATCH}? And "
            "DeepSeek-V3?",
            f"{extra:,} parameters, {100 * extra / scratch['softmax']['total']:.1f} %. The step takes {eight:.3f} of "
            f"the baseline's time; with MLA {mla:.3f}.",
        ),
        Exercise(
            "Which measurement comes first, before any training, and what result ends the matter?",
            "Margin, noise and weight on the answer, by layer and head, at the target length: diffattn noise --model "
            "MODEL. If the heads that find the answer keep their weight on it, there is nothing to gain.",
        ),
    )


PART = Part(
    number=13,
    title="When to use it",
    minutes=3,
    aim="decide for a given model, length and training whether to try it, with which control, and at what cost.",
    steps=(the_decision, how_it_combines, what_is_known),
    exercises=exercises,
)
