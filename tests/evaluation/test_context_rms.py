"""Contexts of models made by hand have known sizes; those of others follow from eager maps and the values."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from diffattn.errors import UserError
from diffattn.evaluation.context_rms import ContextRmsConfig, measure
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from loud_models import foreign, ours, tokens
from planted_models import ANSWER, ASKED, FILLER, LAM, TOKENS, planted

CONFIG = ContextRmsConfig(batch_size=2)


def with_values(model, norm=False):
    """Every value is 3 in all channels for the answer and 1 for other tokens, but for the length of a unit vector."""
    layer = model.model.layers[0].self_attn
    with torch.no_grad():
        layer.v_proj.weight.fill_(1.0)
        layer.v_proj.weight[:, ANSWER] = 3.0
    length = (1 / TOKENS + model.config.rms_norm_eps) ** -0.5
    return model, length


def row():
    ids = np.full((1, 10), FILLER)
    ids[0, 0], ids[0, 9] = ANSWER, ASKED
    return ids


def test_planted_contexts():
    uniform = np.array([(3 + n - 1) / n for n in range(1, 11)])  # a mean over what each token sees
    found = {True: np.append(uniform[:9], 3.0), False: uniform}  # the last one attends to the answer alone
    for attention in ("softmax", "v1", "v2"):
        lam = LAM.get(attention, 0.0)
        for finds in (True, False):
            model, length = with_values(planted(attention, ANSWER if finds else None))
            layer = measure(model, row(), CONFIG).layers[0]
            context = np.abs(found[finds] - lam * uniform) * length
            assert layer.mean == pytest.approx(context.mean(), rel=1e-5)
            assert layer.largest == pytest.approx(context.max(), rel=1e-5)
            assert layer.value_rms == pytest.approx(length * np.sqrt((9 + 9) / 10), rel=1e-5)
            assert layer.not_finite == 0


def contexts_by_eager(model, layer, gate=None):
    """The heads' joined outputs `[B, T, width]`, from eager attention's signed map and the projected values."""
    attention = model.model.layers[layer].self_attn
    given = {}
    hook = attention.v_proj.register_forward_hook(lambda *parts: given.update(x=parts[1][0], v=parts[2]))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(tokens(), output_attentions=True, use_cache=False).attentions[layer].double()
    hook.remove()
    values = given["v"].double().unflatten(-1, (2, -1)).transpose(1, 2)  # two key/value heads in all of these
    values = values.repeat_interleave(maps.shape[1] // values.shape[1], 1)
    context = (maps @ values).transpose(1, 2).flatten(2)
    if hasattr(attention, "gate_proj"):
        context = context * torch.sigmoid(attention.gate_proj(given["x"])).double()
    return context.detach(), given["v"].double()


@pytest.mark.parametrize("name", ["softmax", "gated", "v2", "llama", "mistral", "gemma2", "gpt_oss"])
def test_random_models_against_their_eager_maps(name):
    model = foreign(name) if name in ("llama", "mistral", "gemma2", "gpt_oss") else ours(name)
    result = measure(model, tokens().numpy(), CONFIG)
    assert (result.tokens, len(result.layers)) == (46, 2)
    for number, layer in enumerate(result.layers):
        context, values = contexts_by_eager(model, number)
        rms = context.square().mean(-1).sqrt()
        assert layer.layer == number
        assert (layer.mean, layer.largest) == pytest.approx((rms.mean().item(), rms.max().item()), rel=1e-4)
        assert layer.value_rms == pytest.approx(values.square().mean().sqrt().item(), rel=1e-5)
    assert result.largest == max(layer.largest for layer in result.layers)


@pytest.mark.parametrize("head_norm", [True, False])
def test_v1s_context_is_before_its_norm(head_norm):
    config = ours("v1").config.to_dict() | {"head_norm": head_norm, "num_key_value_heads": 2}
    torch.manual_seed(0)
    model = DiffTransformerForCausalLM(DiffTransformerConfig(**config)).eval()
    found = measure(model, tokens().numpy(), CONFIG).layers[0]
    rms = contexts_by_eager(model, 0)[0].square().mean(-1).sqrt()
    assert (found.mean, found.largest) == pytest.approx((rms.mean().item(), rms.max().item()), rel=1e-4)


def test_the_batch_does_not_matter_nothing_is_left_behind_and_nan_is_counted():
    model = ours("v1").train()
    result = measure(model, tokens().numpy(), CONFIG)
    json.dumps(result.to_dict(), allow_nan=False)
    single = measure(model, tokens().numpy(), ContextRmsConfig())
    assert [layer.mean for layer in single.layers] == pytest.approx([layer.mean for layer in result.layers], rel=1e-4)
    assert model.training
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with torch.no_grad():
        model.model.layers[1].self_attn.v_proj.weight.fill_(torch.nan)
    diverged = measure(model, tokens().numpy(), CONFIG)
    assert diverged.layers[1].mean is None
    assert diverged.layers[1].not_finite == 46
    assert diverged.largest == pytest.approx(result.layers[0].largest)


def test_a_model_without_an_output_projection_of_that_name():
    with pytest.raises(UserError, match="GPT2LMHeadModel has no attention layers with an `o_proj`"):
        measure(foreign("gpt2"), tokens().numpy(), CONFIG)
