"""Wrong calls of the operator's functions, and the words of their errors."""

from __future__ import annotations

import re

import pytest
import torch

from diffattn.ops import diff_attention, diff_attention_weights, explain_backends, softmax_attention

SHAPES = {"q1": (2, 4, 5, 8), "q2": (2, 4, 5, 8), "k": (2, 2, 6, 8), "v": (2, 2, 6, 8)}


def tensors(**changes):
    """The tensors of a call; a tuple in `changes` is the shape of another one, anything else stands for itself."""
    arguments = {**SHAPES, "lam": 0.5, **changes}
    return {n: torch.randn(x) if n in SHAPES and isinstance(x, tuple) else x for n, x in arguments.items()}


def softmax(q1, q2, k, v, lam, **arguments):
    return softmax_attention(q1, k, v, **arguments)


def weights(q1, q2, k, v, lam, **arguments):
    return diff_attention_weights(q1, q2, k, lam, **arguments)


FUNCTIONS = [diff_attention, weights, softmax, explain_backends]
WITH_LAM = [diff_attention, weights, explain_backends]
WITH_DROPOUT = [diff_attention, softmax, explain_backends]


def refuses(functions, name, expected, got="", **changes):
    """Each function's error is `name: expected ..., got ...`, with these words in it."""
    for function in functions:
        with pytest.raises(ValueError, match=rf"^{name}: expected {re.escape(expected)}.*, got .*{re.escape(got)}"):
            function(**tensors(**changes))
