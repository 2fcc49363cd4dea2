"""Probes run through a model, and what each of its heads made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from diffattn.evaluation._head_maps import head_maps
from diffattn.evaluation._setting import device_of
from diffattn.evaluation.recorded_scores import recording
from diffattn.evaluation.score_numbers import Numbers, map_numbers, noise_keys, signed_numbers

__all__ = ["HeadNumbers", "ProbeRuns"]


@dataclass(frozen=True)
class HeadNumbers:
    """One head's numbers, one value a probe whose answer the head sees.

    Attributes:
        layer, head: counted from 0.
        noise_keys: as in `score_numbers`, the same for all these probes.
        maps: "first", and for a differential head "second" and "signed", each a name to float64 `[probes]`;
            "signed" has "lam" beside what `signed_numbers` gives.
    """

    layer: int
    head: int
    noise_keys: int
    maps: dict[str, dict[str, np.ndarray]]


class ProbeRuns:
    """Runs batches of probes of one length through a model in evaluation mode and keeps the numbers of each head."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._layers: dict[int, list[dict[str, Numbers]]] = defaultdict(list)
        self._copied: list[Tensor] = []

    def add(self, tokens: np.ndarray, answers: np.ndarray) -> None:
        """Run one batch: int64 `[P, T]`, and the position of each answer `[P]`."""
        ids, answer = torch.from_numpy(tokens), torch.from_numpy(answers)
        order = count()

        def receive(layer: nn.Module, scores: Tensor) -> None:
            called = next(order)  # stands for the number of a layer that does not know its own
            index: Any = getattr(layer, "layer_idx", called)
            self._layers[index].append(_numbers(layer, scores, answer))

        with recording(self._model, receive):
            # Logits of every position would cost a vocabulary a token.
            hidden = self._model.base_model(input_ids=ids.to(device_of(self._model)), use_cache=False).last_hidden_state
        likeliest = self._model.get_output_embeddings()(hidden[:, -1]).argmax(-1).cpu()
        self._copied.append(likeliest == ids.gather(1, answer[:, None])[:, 0])

    @property
    def copied(self) -> float:
        """Share of probes for which the model's likeliest next token is the answer's."""
        return torch.cat(self._copied).double().mean().item()

    def heads(self) -> Iterator[HeadNumbers]:
        """Every head that sees the answer of some probe, in the order of layers."""
        for layer, batches in sorted(self._layers.items()):
            columns = {name: _joined([batch[name] for batch in batches]) for name in batches[0]}
            keys, margin = columns.pop("keys")["noise"], columns["first"]["margin"]
            for head in range(margin.shape[1]):
                sees = np.isfinite(margin[:, head])
                if sees.any():
                    maps = {name: {k: v[sees, head] for k, v in of.items()} for name, of in columns.items()}
                    yield HeadNumbers(layer, head, int(keys[sees, head][0]), maps)


def _joined(batches: list[Numbers]) -> dict[str, np.ndarray]:
    return {name: torch.cat([batch[name] for batch in batches]).double().numpy() for name in batches[0]}


def _numbers(layer: nn.Module, scores: Tensor, answer: Tensor) -> dict[str, Numbers]:
    first, second, lam, sinks = head_maps(layer, scores)
    numbers = {
        "keys": {"noise": noise_keys(first, answer).sum(-1)},
        "first": map_numbers(first, answer, sinks),
    }
    if second is not None and lam is not None:
        numbers["second"] = map_numbers(second, answer)
        numbers["signed"] = {"lam": lam, **signed_numbers(first, second, lam, answer)}
    return numbers
