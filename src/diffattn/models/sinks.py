"""Learned sinks behind transformers' attention interface, which passes them as `s_aux`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

from transformers.integrations.flash_attention import flash_attention_forward
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as eager_with_sinks

__all__ = ["check_takes_sinks", "eager_with_sinks"]

# The eager ones read the layer's `sinks`. Of the flash kernels, which share one function, the others drop `s_aux`.
_TAKE_SINKS = ("eager", "paged|eager", "flash_attention_4", "kernels-community/vllm-flash-attn3")


def check_takes_sinks(implementation: str, function: Callable) -> None:
    """Refuses an attention implementation that would leave the sinks out without a word.

    Raises:
        ValueError: its function does not name `s_aux`, or passes it to a kernel that has no sinks.
    """
    named = function is not flash_attention_forward and "s_aux" in signature(function).parameters
    if implementation not in _TAKE_SINKS and not named:
        raise ValueError(
            "attn_implementation: expected one that takes attention sinks (s_aux), such as diffattn, eager, "
            f"flex_attention or flash_attention_4, for attention_sink=True, got {implementation!r}"
        )
