"""What the harness's task files name: the questions of a task in a model's tokens, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import diffattn.tasks
from diffattn.errors import UserError
from diffattn.tasks.haystacks import Haystack
from diffattn.tasks.scoring import score_continuation

__all__ = ["make", "score"]


def make(
    *,
    text_task: str,
    max_seq_lengths: Sequence[int] = (1024,),
    depths: Sequence[float | None] = (None,),
    examples: int = 100,
    seed: int = 0,
    haystack_text: str | None = None,
    tokenizer: str | None = None,
    pretrained: str | None = None,
    model: str | None = None,
    **others: Any,
) -> dict[str, Any]:
    """The data set of a task, as the harness takes it: one split, "test".

    Args:
        text_task: the name of a text task.
        max_seq_lengths: tokens of a prompt at most.
        depths: where the asked fact stands, 0 to 1; None for anywhere.
        examples: for each length and depth.
        seed: of the draws.
        haystack_text: the path of a text in UTF-8 to hide the facts in, for tasks that can; None: each task's own
            haystack.
        tokenizer, pretrained, model: a folder or hub name; the first that is given has the tokenizer that counts.
        others: what the harness passes to every task beside these; not used.

    Raises:
        UserError: no tokenizer is named, the text is missing, or see `make_texts`.
    """
    from datasets import Dataset

    count, rows = _counter(tokenizer or pretrained or model), []
    given: dict[str, Any] = {"examples": examples, "seed": seed, "haystack": _haystack(text_task, haystack_text)}
    for length in max_seq_lengths:
        made = [
            example
            for depth in depths
            for example in diffattn.tasks.make_texts(text_task, count, length=length, depth=depth, **given)
        ]
        # One number for all of a length, so that they can be generated in batches.
        most = max(example.max_new_tokens for example in made)
        rows += [{**asdict(example), "max_new_tokens": most, "asked_length": length} for example in made]
    return {"test": Dataset.from_list(rows)}


def score(doc: dict[str, Any], results: Sequence[str]) -> dict[str, float]:
    """The scores of a continuation, see `score_continuation`, and each again under its name and the length."""
    fields = {name: doc[name] for name in ("answers", "false_answers", "answerable")}
    scores = score_continuation(results[0], **fields)
    return {**scores, **{f"{name}_{doc['asked_length']}": value for name, value in scores.items()}}


def _haystack(text_task: str, path: str | None) -> Haystack | None:
    """The text, for a task that hides its facts in one; None for its own."""
    kinds = diffattn.tasks.TASKS[text_task].haystacks
    if path is not None and "text" in kinds:
        return Haystack("text", Path(path).read_text(encoding="utf-8"))
    if kinds[:1] == ("text",):
        raise UserError(f"the task {text_task} hides its needles in a text: give one with --data (haystack_text)")
    return None


def _counter(name: str | None) -> Callable[[str], int]:
    """Counts the tokens of a text as the model gets it, those that the tokenizer adds included."""
    from transformers import AutoTokenizer

    if not name:
        raise UserError("the tasks are made in a model's tokens: give the harness --model_args pretrained=MODEL")
    tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    return lambda text: len(tokenizer(text)["input_ids"])
