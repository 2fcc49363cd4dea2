from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from diffattn.errors import UserError
from diffattn.evaluation.dead_pairs import DeadPairsConfig, map_correlation, measure
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM

BODY = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4}
TOKENS = np.random.default_rng(0).integers(0, 40, size=(5, 17))


def drawn(attention):
    torch.manual_seed(0)
    config = DiffTransformerConfig.from_baseline(LlamaConfig(**BODY), attention, map_dim=4)
    model = DiffTransformerForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.5)
    return model.eval()


def test_the_maps_that_are_planted():
    model = drawn("v2")
    queries = [layer.self_attn.q_proj.weight.data.view(4, 2, 4, 16) for layer in model.model.layers]
    queries[0][2, 1] = queries[0][2, 0]  # both maps the same
    queries[1][0] = 0  # both flat
    queries[1][3, 1] = 0  # one flat
    model.model.layers[1].self_attn.lambda_proj.weight.data.zero_()
    result = measure(model, TOKENS, DeadPairsConfig(queries=5, batch_size=2))
    found = {(pair.layer, pair.head): pair for pair in result.pairs}
    assert len(found) == 8
    assert found[0, 2].correlation == pytest.approx(1, abs=1e-12)
    assert (found[1, 0].correlation, found[1, 3].correlation, found[1, 3].lam) == (1, 0, 0.5)
    assert max(found[0, head].correlation for head in (0, 1, 3)) < 0.9
    assert result.correlated == result.dead == ((0, 2), (1, 0))
    assert (result.silent, result.diverged) == ((), False)
    assert json.loads(json.dumps(result.to_dict()))["dead_count"] == 2


@pytest.mark.parametrize("attention", ["v1", "v2"])
@torch.no_grad()
def test_against_the_models_own_maps(attention):
    model = drawn(attention)
    result = measure(model, TOKENS, DeadPairsConfig(queries=4, batch_size=3))
    with model.record_lambda():
        model(torch.from_numpy(TOKENS))
    model.set_attn_implementation("eager")
    maps = []
    for layer in model.model.layers:
        layer.self_attn.signed_weights = lambda *given: maps.append(given[0]) or given[0]
    model(torch.from_numpy(TOKENS), output_attentions=True)
    for pair in result.pairs:
        both = maps[pair.layer][:, 2 * pair.head : 2 * pair.head + 2].double().numpy()
        rows = [(row, at) for row in range(5) for at in (3, 7, 11, 16)]  # 17 x 1/4, 2/4, 3/4, 4/4, less 1
        expected = [np.corrcoef(both[row, 0, at, : at + 1], both[row, 1, at, : at + 1])[0, 1] for row, at in rows]
        assert pair.correlation == pytest.approx(np.mean(expected), abs=1e-5)
        lam = model.model.layers[pair.layer].self_attn.recorded_lambda
        assert pair.lam == pytest.approx(float(lam if lam.ndim == 0 else lam[:, pair.head].mean()), rel=1e-5)


def test_a_lambda_next_to_nothing_and_of_either_sign():
    model = drawn("v1")
    for layer, lam in zip(model.model.layers, (0.02, -0.3), strict=True):
        layer.self_attn.lambda_value = lambda lam=lam: torch.tensor(lam)
    result = measure(model, TOKENS, DeadPairsConfig(queries=2))
    assert result.silent == ((0, 0), (0, 1))
    assert [pair.lam for pair in result.pairs] == pytest.approx([0.02, 0.02, 0.3, 0.3])


def test_the_correlation_by_hand_over_visible_keys():
    first = torch.tensor([0.0, 1.0, 0.0, -torch.inf]).log1p()  # weights 1/4 2/4 1/4
    second = torch.tensor([0.0, 0.0, 1.0, -torch.inf]).log1p()  # weights 1/4 1/4 2/4
    first[3] = second[3] = -torch.inf
    # centred: (-1, 2, -1) / 12 and (-1, -1, 2) / 12: (1 - 2 - 2) / 6
    assert map_correlation(first, second).item() == pytest.approx(-0.5, abs=1e-6)


def test_what_cannot_be_measured():
    with pytest.raises(UserError, match="has no differential attention"):
        measure(LlamaForCausalLM(LlamaConfig(**BODY)), TOKENS, DeadPairsConfig())
    with pytest.raises(ValueError, match="queries: expected at most 5 for sequences of 17 tokens, got 6"):
        measure(drawn("v2"), TOKENS, DeadPairsConfig(queries=6))
    for fields in ({"correlation": 1.5}, {"lam": -0.1}, {"queries": 0}):
        with pytest.raises(ValueError, match=f"DeadPairsConfig: {next(iter(fields))} must be"):
            DeadPairsConfig(**fields)
    model = drawn("v2")
    model.model.layers[1].self_attn.q_proj.weight.data[0, 0] = float("nan")
    result = measure(model, TOKENS, DeadPairsConfig(queries=3))
    assert (result.diverged, result.dead, result.pairs[4].correlation) == (True, (), None)
    json.dumps(result.to_dict(), allow_nan=False)
