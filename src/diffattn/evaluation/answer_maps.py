"""The attention maps of one question, to be looked at: those of the head that gives its answer the most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from diffattn.evaluation._head_maps import head_maps
from diffattn.evaluation._setting import check_tokens, device_of, mode
from diffattn.evaluation.recorded_scores import recording
from diffattn.tasks import TokenExamples

__all__ = ["AnswerMaps", "measure"]


@dataclass(frozen=True, kw_only=True)
class AnswerMaps:
    """One question's maps.

    Attributes:
        layer, head: counted from 0; the head whose weights give the answer the largest share.
        answer: its position.
        first: weights over the keys, `[T]`; without what a learned sink takes.
        second, signed: the noise map and first less lam times second; None for ordinary attention.
        lam: lambda at the query; None likewise.
    """

    layer: int
    head: int
    answer: int
    first: list[float]
    second: list[float] | None
    signed: list[float] | None
    lam: float | None

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(model: PreTrainedModel, data: TokenExamples) -> AnswerMaps:
    """The maps at the first answerable question of the first sequence that has one.

    Raises:
        ValueError: no question has an answer.
        UserError: as `attention_mass.measure`.
    """
    row, question = _first_answerable(data)
    tokens = data.tokens[row : row + 1]
    check_tokens(model, tokens)
    query, answer = torch.tensor([[int(data.queries[row, question])]]), int(data.sources[row, question])
    found, order = [], count()

    def receive(layer: nn.Module, scores: Tensor) -> None:
        found.extend(_of_layer(layer, scores, query, answer, next(order)))

    with torch.inference_mode(), mode(model, training=False), recording(model, receive, query):
        model.base_model(input_ids=torch.from_numpy(tokens).to(device_of(model)), use_cache=False)
    return max(found, key=_share)


def _first_answerable(data: TokenExamples) -> tuple[int, int]:
    places = data.answerable.nonzero()
    if not len(places[0]):
        raise ValueError("data: expected a question that has an answer, got none")
    return int(places[0][0]), int(places[1][0])


def _of_layer(layer: nn.Module, scores: Tensor, query: Tensor, answer: int, index: int) -> list[AnswerMaps]:
    first, second, lam, sinks = head_maps(layer, scores, query)
    weights = _weights(first, sinks)
    others = None if second is None else _weights(second, None)
    return [
        AnswerMaps(
            layer=int(getattr(layer, "layer_idx", index)),
            head=head,
            answer=answer,
            first=weights[head].tolist(),
            second=None if others is None else others[head].tolist(),
            signed=None if others is None or lam is None else (weights[head] - lam[0, head] * others[head]).tolist(),
            lam=None if lam is None else float(lam[0, head]),
        )
        for head in range(len(weights))
    ]


def _weights(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Softmax `[H, T]` of scores `[1, H, 1, T]`, with sinks `[H]` in its denominator where there are any."""
    rows = scores[0, :, 0].double()
    if sinks is None:
        return rows.softmax(-1)
    return torch.cat((rows, sinks.double()[:, None]), -1).softmax(-1)[:, :-1]


def _share(maps: AnswerMaps) -> float:
    used = maps.signed or maps.first
    total = sum(map(abs, used))
    return abs(used[maps.answer]) / total if total else 0.0
