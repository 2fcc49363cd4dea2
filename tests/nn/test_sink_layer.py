"""A learned sink in the layer of ordinary attention, against loops over numbers."""

from __future__ import annotations

import torch

from diffattn.nn import SoftmaxAttention
from oracle import loop_attention_with_sinks, rules

WIDTH, T = 24, 7


def test_the_layer_gives_its_sinks_a_share():
    torch.manual_seed(0)
    made = {"dtype": torch.float64, "rope_base": None, "window": 4}
    layer = SoftmaxAttention(WIDTH, 3, 1, attention_sink=True, **made)
    assert torch.equal(layer.sinks.detach(), torch.zeros(3, dtype=torch.float64))
    x = torch.randn(2, T, WIDTH, dtype=torch.float64)
    q, k, v = (p(x).view(2, T, -1, 8).transpose(1, 2) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    for sinks in (torch.zeros(3), torch.tensor([-2.0, 0.3, 4.0])):
        with torch.no_grad():
            layer.sinks.copy_(sinks)
        expected, _ = loop_attention_with_sinks(q, k, v, sinks, rules(T, T, window=4))
        got = layer(x)
        torch.testing.assert_close(got, layer.o_proj(expected.transpose(1, 2).flatten(2)), rtol=1e-12, atol=1e-13)
    got.sum().backward()
    assert layer.sinks.grad.abs().min() > 0


def test_without_sinks_there_is_no_such_attribute():
    assert not hasattr(SoftmaxAttention(WIDTH, 3), "sinks")


def test_built_on_meta_then_reset():
    layer = SoftmaxAttention(WIDTH, 3, attention_sink=True, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.sinks.fill_(float("nan"))
    layer.reset_parameters()
    assert torch.equal(layer.sinks.detach(), torch.zeros(3))
