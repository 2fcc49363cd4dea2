"""What remains with a part switched off, against models of other weights and against sums over single keys."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from diffattn.errors import UserError
from diffattn.evaluation.interventions import lambda_mean, lambda_zero, mean_lambda, uniform_noise_map
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM

BODY = {
    "vocab_size": 31,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
}
HEADS, LENGTH = {"v1": 2, "v2": 4}, 13


def made(attention, **fields):
    torch.manual_seed(0)
    fields = {"map_dim": 6, **fields}
    model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(LlamaConfig(**BODY), attention, **fields))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.4)
    return model.double().eval()


def tokens(batch=3):
    return torch.randint(31, (batch, LENGTH), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def logits(model):
    return model(tokens(), use_cache=False).logits


@torch.no_grad()
def test_v2_without_lambda_is_a_softmax_model_of_its_signal_queries():
    model, plain = made("v2"), made("softmax")
    weights = {name: value for name, value in model.state_dict().items() if "lambda_proj" not in name}
    for name in [name for name in weights if "q_proj" in name]:
        weights[name] = weights[name].unflatten(0, (4, 2, 6))[:, 0].flatten(0, 1)
    plain.load_state_dict(weights)
    with lambda_zero(model):
        off = logits(model)
    torch.testing.assert_close(off, logits(plain), rtol=1e-10, atol=1e-12)
    assert (off - logits(model)).abs().max() > 1e-2


@pytest.mark.parametrize("implementation", ["diffattn", "sdpa", "eager"])
@torch.no_grad()
def test_v1_without_lambda_is_v1_whose_lambda_is_fixed_at_0(implementation):
    model, other = made("v1"), made("v1", lambda_granularity="fixed", lambda_init=0.0)
    other.load_state_dict({name: value for name, value in model.state_dict().items() if ".lambda_" not in name})
    for layer, fixed in zip(model.model.layers, other.model.layers, strict=True):  # the norm's factor stays as it was
        fixed.self_attn.head_norm.weight.mul_(1 - layer.self_attn.lambda_init)
    for one in (model, other):
        one.set_attn_implementation(implementation)
    with lambda_zero(model):
        torch.testing.assert_close(logits(model), logits(other), rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_a_lambda_that_is_everywhere_the_same_is_its_mean_bit_for_bit():
    model = made("v2")
    for layer in model.model.layers:
        layer.self_attn.lambda_proj.weight.zero_()
    found = mean_lambda(model, tokens().numpy(), batch_size=2)
    assert {layer: mean.tolist() for layer, mean in found.means.items()} == {0: [0.5] * 4, 1: [0.5] * 4}
    with lambda_mean(model, found.means):
        assert torch.equal(logits(model), logits(made_the_same(model)))


def made_the_same(model):
    other = made("v2")
    other.load_state_dict(model.state_dict())
    return other


@torch.no_grad()
def test_the_mean_lambda_by_hand():
    model = made("v2")
    hidden = model(tokens(), output_hidden_states=True, use_cache=False).hidden_states
    found = mean_lambda(model, tokens().numpy(), batch_size=2)
    assert found.by_token
    for index, layer in enumerate(model.model.layers):
        lam = torch.sigmoid(layer.input_layernorm(hidden[index]) @ layer.self_attn.lambda_proj.weight.T)
        torch.testing.assert_close(found.means[index], lam.mean((0, 1)), rtol=1e-12, atol=0)
    with lambda_mean(model, found.means, [(1, 2)]), model.record_lambda():
        model(tokens(), use_cache=False)
        lam = model.model.layers[1].self_attn.recorded_lambda
        assert torch.equal(lam[:, 2], found.means[1][2].expand(3, LENGTH))
        assert lam[:, 1].std() > 0
    assert not mean_lambda(made("v1"), tokens().numpy()).by_token


@pytest.mark.parametrize("implementation", ["diffattn", "sdpa", "eager"])
@pytest.mark.parametrize("attention", ["v1", "v2"])
@torch.no_grad()
def test_the_uniform_map_by_a_sum_over_single_keys(attention, implementation):
    model = made(attention)
    model.set_attn_implementation(implementation)
    layer, given, contexts = model.model.layers[0].self_attn, [], []
    layer.register_forward_pre_hook(lambda _, args, kwargs: given.append((args[0], kwargs)), with_kwargs=True)
    name = "head_norm" if attention == "v1" else "o_proj"
    getattr(layer, name).register_forward_pre_hook(lambda _, args: contexts.append(args[0]))
    with uniform_noise_map(model, [(0, 1)]):
        model(tokens(), use_cache=False)
    hidden, kwargs = given[0]
    made_of = layer.project(hidden, kwargs["position_embeddings"])
    lam = torch.as_tensor(made_of.extra).double().expand(3, HEADS[attention], LENGTH)
    context = contexts[0].view(3, LENGTH, HEADS[attention], -1)
    for head in range(HEADS[attention]):
        group = head // (HEADS[attention] // made_of.k.shape[1])
        for row, query in ((0, 0), (2, 5), (1, LENGTH - 1)):
            keys, values = made_of.k[row, group, : query + 1].split(6, dim=-1), made_of.v[row, group, : query + 1]
            signal, noise = (
                torch.tensor(
                    [
                        math.exp(float(made_of.q[row, 2 * head + at, query] @ k) / math.sqrt(6))
                        for k in keys[at % len(keys)]
                    ]
                )
                for at in (0, 1)
            )
            noise = torch.ones(query + 1) if head == 1 else noise
            signed = signal / signal.sum() - lam[row, head, query] * noise / noise.sum()
            torch.testing.assert_close(context[row, query, head], signed.double() @ values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("switch", [lambda_zero, uniform_noise_map])
def test_only_the_heads_that_were_chosen_change(switch):
    model = made("v2")
    before, seen = {}, {}
    for into in (before, seen):
        hooks = [
            layer.self_attn.o_proj.register_forward_pre_hook(
                lambda _, args, index=index, into=into: into.__setitem__(index, args[0].unflatten(-1, (4, 6)))
            )
            for index, layer in enumerate(model.model.layers)
        ]
        with switch(model, [] if into is before else [(1, 0), (1, 3)]):
            logits(model)
        for hook in hooks:
            hook.remove()
    assert torch.equal(before[0], seen[0])
    changed = (before[1] - seen[1]).abs().amax((0, 1, 3))
    assert (changed > 1e-4).tolist() == [True, False, False, True]


def test_blocks_may_be_nested_and_leave_the_model_as_it_was():
    model = made("v2")
    plain = logits(model)
    with uniform_noise_map(model):
        uniform = logits(model)
        with pytest.raises(RuntimeError), lambda_zero(model):
            model(tokens()[:, :0].float())
        with lambda_zero(model):
            off = logits(model)
        assert torch.equal(logits(model), uniform)
    assert torch.equal(logits(model), plain)
    assert not torch.equal(off, uniform)
    with lambda_zero(model):
        assert torch.equal(off, logits(model))


def test_what_cannot_be_switched_off():
    with pytest.raises(ValueError, match=r"heads: \(1, 4\) is none of the model's \(heads of each layer: 0: 4, 1: 4\)"):
        lambda_zero(made("v2"), [(0, 0), (1, 4)]).__enter__()
    for model in (made("softmax"), LlamaForCausalLM(LlamaConfig(**BODY))):
        with pytest.raises(UserError, match="has no differential attention"):
            mean_lambda(model, np.zeros((1, 4), np.int64))
