"""Scores of chosen queries, and of all of them in blocks, are rows of the maps that eager attention makes."""

from __future__ import annotations

import pytest
import torch

from diffattn.evaluation import recorded_scores
from diffattn.evaluation._row_attention import row_weights
from diffattn.evaluation.recorded_scores import learned_sinks, recording, recording_rows
from loud_models import FOREIGN, LENGTH, OURS, WINDOW, assert_softmax, foreign, ours, tokens, with_sink

QUERIES = torch.tensor([[0, 22, 8, 8], [5, 9, 10, 1]])


def eager_maps(model, **inputs):
    with torch.no_grad():
        return model(tokens(), output_attentions=True, use_cache=False, **inputs).attentions


def chosen(maps):
    return torch.stack([of_one[:, rows] for of_one, rows in zip(maps, QUERIES, strict=True)])


@pytest.mark.parametrize("name", FOREIGN)
def test_chosen_queries_are_those_of_eager(name):
    model, scores = foreign(name), []
    expected = eager_maps(model)
    with torch.no_grad(), recording(model, lambda layer, given: scores.append(with_sink(layer, given)), QUERIES):
        model(tokens(), use_cache=False)
    assert [given.shape[:3] for given in scores] == [(2, 4, 4)] * 2
    for given, maps in zip(scores, expected, strict=True):
        assert_softmax(given, chosen(maps))


@pytest.mark.parametrize("kind", ["bool", "additive", "padding"])
@pytest.mark.parametrize("name", ["llama", "gpt_oss"])
def test_chosen_queries_keep_to_a_mask(name, kind):
    model, scores = foreign(name), []
    seen = torch.rand(2, 1, LENGTH, LENGTH, generator=torch.Generator().manual_seed(0)) < 0.6
    seen = (seen | torch.eye(LENGTH, dtype=torch.bool)).tril()
    additive = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    padding = torch.ones(2, LENGTH, dtype=torch.long)
    padding[1, 6:9] = 0
    mask, for_eager = {"bool": (seen, additive), "additive": (additive, additive), "padding": (padding, padding)}[kind]
    if kind != "padding" and name == "gpt_oss":
        mask, for_eager = (dict.fromkeys(model.config.layer_types, m) for m in (mask, for_eager))
    expected = eager_maps(model, attention_mask=for_eager)
    with torch.no_grad(), recording(model, lambda layer, given: scores.append(with_sink(layer, given)), QUERIES):
        model(tokens(), attention_mask=mask, use_cache=False)
    for given, maps in zip(scores, expected, strict=True):
        assert_softmax(given, chosen(maps))


@pytest.mark.parametrize("attention", OURS)
def test_chosen_queries_of_our_signed_map(attention):
    model, signed = ours(attention), []
    native = eager_maps(model)

    def receive(layer, given):
        maps = given.double().softmax(-1)
        if (lam := layer.recorded_lambda) is not None:
            lam = lam if lam.ndim == 0 else lam.gather(2, QUERIES[:, None].expand(-1, lam.shape[1], -1))[..., None]
            maps = maps[:, 0::2] - lam.double() * maps[:, 1::2]
        signed.append(maps)

    with torch.no_grad(), recording(model, receive, QUERIES):
        model(tokens(), use_cache=False)
    for maps, expected in zip(signed, native, strict=True):
        torch.testing.assert_close(maps, chosen(expected).double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("every", "block"), [(1, 1), (1, 700), (3, 300), (5, 1 << 23), (LENGTH, 1), (40, 1)])
@pytest.mark.parametrize("name", FOREIGN)
def test_blocks_of_rows_are_those_of_eager(name, every, block, monkeypatch):
    monkeypatch.setattr(recorded_scores, "_BLOCK", block)
    model, weights = foreign(name), {}

    def receive(layer, given):
        assert given.numel() <= max(block, 2 * 4 * LENGTH)
        filled = torch.zeros(*given.shape[:3], LENGTH, dtype=torch.float64)
        filled[..., : given.shape[-1]] = row_weights(given.double(), learned_sinks(layer))
        weights.setdefault(layer, []).append(filled.sort(-1).values)

    expected = eager_maps(model)
    with torch.no_grad(), recording_rows(model, receive, every=every):
        model(tokens(), use_cache=False)
    assert len(weights) == 2
    for blocks, maps in zip(weights.values(), expected, strict=True):
        rows = maps[:, :, range((LENGTH - 1) % every, LENGTH, every)].double().sort(-1).values
        torch.testing.assert_close(torch.cat(blocks, 2), rows, rtol=1e-4, atol=1e-7)


def test_blocks_of_a_window_hold_its_stretch_alone(monkeypatch):
    monkeypatch.setattr(recorded_scores, "_BLOCK", 1)
    widths = []
    model = foreign("mistral")
    with torch.no_grad(), recording_rows(model, lambda _, given: widths.append(given.shape[-1])):
        model(tokens(), use_cache=False)
    assert widths == [min(row + 1, WINDOW) for row in range(LENGTH)] * 2


@pytest.mark.parametrize("queries", [torch.tensor([[0, LENGTH]] * 2), torch.tensor([[-1]] * 2), torch.tensor([[1]])])
def test_queries_that_are_no_positions(queries):
    model = foreign("llama")
    wanted = r"queries: expected positions from 0 to 22, shape \[2, Q\], got"
    with pytest.raises(ValueError, match=wanted), recording(model, print, queries):
        model(tokens())
    with pytest.raises(ValueError, match="every: expected 1 or more"), recording_rows(model, print, every=0):
        pass
    assert recorded_scores._receiver.get() is None


def test_row_weights_with_a_learned_sink():
    scores = torch.tensor([0.0, torch.inf, 2.0]).neg().double().expand(1, 2, 1, 3)
    weights = row_weights(scores, torch.tensor([1.0, -torch.inf]))
    total = 1 + torch.e**-2
    torch.testing.assert_close(weights[0, 0, 0], torch.tensor([1, 0, torch.e**-2]).double() / (total + torch.e))
    torch.testing.assert_close(weights[0, 1, 0], torch.tensor([1, 0, torch.e**-2]).double() / total)


def test_our_learned_sinks_take_their_share():
    model, weights = ours("softmax", attention_sink=True), []
    expected = eager_maps(model)
    assert all(maps.sum(-1).min() < 0.9 for maps in expected)
    with torch.no_grad(), recording(model, lambda *given: weights.append((given[1], learned_sinks(given[0]))), QUERIES):
        model(tokens(), use_cache=False)
    for (scores, sinks), maps in zip(weights, expected, strict=True):
        torch.testing.assert_close(row_weights(scores, sinks), chosen(maps), rtol=1e-4, atol=2e-6)
