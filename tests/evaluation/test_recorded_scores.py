"""The recorded scores are those that the model's own eager attention takes softmax of, in every geometry."""

from __future__ import annotations

import pytest
import torch
from transformers import FalconConfig, FalconForCausalLM

from diffattn.errors import UserError
from diffattn.evaluation import recorded_scores
from diffattn.evaluation.recorded_scores import recording
from largest_tensor import LargestTensor
from loud_models import FOREIGN, LENGTH, OURS, VOCABULARY, WINDOW, assert_softmax, foreign, ours, tokens, with_sink


def record(model, ids):
    """Each layer's scores `[B, heads, T]` and lambda, and the logits of the forward that gave them."""
    scores, lambdas = [], []

    def receive(layer, given):
        scores.append(with_sink(layer, given))
        lambdas.append(getattr(layer, "recorded_lambda", None))

    with torch.no_grad(), recording(model, receive):
        logits = model(ids, use_cache=False).logits
    return scores, lambdas, logits


@pytest.mark.parametrize("block", [1, 100, 1 << 23])
@pytest.mark.parametrize("name", FOREIGN)
def test_scores_and_outputs_are_those_of_eager(name, block, monkeypatch):
    monkeypatch.setattr(recorded_scores, "_BLOCK", block)
    model = foreign(name)
    with torch.no_grad():
        eager = model(tokens(), output_attentions=True, use_cache=False)
    scores, _, logits = record(model, tokens())
    assert len(scores) == len(eager.attentions) == 2
    for last, weights in zip(scores, eager.attentions, strict=True):
        assert_softmax(last, weights[:, :, -1])
    assert (logits - eager.logits).norm() <= 1e-5 * eager.logits.norm()


@pytest.mark.parametrize("name", ["mistral", "gemma2"])
def test_keys_outside_the_window_are_not_seen(name):
    scores, _, _ = record(foreign(name), tokens())
    assert torch.isfinite(scores[0]).sum(-1).eq(WINDOW).all()
    assert torch.isfinite(scores[0][..., -WINDOW:]).all()
    assert torch.isfinite(scores[1]).sum(-1).eq(WINDOW if name == "mistral" else LENGTH).all()


@pytest.mark.parametrize("kind", ["bool", "additive", "bias"])
@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_mask_of_four_dimensions_is_kept_to(name, kind):
    model, make = foreign(name), torch.Generator().manual_seed(0)
    seen = torch.rand(2, 1, LENGTH, LENGTH, generator=make) < 0.6
    seen = (seen | torch.eye(LENGTH, dtype=torch.bool)).tril()
    added = torch.randn(seen.shape, generator=make) if kind == "bias" else torch.zeros(seen.shape)
    added = added.masked_fill(~seen, torch.finfo(torch.float32).min)
    given, scores = seen if kind == "bool" else added, []
    masks = dict.fromkeys(("sliding_attention", "full_attention"), added) if name == "gemma2" else added
    with torch.no_grad():
        eager = model(tokens(), attention_mask=masks, output_attentions=True, use_cache=False)
    masks = dict.fromkeys(("sliding_attention", "full_attention"), given) if name == "gemma2" else given
    with torch.no_grad(), recording(model, lambda _, last: scores.append(last)):
        logits = model(tokens(), attention_mask=masks, use_cache=False).logits
    for last, weights in zip(scores, eager.attentions, strict=True):
        assert_softmax(last, weights[:, :, -1])
        assert (torch.isfinite(last) == seen[:, :, -1]).all()
    assert (logits - eager.logits).norm() <= 1e-5 * eager.logits.norm()


def test_softcap_bounds_the_scores():
    scores, _, _ = record(foreign("gemma2"), tokens())
    assert 1.5 < scores[1].abs().max() <= 2


@pytest.mark.parametrize("window", [None, WINDOW])
@pytest.mark.parametrize("attention", OURS)
def test_our_signed_map_from_both_recorded_maps_and_lambda(attention, window):
    layers = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": window}
    model = ours(attention, **(layers if window else {}))
    with torch.no_grad():
        native = model(tokens(), output_attentions=True, use_cache=False)
    scores, lambdas, logits = record(model, tokens())
    for last, lam, weights in zip(scores, lambdas, native.attentions, strict=True):
        maps = last.double().softmax(-1)
        if lam is not None:
            lam = lam if lam.ndim == 0 else lam[..., -1:]
            maps = maps[:, 0::2] - lam.double() * maps[:, 1::2]
        torch.testing.assert_close(maps, weights[:, :, -1].double(), rtol=0, atol=1e-6)
    assert (lambdas[0] is None) == (attention in ("softmax", "gated"))
    assert (logits - native.logits).norm() <= 1e-5 * native.logits.norm()


@pytest.mark.parametrize("before", ["diffattn", "sdpa", "eager"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_afterwards_what_it_was(before, fails):
    model = ours("v2")
    model.set_attn_implementation(before)
    layers = [layer.self_attn for layer in model.model.layers]
    layers[0].records_lambda = True

    def receive(layer, scores):
        assert model.config._attn_implementation == "diffattn_probe"
        if fails and layer is layers[1]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) if fails else torch.no_grad(), recording(model, receive):
        model(tokens())
    assert model.config._attn_implementation == before
    assert recorded_scores._receiver.get() is None
    assert [layer.records_lambda for layer in layers] == [True, False]
    assert [layer.recorded_lambda for layer in layers] == [None, None]


def test_attention_that_cannot_be_recorded(monkeypatch):
    fields = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1}
    falcon = FalconForCausalLM(FalconConfig(**fields))
    with pytest.raises(UserError, match="FalconForCausalLM does not go through transformers' attention interface"):
        record(falcon, tokens())
    hidden = foreign("gpt_oss")
    monkeypatch.setattr(recorded_scores, "learned_sinks", lambda _: None)
    with pytest.raises(UserError, match="learned sinks that its layer does not hold"):
        record(hidden, tokens())
    assert hidden.config._attn_implementation == "eager"


def largest_tensor(model, length):
    with torch.no_grad(), LargestTensor() as largest:
        model.base_model(tokens(length, batch=1), use_cache=False)
    return largest.elements


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "v1", "v2"])
def test_no_tensor_grows_with_the_square_of_the_length(name, monkeypatch):
    monkeypatch.setattr(recorded_scores, "_BLOCK", 1 << 16)
    model = foreign(name) if name in FOREIGN else ours(name)
    assert name in OURS or largest_tensor(model, 1024) > 1024**2  # eager: the measure sees the square
    rows = []
    with recording(model, lambda _, scores: rows.append(scores.shape[-1])):
        short, long = (largest_tensor(model, length) for length in (1024, 4096))
    assert rows == [1024, 1024, 4096, 4096]
    assert long <= 4 * max(short, 1 << 16) < 4096**2 / 8
