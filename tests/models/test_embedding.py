"""Embeddings of equal size with noise: exact sizes, the noise's spread, the same noise from the same generator."""

from __future__ import annotations

import pytest
import torch

from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.models.embedding import embed

TOKENS = torch.arange(60).reshape(3, 20) % 11


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = DiffTransformerConfig(
        vocab_size=11, hidden_size=64, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    return DiffTransformerForCausalLM(config)


def test_without_noise_they_are_the_models_own(model):
    assert torch.equal(embed(model, TOKENS), model.model.embed_tokens.weight[TOKENS])


def test_normalised_ones_keep_their_direction(model):
    made = embed(model, TOKENS, normalised=True).double()
    wanted = model.model.embed_tokens.weight[TOKENS].double()
    torch.testing.assert_close(made.square().mean(-1), torch.ones(3, 20, dtype=torch.float64), rtol=1e-5, atol=0)
    cosine = torch.cosine_similarity(made, wanted, dim=-1)
    torch.testing.assert_close(cosine, torch.ones_like(cosine), rtol=1e-6, atol=0)


def test_the_noise_is_normal_and_of_every_occurrence(model):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.zeros(40, 50, dtype=torch.long)
    noise = embed(model, tokens, sigma=0.4, generator=generator) - embed(model, tokens)
    scaled = noise.flatten().double() / 0.4
    # 128,000 draws: five standard errors of a mean, of a variance and of a fourth moment.
    assert abs(scaled.mean().item()) < 5 / len(scaled) ** 0.5
    assert abs(scaled.square().mean().item() - 1) < 5 * (2 / len(scaled)) ** 0.5
    assert abs(scaled.pow(4).mean().item() - 3) < 5 * (96 / len(scaled)) ** 0.5
    assert len({tuple(row) for row in noise.flatten(0, 1)[:, :2].tolist()}) == 2000


def test_a_generator_decides_the_noise(model):
    def made(seed):
        return embed(model, TOKENS, sigma=1.0, generator=torch.Generator().manual_seed(seed))

    assert torch.equal(made(3), made(3))
    assert not torch.equal(made(3), made(4))


def test_gradients_reach_the_table_through_the_scaling(model):
    model.zero_grad()
    embed(model, TOKENS, normalised=True, sigma=0.1)[..., 0].sum().backward()
    gradient = model.model.embed_tokens.weight.grad
    # What changes a vector's length alone changes nothing.
    along = (gradient * model.model.embed_tokens.weight).sum(-1)
    assert gradient.abs().max() > 1
    assert along.abs().max() < 1e-2 * gradient.abs().max()


@pytest.mark.parametrize("sigma", [-0.1, float("nan"), float("inf")])
def test_a_spread_that_is_none_is_named(model, sigma):
    with pytest.raises(ValueError, match="sigma: expected a finite number, 0 or more"):
        embed(model, TOKENS, sigma=sigma)
