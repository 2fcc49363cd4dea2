"""The norm of the loss's gradient, module by module."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from diffattn.evaluation._hooks import decoder_layers, replaced_forward
from diffattn.evaluation._logits import hidden_states, logit_pieces
from diffattn.evaluation._setting import mode, require_positive, token_batches

__all__ = ["GradientNormsConfig", "GradientNormsResult", "measure"]

_PARTS = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "o_proj": "o", "gate_proj": "gate"}
_PARTS |= {"q_norm": "qk_norm", "k_norm": "qk_norm"}


@dataclass(frozen=True, kw_only=True)
class GradientNormsConfig:
    """How to measure: `batch_size` sequences at once, whose gradients are added up."""

    batch_size: int = 1

    def __post_init__(self) -> None:
        require_positive(self, "batch_size")


@dataclass(frozen=True, kw_only=True)
class GradientNormsResult:
    """What was measured; None for a norm that is not finite.

    Attributes:
        config: how.
        loss: mean over all tokens but the first of each sequence, nats.
        total: of all parameters together.
        outside: of "embedding", "output" (absent where it is the embedding's own matrix) and other modules outside the
            layers ("norm").
        layers: for each layer, a name to its norm: of attention "q", "k", "v", "o", "lambda", "gate", "head_norm",
            "qk_norm", "sinks" as far as there are such, else the module's own name; "norms" of the layer; and what
            else it has by its own name ("mlp").
    """

    config: GradientNormsConfig
    loss: float | None
    total: float | None
    outside: dict[str, float | None]
    layers: tuple[dict[str, float | None], ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def measure(model: PreTrainedModel, tokens: np.ndarray, config: GradientNormsConfig) -> GradientNormsResult:
    """Gradient of the mean loss of next tokens, without dropout; the model and its gradients are left as they were.

    Layers are computed again in the backward, and in each its attention and its feed-forward once more, and logits are
    made in pieces: memory grows with a sequence's length and is far less than a training step's.

    Args:
        model: a causal language model.
        tokens: int `[N, T]`, T at least 2.
        config: the batch size.

    Raises:
        UserError: sequences longer than the model's positions, or tokens that it does not know.
        ValueError: sequences of one token.
    """
    batches = token_batches(model, tokens, config.batch_size)
    if tokens.shape[1] < 2:
        raise ValueError(f"tokens: expected two or more a sequence, got {tokens.shape[1]}")
    count = tokens.shape[0] * (tokens.shape[1] - 1)
    with mode(model, training=False), torch.enable_grad(), _own_gradients(model), ExitStack() as changes:
        for module in _computed_again(model):
            again = partial(checkpoint, module.forward, use_reentrant=False)
            changes.enter_context(replaced_forward(module, again))
        loss = math.fsum(_backward(model, ids, count) for ids in batches)
        squares = _squares(model)
    return GradientNormsResult(
        config=config,
        loss=loss if math.isfinite(loss) else None,
        total=_root(sum(sum(of.values()) for of in squares)),
        outside=_roots(squares[0]),
        layers=tuple(_roots(of) for of in squares[1:]),
    )


def _computed_again(model: PreTrainedModel) -> list[nn.Module]:
    """The layers, and what in them has parts: attention and feed-forward are then never in memory together."""
    layers = decoder_layers(model)
    return layers + [part for layer in layers for part in layer.children() if any(True for _ in part.children())]


@contextmanager
def _own_gradients(model: nn.Module) -> Iterator[None]:
    """Gradients are None inside, and afterwards what they were."""
    before = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in before:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient


def _backward(model: PreTrainedModel, ids: Tensor, count: int) -> float:
    """Adds the gradients of the summed loss of ids `[B, T]` over `count`; returns that loss."""
    output = hidden_states(model, ids)
    whole = output.last_hidden_state
    output.last_hidden_state = leaf = whole.detach().requires_grad_()
    loss = 0.0
    for where, logits in logit_pieces(model, ids, output):
        targets = ids[:, where.start + 1 : where.stop + 1]
        kept = logits[:, : targets.shape[1]].flatten(0, 1)
        part = cross_entropy(kept.float(), targets.flatten(), reduction="sum") / count
        part.backward()
        loss += part.item()
    whole.backward(leaf.grad)
    return loss


def _squares(model: PreTrainedModel) -> list[dict[str, float]]:
    """Sums of squares by module: outside of the layers, then of each layer."""
    layers = decoder_layers(model)
    owners = {id(p): (i, name) for i, layer in enumerate(layers, 1) for name, p in layer.named_parameters()}
    squares: list[dict[str, float]] = [defaultdict(float) for _ in range(len(layers) + 1)]
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            number, inner = owners.get(id(parameter), (0, name))
            part = _part(inner) if number else _outside(model, name, parameter)
            squares[number][part] += parameter.grad.double().square().sum().item()
    return squares


def _outside(model: PreTrainedModel, name: str, parameter: nn.Parameter) -> str:
    if any(parameter is own for own in model.get_input_embeddings().parameters()):
        return "embedding"
    if any(parameter is own for own in model.get_output_embeddings().parameters()):
        return "output"
    return name.removeprefix(f"{model.base_model_prefix}.").split(".")[0]


def _part(name: str) -> str:
    """Of a parameter of a layer, by its name there: `self_attn.q_proj.weight` is "q"."""
    module, *rest = name.split(".")
    if "norm" in module or module.startswith("ln_"):
        return "norms"
    if "attn" not in module and "attention" not in module:
        return module
    return "lambda" if rest[0].startswith("lambda_") else _PARTS.get(rest[0], rest[0])


def _roots(squares: dict[str, float]) -> dict[str, float | None]:
    return {name: _root(square) for name, square in squares.items()}


def _root(square: float) -> float | None:
    return math.sqrt(square) if math.isfinite(square) else None
