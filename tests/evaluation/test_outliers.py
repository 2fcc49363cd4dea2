"""The outliers reported are those among all scores and hidden states, taken from a forward that makes them whole."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from diffattn.errors import UserError
from diffattn.evaluation import recorded_scores
from diffattn.evaluation.outliers import OutliersConfig, measure
from loud_models import FOREIGN, LENGTH, OURS, foreign, ours, tokens
from planted_models import ANSWER, ASKED, FILLER, TOKENS, planted

RANKS = (1, 2, 3, 10, 100, 2000)
CONFIG = OutliersConfig(ranks=RANKS, batch_size=2)


def magnitudes(values, ranks=RANKS):
    ordered = np.sort(np.abs(np.asarray(values, np.float64)))[::-1]
    return [ordered[rank - 1] if rank <= len(ordered) else None for rank in ranks], np.median(ordered), len(ordered)


def assert_magnitudes(found, values, rel=1e-5):
    largest, median, count = magnitudes(values)
    assert [value is None for value in found.largest] == [value is None for value in largest]
    assert list(filter(None, found.largest)) == pytest.approx(list(filter(None, largest)), rel=rel)
    assert (found.median, found.count, found.not_finite) == (pytest.approx(median, rel=1e-3, abs=1e-5), count, 0)


def states_of(model):
    """The residual stream behind each layer, but for the last, which transformers gives after the last norm."""
    with torch.no_grad():
        return model(tokens(), output_hidden_states=True, use_cache=False).hidden_states[1:-1]


@pytest.mark.parametrize("name", [*FOREIGN, *OURS])
def test_hidden_states(name):
    model = foreign(name) if name in FOREIGN else ours(name)
    result = measure(model, tokens().numpy(), CONFIG)
    assert (result.tokens, len(result.hidden_by_layer)) == (2 * LENGTH, 2)
    for found, states in zip(result.hidden_by_layer, states_of(model), strict=False):
        assert_magnitudes(found, states.flatten())
    assert result.hidden.largest[0] == max(layer.largest[0] for layer in result.hidden_by_layer)
    assert result.hidden.count == 2 * result.hidden_by_layer[0].count


def llama_scores(model, layer):
    """Of the keys that a query sees, from the layer's own projections."""
    taken = {}
    parts = ("q_proj", "k_proj")
    attention = model.model.layers[layer].self_attn
    hooks = [
        getattr(attention, part).register_forward_hook(lambda *given, part=part: taken.__setitem__(part, given[2]))
        for part in parts
    ]
    with torch.no_grad():
        model(tokens(), use_cache=False)
        cos, sin = model.model.rotary_emb(taken["q_proj"], torch.arange(LENGTH)[None])
    for hook in hooks:
        hook.remove()
    q, k = (taken[part].double().view(2, LENGTH, -1, 8).transpose(1, 2) for part in parts)
    q, k = (x * cos + torch.cat([-x[..., 4:], x[..., :4]], -1) * sin for x in (q, k))
    scores = q @ k.repeat_interleave(2, 1).transpose(2, 3) / 8**0.5
    return scores[..., torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()]


@pytest.mark.parametrize("block", [1, 900, 1 << 23])
def test_logits_of_a_llama(block, monkeypatch):
    monkeypatch.setattr(recorded_scores, "_BLOCK", block)
    model = foreign("llama")
    result = measure(model, tokens().numpy(), CONFIG)
    scores = [llama_scores(model, layer) for layer in (0, 1)]
    for found, expected in zip(result.logits_by_layer, scores, strict=True):
        assert_magnitudes(found, expected.flatten(), rel=1e-4)
    assert_magnitudes(result.logits, torch.cat(scores).flatten(), rel=1e-4)


@pytest.mark.parametrize("attention", ["softmax", "v1", "v2"])
def test_a_planted_logit_is_found_and_all_others_are_zero(attention):
    row = np.full((1, 12), FILLER)
    row[0, 3], row[0, 8] = ANSWER, ASKED
    model = planted(attention, ANSWER)
    result = measure(model, row, OutliersConfig(ranks=(1, 2, 3)))
    norm = 1 / (1 / TOKENS + model.config.rms_norm_eps)  # the square of a unit vector's length behind the RMS norm
    planted_logit = pytest.approx(1e3 * norm * model.model.layers[0].self_attn.scaling, rel=1e-6)
    assert result.logits.largest == (planted_logit, planted_logit, 0)  # one for each of the two heads
    assert result.logits.count == model.config.num_attention_heads * 12 * 13 / 2
    skipping = measure(model, row, OutliersConfig(ranks=(1,), every=2))  # queries 1, 3, .. 11
    assert skipping.logits.largest == (0,)
    assert skipping.logits.count == model.config.num_attention_heads * sum(range(2, 13, 2))


def test_windows_and_softcaps():
    assert measure(foreign("gemma2"), tokens().numpy(), CONFIG).logits.largest[0] <= 2
    window = measure(foreign("mistral"), tokens().numpy(), CONFIG)
    assert window.logits_by_layer[0].count == 2 * 4 * sum(min(row + 1, 9) for row in range(LENGTH))


def test_the_batch_does_not_matter_and_the_model_is_left_as_it_was():
    model = ours("v2").train()
    result = measure(model, tokens().numpy(), CONFIG)
    assert model.training
    assert model.config._attn_implementation == "diffattn"
    assert not any(module._forward_hooks for module in model.modules())
    single = measure(model, tokens().numpy(), OutliersConfig(ranks=RANKS))
    assert single.logits.largest == pytest.approx(result.logits.largest, rel=1e-4)
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_diverged_model_and_wrong_arguments():
    model = ours("softmax")
    with torch.no_grad():
        model.model.layers[0].self_attn.o_proj.weight.fill_(torch.nan)
    result = measure(model, tokens().numpy(), CONFIG)
    assert (result.hidden.count, result.hidden.largest[0], result.hidden.not_finite) == (0, None, 2 * 2 * LENGTH * 32)
    assert (result.logits_by_layer[0].not_finite, result.logits_by_layer[1].count) == (0, 0)
    with pytest.raises(ValueError, match=r"ranks must be one or more, each at least 1, not \(0,\)"):
        OutliersConfig(ranks=(0,))
    with pytest.raises(ValueError, match=r"tokens: expected integers, shape \[N, T\], got float64, shape \[3\]"):
        measure(model, np.ones(3), CONFIG)
    with pytest.raises(UserError, match="the model knows 61 tokens"):
        measure(model, np.full((1, 3), 61), CONFIG)
