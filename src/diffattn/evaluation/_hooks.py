"""Where in a model of transformers something can be read while it runs, and reading it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from diffattn.errors import UserError
from diffattn.models.attention import DiffTransformerAttention

__all__ = [
    "attention_layers",
    "decoder_layers",
    "reading_inputs",
    "reading_outputs",
    "recording_lambda",
    "replaced_forward",
]

#: Takes the number of a layer, counted from 0, and a tensor.
Reader = Callable[[int, Tensor], None]


def decoder_layers(model: PreTrainedModel) -> list[nn.Module]:
    """The layers between which the residual stream runs, in order.

    Raises:
        UserError: there are none that transformers marks as such.
    """
    marked = [module for module in model.base_model.modules() if isinstance(module, GradientCheckpointingLayer)]
    inner = {id(part) for layer in marked for part in layer.modules() if part is not layer}
    if layers := [layer for layer in marked if id(layer) not in inner]:
        return layers
    raise UserError(f"{type(model).__name__} has no decoder layers that transformers marks: it cannot be measured")


def attention_layers(model: PreTrainedModel) -> list[nn.Module]:
    """The modules with an output projection of the name `o_proj`, in order.

    Raises:
        UserError: there are none.
    """
    if layers := [module for module in model.modules() if isinstance(getattr(module, "o_proj", None), nn.Module)]:
        return layers
    raise UserError(f"{type(model).__name__} has no attention layers with an `o_proj`: its contexts cannot be measured")


@contextmanager
def reading_outputs(modules: list[nn.Module], read: Reader) -> Iterator[None]:
    """Inside, `read` gets what each module gives, of several things the first."""
    with ExitStack() as hooks:
        for number, module in enumerate(modules):

            def hook(module: nn.Module, inputs: Any, output: Any, number: int = number) -> None:
                read(number, (output[0] if isinstance(output, tuple) else output).detach())

            hooks.callback(module.register_forward_hook(hook).remove)
        yield


@contextmanager
def reading_inputs(modules: list[nn.Module], read: Reader) -> Iterator[None]:
    """Inside, `read` gets the first argument of each module."""
    with ExitStack() as hooks:
        for number, module in enumerate(modules):

            def hook(module: nn.Module, inputs: Any, number: int = number) -> None:
                read(number, inputs[0].detach())

            hooks.callback(module.register_forward_pre_hook(hook).remove)
        yield


@contextmanager
def recording_lambda(model: nn.Module) -> Iterator[list[DiffTransformerAttention]]:
    """Inside, this package's layers, which are given, keep lambda in `recorded_lambda`; then all is as before."""
    layers = [module for module in model.modules() if isinstance(module, DiffTransformerAttention)]
    before = [(layer.records_lambda, layer.recorded_lambda) for layer in layers]
    for layer in layers:
        layer.records_lambda = True
    try:
        yield layers
    finally:
        for layer, (records, recorded) in zip(layers, before, strict=True):
            layer.records_lambda, layer.recorded_lambda = records, recorded


@contextmanager
def replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Inside, calls of the module go to this function."""
    own = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own
