"""The operator: one formula, several implementations, one public function each."""

from diffattn.ops.api import diff_attention, diff_attention_weights, explain_backends, softmax_attention
from diffattn.ops.types import Backend, BackendReport, DiffWeights

__all__ = [
    "Backend",
    "BackendReport",
    "DiffWeights",
    "diff_attention",
    "diff_attention_weights",
    "explain_backends",
    "softmax_attention",
]
