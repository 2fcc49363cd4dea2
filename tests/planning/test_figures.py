"""Single figures of a plan by hand, at the edges where one is easily taken for another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diffattn.models import DiffTransformerConfig, count_parameters
from diffattn.planning.attention import Attention, Latent, variant
from diffattn.planning.body import Experts, FeedForward, Layer, Model
from diffattn.planning.cost import Prices
from diffattn.planning.families import read_model
from diffattn.planning.floor import NoiseAssumptions, noise_floor
from diffattn.planning.flops import decode_step
from diffattn.planning.hardware import Hardware
from diffattn.planning.plan import plan
from diffattn.planning.presets import PRESETS
from diffattn.planning.published import nearest_retrieval
from diffattn.planning.request import PlanRequest
from diffattn.planning.sections import sections

READY = {"training": "pretraining", "task": "retrieval", "long_data": True, "long_evaluation": True}
SMALL = Attention(name="softmax", width=8, heads=4, maps=4, keys=2, values=2, map_dim=2, value_dim=2)


def ask(config="llama-3.1-8b", **changes):
    return PlanRequest(**{"config": PRESETS[config], "name": "a model", **changes})


def model(attention=SMALL, window=None, feed_forward=None):
    feed_forward = feed_forward or FeedForward(width=8, inner=16)
    layer = Layer(attention=attention, feed_forward=feed_forward, norms=16, window=window)
    return Model(name="hand", width=8, vocab=10, tied=True, final_norm=8, layers=(layer,))


def test_a_step_of_several_tokens():
    one, four = (decode_step(model(), 100, 3, 2, queries=queries) for queries in (1, 4))
    assert four.attention_flops == 4 * one.attention_flops == 4 * 3 * 100 * 4 * 4 * 2
    assert four.linear_flops == 4 * one.linear_flops
    assert (four.attention_bytes, four.linear_bytes) == (one.attention_bytes, one.linear_bytes)


def test_a_window_bounds_what_a_step_reads_and_what_is_stored():
    windowed = decode_step(model(window=40), 100, 1, 2)
    assert windowed.attention_bytes == 40 * (2 * 2 + 2 * 2) * 2
    machine = Hardware(name="m", flops={"bfloat16": 1e12}, bandwidth=1e12, memory=2e10, source="")
    found = plan(ask("mistral-7b", contexts=(131072,), batches=(1,), hardware=machine))
    assert found["sizes"]["softmax"]["cache_bytes"][131072] == 4096 * found["sizes"]["softmax"]["cache_bytes_a_token"]
    # 14.5 GB of weights and 0.5 GB of cache; without the window the cache alone would have 17 GB.
    assert all(row["fits"] for row in found["decode"])
    tight = plan(ask("llama-3.1-8b", contexts=(131072,), batches=(1,), hardware=machine))
    assert not any(row["fits"] for row in tight["decode"])


def test_latent_attention_in_decoding_takes_each_map_through_the_key_projection():
    latent = Latent(query_rank=None, rank=3, rope_dim=2, nope_dim=4, value_dim=5)
    base = replace(SMALL, keys=4, values=4, map_dim=6, value_dim=5, latent=latent)
    query, stored, both, out = 4 * 6 * 8, (3 + 2) * 8, 3 * 4 * (4 + 5), 4 * 5 * 8
    assert base.linear_flops(decode=True) == base.linear_flops() == 2 * (query + stored + both + out)
    second = 2 * (query + 4 * 8 + 4 * 4 * 3)  # queries, lambda, and the second maps' way to the latent keys
    assert variant(base, "v2").linear_flops(decode=True) - base.linear_flops(decode=True) == second
    assert variant(base, "v2").pair_flops(decode=True) == 2 * 8 * (3 + 2) + 2 * 8 * 3


def test_a_mixture_reads_and_runs_its_experts():
    mixture = FeedForward(width=8, inner=16, experts=Experts(count=4, active=2, shared=24))
    one, shared, router = 3 * 8 * 16, 3 * 8 * 24, 8 * 4
    assert mixture.linear_flops() == 2 * (2 * one + shared + router)
    assert mixture.read(1) == 2 * one + shared + router
    assert mixture.read(2) == pytest.approx(4 * one * (1 - 0.25) + shared + router)
    body = model(feed_forward=mixture)
    assert body.total - body.active == 2 * one


def test_tokens_of_training_are_counted_by_active_parameters():
    mixtral = read_model(PRESETS["mixtral-8x7b"], "")
    assert mixtral.active == 12_879_925_248
    assert plan(ask("mixtral-8x7b"))["training"]["tokens"] == 20 * mixtral.active


def test_the_noise_floor_is_that_of_its_assumptions():
    assumed = NoiseAssumptions(margin=7, strength=1.2, second_margin=3, correlations=(0.4,), lam=0.6)
    found = noise_floor(assumed, 20_000)
    exact = assumed.at(20_000, 0.4)
    (row,) = found["rows"]
    assert exact.second_margin == 3
    assert row["gain"] == exact.gain(exact.best_lambda())
    assert row["fixed_gain"] == exact.gain(0.6)
    assert row["length_factor"] == row["output_gain"] ** 2
    shown = next(part for part in sections(plan(ask(noise=assumed))) if part.title == "What the noise model says")
    cells = shown.table.rows[0]
    assert cells[0] == "0.4"
    assert cells[2:4] != (cells[2], cells[2])


def test_the_longest_context_decides():
    found = plan(ask(contexts=(4096, 131072, 8192), batches=(1, 2)))
    assert found["noise"]["context"] == 131072
    assert {entry["context"] for entry in found["retrieval"]} == {65536}
    said = " ".join(reason["text"] for reason in found["verdict"]["reasons"])
    row = next(r for r in found["decode"] if (r["model"], r["context"], r["batch"]) == ("v2", 131072, 2))
    assert f"{row['ratio']:.3f} of the baseline's time at batch 2" in said


@pytest.mark.parametrize(
    ("context", "changes", "answer"),
    [
        (65_536, {}, "use V2"),
        (65_535, {}, "consider"),
        (4_096, {}, "consider"),
        (4_095, {}, "do not"),
        (16_384, {"training": "lora"}, "consider"),
        (16_383, {"training": "lora"}, "do not"),
    ],
)
def test_where_contexts_become_long(context, changes, answer):
    assert plan(ask(**{**READY, **changes}, contexts=(context,)))["verdict"]["answer"] == answer


def test_a_strength_at_which_the_closed_form_fails_shows_no_gain():
    found = plan(ask(**READY, noise=NoiseAssumptions(strength=5.0, measured=True)))
    assert not found["noise"]["holds"]
    assert found["verdict"]["answer"] == "consider"
    assert "no gain is known" in " ".join(reason["text"] for reason in found["verdict"]["reasons"])


PUBLISHED_NEEDLES = {
    8192: (0.95, 1.00),
    16384: (0.84, 0.94),
    24576: (0.78, 0.87),
    32768: (0.64, 0.83),
    40960: (0.50, 0.83),
    49152: (0.75, 0.92),
    57344: (0.78, 0.84),
    65536: (0.52, 0.86),
}


@pytest.mark.parametrize("context", PUBLISHED_NEEDLES)
def test_the_published_table(context):
    (entry,) = nearest_retrieval(context)
    assert (entry.softmax, entry.differential) == PUBLISHED_NEEDLES[context]


def test_the_published_needles_of_short_texts():
    found = [(entry.task, entry.softmax, entry.differential) for entry in nearest_retrieval(4096)]
    assert found == [
        ("1 needle, 1 asked", 1.00, 1.00),
        ("2 needles, 2 asked", 0.85, 0.92),
        ("4 needles, 2 asked", 0.62, 0.84),
        ("6 needles, 2 asked", 0.55, 0.85),
    ]


def test_power_and_prices_are_those_given():
    prices = Prices(watts=1000, kilowatt_hour=0.5, device_hour=3)
    entry = plan(ask(prices=prices))["training"]["runs"]["v2"]
    assert entry["energy_kwh"] == pytest.approx(entry["device_hours"])
    assert entry["energy_money"] == pytest.approx(0.5 * entry["device_hours"])
    assert entry["money"] == pytest.approx(3 * entry["device_hours"])
    own = plan(ask())["training"]["runs"]["v2"]
    assert own["energy_kwh"] == pytest.approx(0.7 * own["device_hours"])


def test_cheaper_ways_and_what_they_add():
    found = {entry["name"]: entry for entry in plan(ask())["training"]["alternatives"]}
    assert found["log-n scaled logits"]["parameters"] == found["learned sink"]["parameters"] == 32 * 32
    assert found["gated attention"]["parameters"] == 32 * 4096 * 4096
    assert found["gated attention"]["flops_ratio"] > found["learned sink"]["flops_ratio"] == 1
    assert "learned sink" not in {entry["name"] for entry in plan(ask("gpt-oss-20b"))["training"]["alternatives"]}


@pytest.mark.parametrize(("name", "known"), [("llama-7b", True), ("deepseek-v3", False)])
def test_the_scaling_law_is_asked_within_its_range(name, known):
    assert (plan(ask(name))["training"]["break_even"]["v2"]["loss_bought"] is not None) is known


@pytest.mark.parametrize("variant_name", ["v1", "v2", "gated"])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-4b", "qwen2.5-7b", "mistral-7b"])
def test_a_configuration_made_from_the_table_is_the_one_planned(name, variant_name):
    """All fields of the model's own that ours has, then the table's on top."""
    request = ask(name, variant=variant_name, contexts=(4096,))
    found = plan(request)
    fields = {key: value for key, value in PRESETS[name].items() if key != "model_type"}
    changed = {row["field"]: row["after"] for row in found["fields"] if row["field"] not in _NOT_SET}
    config = DiffTransformerConfig(**{**fields, **changed})
    assert count_parameters(config).total == found["sizes"][variant_name]["total"]
    windows = [layer.window for layer in read_model(PRESETS[name], name).layers]
    assert [kind == "sliding_attention" for kind in config.layer_types] == [window is not None for window in windows]


_NOT_SET = ("model_type", "intermediate_size")


def test_a_body_that_our_configuration_has_not_is_said_to_be_so():
    found = plan(ask("gemma-2-9b"))
    assert not found["expressible"]
    assert [row["field"] for row in found["fields"]] == ["num_attention_heads"]
    own = DiffTransformerConfig(num_attention_heads=8, hidden_size=64, attention="v2").to_dict()
    differential = plan(PlanRequest(config=own, name="ours"))
    assert differential["fields"] == []
    assert differential["sizes"]["own"]["total"] == differential["sizes"]["v2"]["total"]
