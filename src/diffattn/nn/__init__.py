"""Attention layers, one a file; they need torch alone."""

from diffattn.nn.diff_v1 import DiffAttentionV1
from diffattn.nn.diff_v2 import DiffAttentionV2
from diffattn.nn.gated import GatedAttention
from diffattn.nn.head_norm import HeadNorm
from diffattn.nn.lambdas import lambda_init_schedule
from diffattn.nn.layer import AttentionLayer, Projected
from diffattn.nn.rotary import RotaryEmbedding, apply_rotary
from diffattn.nn.softmax import SoftmaxAttention

__all__ = [
    "AttentionLayer",
    "DiffAttentionV1",
    "DiffAttentionV2",
    "GatedAttention",
    "HeadNorm",
    "Projected",
    "RotaryEmbedding",
    "SoftmaxAttention",
    "apply_rotary",
    "lambda_init_schedule",
]
