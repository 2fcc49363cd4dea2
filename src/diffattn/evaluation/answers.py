"""Questions answered in text, by greedy decoding: what share of the answers stands in the continuation.

As in RULER (Hsieh et al., arXiv:2404.06654) a text is searched for each answer, whatever its case; here, however, no
answer is found in the middle of a longer word or number: 12 does not stand in 123.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerBase

from diffattn.data.progress import delayed_progress
from diffattn.evaluation._setting import check_length, device_of, mode, require_positive
from diffattn.evaluation.retrieval_results import (
    Outcomes,
    RetrievalGrid,
    RetrievalRates,
    check_depths,
    grid,
    retrieval_rates,
)
from diffattn.tasks import TextExample
from diffattn.tasks.scoring import holds

__all__ = ["AnswersConfig", "AnswersResult", "measure", "measure_grid"]


@dataclass(frozen=True, kw_only=True)
class AnswersConfig:
    """How to measure.

    Attributes:
        batch_size: prompts at once, padded on the left.
        depths: at which accuracy is reported, 0 (start) to 1 (end), rising; a prompt counts at the nearest.
        none_text: what says that there is no answer; None for what is right for the unanswerable prompts.
    """

    batch_size: int = 1
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    none_text: str | None = None

    def __post_init__(self) -> None:
        require_positive(self, "batch_size")
        check_depths("AnswersConfig", self.depths)
        if self.none_text is not None and not self.none_text.strip():
            raise ValueError("AnswersConfig: none_text must not be empty")


@dataclass(frozen=True, kw_only=True)
class AnswersResult:
    """What was measured.

    Attributes:
        config: how.
        longest: tokens of the longest prompt.
        rates: a prompt is a sequence with one question; accuracy is the mean share of the answers found.
        continuations: what the model wrote, a text a prompt.
    """

    config: AnswersConfig
    longest: int
    rates: RetrievalRates
    continuations: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(
    model: PreTrainedModel,
    data: Sequence[TextExample],
    config: AnswersConfig,
    *,
    tokenizer: PreTrainedTokenizerBase,
    progress: bool = False,
) -> AnswersResult:
    """Let the model go on from every prompt, greedily, for at most the prompt's own `max_new_tokens`.

    An unanswerable prompt is answered rightly where its answers (what says that there is none) stand in the
    continuation and no false answer does.

    Raises:
        UserError: a prompt with its new tokens is longer than the model's context.
        ValueError: no examples.
    """
    if not data:
        raise ValueError("data: expected one example or more, got none")
    prompts = [list(tokenizer(example.prompt).input_ids) for example in data]
    for prompt, example in zip(prompts, data, strict=True):
        check_length(model, len(prompt) + example.max_new_tokens, "a prompt with its new tokens")
    texts: list[str] = []
    watching = _Watching()
    with (
        torch.inference_mode(),
        mode(model, training=False),
        delayed_progress("Answering", len(data), enabled=progress) as advance,
    ):
        for written in _continuations(model, tokenizer, prompts, data, config.batch_size, watching):
            texts += written
            advance(len(written))
    rates = retrieval_rates(_outcomes(texts, data, config, watching.finite), config.depths)
    return AnswersResult(config=config, longest=max(map(len, prompts)), rates=rates, continuations=tuple(texts))


def measure_grid(
    model: PreTrainedModel,
    data: Mapping[int, Sequence[TextExample]],
    config: AnswersConfig,
    *,
    tokenizer: PreTrainedTokenizerBase,
    progress: bool = False,
) -> RetrievalGrid:
    """Depth x length: `measure` for the examples of each length, by which they are named."""
    named = data.items()
    return grid(
        {n: measure(model, part, config, tokenizer=tokenizer, progress=progress).rates for n, part in named},
        config.depths,
    )


class _Watching(LogitsProcessor):
    """Changes nothing; `finite` says whether all logits that it saw, `[B, vocabulary]` each, were numbers.

    A model may mask tokens with -inf, so that only NaN and +inf tell that it diverged.
    """

    def __init__(self) -> None:
        self.finite = True

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.finite &= bool((scores < torch.inf).all())
        return scores


def _continuations(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[list[int]],
    data: Sequence[TextExample],
    batch_size: int,
    watching: _Watching,
) -> Iterator[list[str]]:
    fill = next(token for token in (tokenizer.pad_token_id, tokenizer.eos_token_id, 0) if token is not None)
    for first in range(0, len(prompts), batch_size):
        rows = slice(first, first + batch_size)
        limits = [example.max_new_tokens for example in data[rows]]
        ids, seen = _left_padded(prompts[rows], fill)
        device = device_of(model)
        made: Any = model.generate(
            input_ids=ids.to(device),
            attention_mask=seen.to(device),
            max_new_tokens=max(limits),
            do_sample=False,
            num_beams=1,
            pad_token_id=fill,
            logits_processor=LogitsProcessorList([watching]),
        )
        new = made[:, ids.shape[1] :].tolist()
        yield [tokenizer.decode(row[:limit], skip_special_tokens=True) for row, limit in zip(new, limits, strict=True)]


def _left_padded(prompts: list[list[int]], fill: int) -> tuple[Tensor, Tensor]:
    """Tokens and attention mask, int64 `[B, longest]`."""
    longest = max(map(len, prompts))
    ids = [[fill] * (longest - len(prompt)) + prompt for prompt in prompts]
    seen = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids), torch.tensor(seen)


def _outcomes(texts: list[str], data: Sequence[TextExample], config: AnswersConfig, finite: bool) -> Outcomes:
    pairs = list(zip(texts, data, strict=True))
    cited = np.array([any(holds(text, false) for false in example.false_answers) for text, example in pairs])
    answerable = np.array([example.answerable for example in data])
    found = np.array([np.mean([holds(text, answer) for answer in example.answers]) for text, example in pairs])
    none = {answer for example in data if not example.answerable for answer in example.answers}
    none = none if config.none_text is None else {config.none_text}
    refused = np.array([any(holds(text, one) for one in none) for text in texts]) if none else None
    return Outcomes(
        correct=np.where(~answerable & cited, 0, found)[:, None],
        answerable=answerable[:, None],
        refused=None if refused is None else refused[:, None],
        cited=cited[:, None],
        citable=np.array([len(example.false_answers) > 0 for example in data])[:, None],
        depths=np.array([np.nan if example.depth is None else example.depth for example in data])[:, None],
        finite=finite,
    )
