"""Differential attention for PyTorch. The public names are loaded when they are first used (PEP 562)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffattn.errors import DiffAttnError, UnsupportedBackendError, UserError
    from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM, DiffTransformerModel
    from diffattn.nn import DiffAttentionV1, DiffAttentionV2, GatedAttention, SoftmaxAttention
    from diffattn.ops import (
        Backend,
        BackendReport,
        DiffWeights,
        diff_attention,
        diff_attention_weights,
        explain_backends,
        softmax_attention,
    )

__version__ = "0.1.0.dev0"

_ROOMS = {
    "diffattn.errors": ("DiffAttnError", "UnsupportedBackendError", "UserError"),
    "diffattn.models": ("DiffTransformerConfig", "DiffTransformerForCausalLM", "DiffTransformerModel"),
    "diffattn.nn": ("DiffAttentionV1", "DiffAttentionV2", "GatedAttention", "SoftmaxAttention"),
    "diffattn.ops": (
        "Backend",
        "BackendReport",
        "DiffWeights",
        "diff_attention",
        "diff_attention_weights",
        "explain_backends",
        "softmax_attention",
    ),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Backend",
    "BackendReport",
    "DiffAttentionV1",
    "DiffAttentionV2",
    "DiffAttnError",
    "DiffTransformerConfig",
    "DiffTransformerForCausalLM",
    "DiffTransformerModel",
    "DiffWeights",
    "GatedAttention",
    "SoftmaxAttention",
    "UnsupportedBackendError",
    "UserError",
    "diff_attention",
    "diff_attention_weights",
    "explain_backends",
    "softmax_attention",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'diffattn' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
