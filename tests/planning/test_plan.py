"""The plan as a whole: published figures, its sections, its verdicts, and configurations that cannot be planned."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from diffattn.experiments.statistics import detectable_difference
from diffattn.planning.artefacts import MARKER, brief, filled, read_artefact
from diffattn.planning.attention import Attention, Latent, variant
from diffattn.planning.cost import Prices, loss_bought, training_cost
from diffattn.planning.families import read_model
from diffattn.planning.floor import NoiseAssumptions
from diffattn.planning.flops import decode_step, seen_keys
from diffattn.planning.hardware import BYTES, MACHINES, Hardware, find_hardware
from diffattn.planning.plan import plan
from diffattn.planning.presets import PRESETS, find_preset
from diffattn.planning.published import EVIDENCE, GRADES, MEASURED_LOSS, nearest_retrieval
from diffattn.planning.request import PlanRequest
from diffattn.planning.sections import sections, to_markdown

ROOT = Path(__file__).parents[2]
GROUPED = {**PRESETS["llama-7b"], "num_key_value_heads": 8}
READY = {"training": "pretraining", "task": "retrieval", "long_data": True, "long_evaluation": True}


def ask(config="llama-3.1-8b", **changes):
    fields = PRESETS[config] if isinstance(config, str) else config
    return PlanRequest(**{"config": fields, "name": "a model", **changes})


def attention(kv_heads, **changes):
    base = Attention(
        name="softmax",
        width=4096,
        heads=32,
        maps=32,
        keys=kv_heads,
        values=kv_heads,
        map_dim=128,
        value_dim=128,
    )
    return replace(base, **changes)


MLA = attention(128, heads=128, maps=128, values=128, latent=Latent(
    query_rank=1536, rank=512, rope_dim=64, nope_dim=128, value_dim=128
))  # fmt: skip


@pytest.mark.parametrize(
    ("kv_heads", "name", "parameters"),
    [
        (8, "softmax", 41_943_040),
        (8, "v1", 41_943_808),
        (8, "v2", 58_851_328),
        (32, "softmax", 67_108_864),
        (32, "v1", 67_109_632),
        (32, "v2", 84_017_152),
    ],
)
def test_attention_parameters_of_a_layer(kv_heads, name, parameters):
    assert sum(variant(attention(kv_heads), name).parameters().values()) == parameters
    fields = {**GROUPED, "num_key_value_heads": kv_heads}
    assert plan(ask(fields))["sizes"][name]["layer_attention"] == parameters


def test_what_v2_adds():
    grown = variant(attention(8), "v2").parameters()
    assert grown["query"] - attention(8).parameters()["query"] == 16_777_216
    assert grown["lambda"] == 131_072
    assert all(grown[name] == count for name, count in attention(8).parameters().items() if name != "query")


@pytest.mark.parametrize(("name", "growth"), [("llama-7b", 0.080), ("llama-3.1-8b", 0.067)])
def test_growth_of_whole_models(name, growth):
    sizes = plan(ask(name))["sizes"]
    assert sizes["v2"]["total"] - sizes["softmax"]["total"] == 541_065_216
    assert sizes["v2"]["total"] / sizes["softmax"]["total"] - 1 == pytest.approx(growth, abs=5e-4)


def test_a_narrower_feed_forward_pays_for_v2_exactly():
    sizes = plan(ask("llama-7b"))["sizes"]
    assert sizes["matched"]["inner"] == 9632
    assert sizes["matched"]["total"] == sizes["softmax"]["total"]


def test_caches_are_equal_and_intensity_doubles():
    found = plan(ask(GROUPED))
    assert {size["cache_bytes_a_token"] for size in found["sizes"].values()} == {32 * 2 * 8 * 128 * 2}
    (plain, _), (v2, combined) = found["bounds"]["softmax"], found["bounds"]["v2"]
    assert plain["intensity"] == 4
    assert v2["intensity"] == 2 * plain["intensity"]
    assert combined["intensity"] == 1.5 * plain["intensity"]


def test_decode_arithmetic_a_cached_token():
    H, d = 32, 128
    flops = {name: variant(attention(8), name).pair_flops() for name in ("softmax", "v1", "v2")}
    assert flops == {"softmax": 4 * H * d, "v1": 6 * H * d, "v2": 8 * H * d}
    combined = {name: variant(attention(8), name).pair_flops(combined=True) for name in ("v1", "v2")}
    assert combined == {"v1": 4 * H * d, "v2": 6 * H * d}


def test_latent_attention_is_where_v2_is_not_free():
    h100 = MACHINES["h100"]
    assert h100.ridge("bfloat16") == pytest.approx(295, abs=0.5)
    assert MLA.intensity() == pytest.approx(242, abs=0.5)
    assert variant(MLA, "v2").intensity() == pytest.approx(484, abs=0.5)
    bounds = plan(ask("deepseek-v3"))["bounds"]
    assert bounds["softmax"][0]["memory_bound"]
    assert not bounds["v2"][0]["memory_bound"]


@pytest.mark.parametrize(("context", "growth"), [(1024, 0.067), (32768, 0.053), (131072, 0.033)])
def test_bytes_of_a_step_grow_by_weights_alone(context, growth):
    found = plan(ask(contexts=(context,), batches=(1,)))
    step = {row["model"]: row for row in found["decode"] if not row["combined"]}
    assert step["v2"]["bytes"] / step["softmax"]["bytes"] - 1 == pytest.approx(growth, abs=5e-4)
    assert step["v2"]["ratio"] - 1 == pytest.approx(growth, abs=5e-4)


def test_the_float32_ridge_of_a_small_cpu():
    cpu = Hardware(name="cpu", flops={"float32": 204e9}, bandwidth=64e9, source="")
    bounds = plan(ask(GROUPED, hardware=cpu, dtype="float32"))["bounds"]
    assert bounds["ridge"] == pytest.approx(3.2, abs=0.05)
    assert [entry["intensity"] for entry in bounds["v2"]] == [4, 3]
    assert [entry["memory_bound"] for entry in bounds["v2"]] == [False, True]


@pytest.mark.parametrize("queries", [1, 8, 64])
def test_bounds_are_where_intensity_meets_the_ridge(queries):
    found = plan(ask(queries=queries, hardware=MACHINES["h200"]))
    for key in ("softmax", "v1", "v2"):
        for entry in found["bounds"][key]:
            a_query = entry["intensity"] / queries
            assert entry["queries"] * a_query == pytest.approx(found["bounds"]["ridge"])
            assert entry["memory_bound"] is (queries < entry["queries"])
            group = entry["heads_per_kv_head"] / 4 * entry["intensity"]
            assert group == pytest.approx(found["bounds"]["ridge"])


def test_the_roofline_by_hand():
    fields = {
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 10,
    }
    model = read_model({"model_type": "llama", **fields}, "hand")
    step = decode_step(model, context=100, batch=3, bytes_an_element=2)
    weights = 4 * 8 * 8 + 3 * 8 * 16 + 2 * 8 + 8 + 2 * 10 * 8
    assert step.linear_bytes == 2 * weights
    assert step.linear_flops == 3 * 2 * (4 * 8 * 8 + 3 * 8 * 16 + 10 * 8)
    assert step.attention_bytes == 3 * 100 * 2 * 8 * 2
    assert step.attention_flops == 3 * 100 * 4 * 8
    assert step.seconds(1e3, 1e3) == max(step.linear_flops, step.linear_bytes) / 1e3 + step.attention_bytes / 1e3 * (
        max(step.attention_flops, step.attention_bytes) / step.attention_bytes
    )
    windowed = replace(model, layers=(replace(model.layers[0], window=40),))
    assert decode_step(windowed, 100, 3, 2).attention_bytes == 0.4 * step.attention_bytes


@pytest.mark.parametrize(("length", "window"), [(1, None), (7, None), (7, 3), (7, 7), (7, 9), (5, 1)])
def test_seen_keys_by_counting(length, window):
    seen = sum(1 for q in range(length) for k in range(length) if k <= q and (window is None or k > q - window))
    assert seen_keys(length, window) == seen


def test_experts_that_a_batch_reads():
    feed_forward = read_model(PRESETS["mixtral-8x7b"], "").layers[0].feed_forward
    one = 3 * 4096 * 14336
    assert feed_forward.read(1) == pytest.approx(2 * one + 8 * 4096)
    assert feed_forward.read(10_000) == pytest.approx(8 * one + 8 * 4096)


def test_costs_of_training():
    machine = Hardware(name="m", flops={"bfloat16": 1e15}, bandwidth=1e12, watts=500, source="")
    cost = training_cost(3.6e18, machine, "bfloat16", Prices(utilization=0.5, device_hour=2, kilowatt_hour=0.25))
    assert cost == {"device_hours": 2.0, "money": 4.0, "energy_kwh": 1.0, "energy_money": 0.25}
    assert training_cost(3.6e18, machine, "bfloat16", Prices())["money"] is None
    assert loss_bought(1e11, 1.1) == pytest.approx(2085.43 * (1e11**-0.3658 - 1.1e11**-0.3658))
    entry = plan(ask(train_tokens=1e12))["training"]["break_even"]["v2"]
    assert entry["extra_flops"] == pytest.approx(1e12 * (entry["flops_a_token"] - entry["baseline_flops_a_token"]))


def test_evidence_is_graded_and_ours_is_what_was_measured():
    assert {entry.grade for entry in EVIDENCE.values()} <= set(GRADES)
    results = json.loads((ROOT / "docs/results/wikitext-2-small/results.json").read_text())
    ours = [(entry["variant"], entry["measure"]) for entry in results["comparisons"]]
    v2 = results["comparisons"][ours.index(("v2", "test.bits_per_byte"))]
    measured = tuple(round(v2[key], 3) for key in ("difference_mean", "interval_low", "interval_high"))
    assert measured == MEASURED_LOSS
    assert (ROOT / EVIDENCE["loss measured"].source).is_dir()


@pytest.mark.parametrize(("context", "nearest"), [(1000, 4096), (20_000, 16384), (131072, 65536), (10**7, 65536)])
def test_retrieval_is_quoted_and_never_extrapolated(context, nearest):
    assert {entry.context for entry in nearest_retrieval(context)} == {nearest}


MEASURED = {"noise": NoiseAssumptions(margin=8, strength=1, measured=True)}
CLEAR = {"noise": NoiseAssumptions(margin=20, strength=1, measured=True)}
SHARED = {"noise": NoiseAssumptions(margin=8, strength=1, second_margin=8, measured=True)}
CONTINUED = {**READY, "training": "mid-training"}


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, "consider"),
        (READY, "use V2"),
        ({**READY, "task": None}, "consider"),
        ({**READY, "task": "general"}, "consider"),
        ({**READY, "task": "code"}, "consider"),
        (CONTINUED, "consider"),
        ({**CONTINUED, **MEASURED}, "use V2"),
        ({**CONTINUED, **CLEAR}, "do not"),
        ({**CONTINUED, **SHARED}, "consider"),
        ({**READY, **CLEAR}, "do not"),
        ({**READY, **MEASURED, "training": "lora"}, "consider"),
        ({**READY, "training": "none"}, "do not"),
        ({**READY, "long_data": False}, "do not"),
        ({**READY, "long_data": None}, "consider"),
        ({**READY, "long_evaluation": False}, "do not"),
        ({**READY, "contexts": (32768,)}, "consider"),
        ({**READY, "contexts": (8192,)}, "consider"),
        ({**CONTINUED, **MEASURED, "contexts": (8192,)}, "do not"),
        ({**READY, "contexts": (2048,)}, "do not"),
        ({**READY, "config": "deepseek-v3"}, "consider"),
    ],
)
def test_verdicts(changes, answer):
    found = plan(ask(**changes))["verdict"]
    assert found["answer"] == answer
    assert {reason["grade"] for reason in found["reasons"]} <= set(GRADES)
    refused = [entry["case"] for entry in found["refusals"] if entry["applies"]]
    assert bool(refused) is (answer == "do not")
    for case in refused:
        assert any(case in reason["text"] for reason in found["reasons"])


def test_what_was_not_said_is_open_and_named_with_its_option():
    found = plan(ask())["verdict"]
    cases = {entry["case"]: entry["applies"] for entry in found["refusals"]}
    assert cases == {
        "no training": None,
        "no long-context data": None,
        "no long-context evaluation": None,
        "short contexts": False,
        "the model holds up": None,
    }
    for option in ("--training", "--long-data", "--long-evaluation", "--margin and --strength", "--task"):
        assert any(option in text for text in found["would_change"])


@pytest.mark.parametrize(
    ("differences", "answer"),
    [([-0.02, -0.021, -0.019], "use V2"), ([-0.02, 0.03, -0.01], "consider"), ([0.02, 0.021, 0.019], "do not")],
)
def test_a_pilot_counts(differences, answer):
    found = plan(ask(**READY, pilot=pilot(differences)))["verdict"]
    assert found["answer"] == answer
    assert any("Your pilot" in reason["text"] for reason in found["reasons"])
    assert plan(ask(**READY, pilot=gated_pilot(differences), variant="gated"))["verdict"]["answer"] == "use V2"


def gated_pilot(differences):
    results = pilot(differences)
    return {**results, "runs": [{**run, "variant": run["variant"].replace("v2", "gated")} for run in results["runs"]]}


def test_the_reasons_name_prefill_positions_and_the_batch_that_fits():
    found = plan(ask("qwen3-4b", contexts=(131072,), batches=(1, 16)))
    said = " ".join(reason["text"] for reason in found["verdict"]["reasons"])
    assert "takes 1.86 times the baseline's FLOPs: prefill is not free" in said
    assert "3.2 times the 40,960 positions" in said
    assert "at batch 1 by the roofline" in said  # 16 sequences of that length do not fit one machine
    assert "(does not fit one)" in brief(found)
    assert "positions" not in " ".join(r["text"] for r in plan(ask(contexts=(8192,)))["verdict"]["reasons"])


def test_continued_training_is_at_the_target_and_has_no_narrower_feed_forward():
    scratch, continued = (plan(ask("qwen3-4b", **ready)) for ready in (READY, CONTINUED))
    assert (scratch["training"]["length"], continued["training"]["length"]) == (4096, 131072)
    assert plan(ask("qwen3-4b", **CONTINUED, train_context=8192))["training"]["length"] == 8192
    narrowed = [any(row["field"] == "intermediate_size" for row in found["fields"]) for found in (scratch, continued)]
    assert narrowed == [True, False]
    assert "pays for it" in brief(scratch)
    assert "pays for it" not in brief(continued)
    run = continued["training"]["runs"]
    more = continued["training"]["break_even"]["v2"]["device_hours"]
    assert run["v2"]["device_hours"] - run["softmax"]["device_hours"] == pytest.approx(more)


def test_what_the_pairs_at_hand_could_show():
    found = plan(ask(pairs=5))["experiment"]
    assert [row["spread"] for row in found["table"]] == [0.005, 0.01, 0.02]
    assert found["table"][1]["shown"] == pytest.approx(detectable_difference(0.01, 5), rel=1e-6)


def pilot(differences):
    runs = [
        {"variant": name, "seed": seed, "evaluation": {"test": {"loss": 4 + (difference if name == "v2" else 0)}}}
        for seed, difference in enumerate(differences)
        for name in ("softmax", "v2")
    ]
    return {"baseline": "softmax", "runs": runs, "settings": {"tokens": 3_000_000}}


def test_a_pilot_says_how_many_seeds_and_tokens():
    found = plan(ask(pilot=pilot([-0.02, -0.03, -0.01])))["experiment"]
    assert found["pilot"]["deviation"] == pytest.approx(0.01)
    assert (found["pairs"], found["tokens"]) == (10, 2 * 10 * 3_000_000)
    with pytest.raises(ValueError, match=r"pilot: expected two seeds"):
        plan(ask(pilot=pilot([-0.02])))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_makes_a_page_that_survives_json(name):
    found = plan(ask(name))
    page = to_markdown(found)
    assert to_markdown(json.loads(json.dumps(found))) == page
    assert not {"None", "nan", "inf"} & set(page.replace("|", " ").split())
    for section in sections(found):
        if section.table:
            assert {len(row) for row in section.table.rows} == {len(section.table.columns)}
    for key in found["sizes"]:
        assert f"{found['sizes'][key]['total']:,}" in page or key == "gated"


@pytest.mark.parametrize("variant_name", ["v1", "v2", "gated"])
def test_fields_to_change_are_those_that_the_model_has(variant_name):
    from transformers import AutoConfig

    from diffattn import DiffTransformerConfig

    config = DiffTransformerConfig.from_baseline(AutoConfig.for_model(**PRESETS["qwen3-4b"]), attention=variant_name)
    for entry in plan(ask("qwen3-4b", variant=variant_name, contexts=(32768,)))["fields"]:
        if entry["field"] not in ("model_type", "intermediate_size"):
            assert getattr(config, entry["field"]) == entry["after"], entry["field"]
    matched = DiffTransformerConfig.from_baseline(
        AutoConfig.for_model(**PRESETS["qwen3-4b"]), attention="v2", match_parameters=True
    )
    assert plan(ask("qwen3-4b"))["sizes"]["matched"]["inner"] == matched.intermediate_size


@pytest.mark.parametrize("name", ["prompt", "skill"])
def test_artefacts_stand_alone_and_filled(name):
    text = read_artefact(name)
    assert text.count(MARKER) == 1
    found = plan(ask("qwen3-4b", **READY))
    full = filled(name, found)
    assert MARKER not in full
    assert brief(found) in full
    assert f"{found['sizes']['v2']['total']:,}" in full
    assert full.startswith(text[: text.index(MARKER)])


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}


TINY = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 101,
}


def without(name):
    return {key: value for key, value in LLAMA.items() if key != name}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        *(
            (without(name), rf"^{name}: expected a whole number, the configuration lacks it")
            for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
        ),
        ({**LLAMA, "hidden_size": "64"}, r"^hidden_size: expected a whole number .* got '64'"),
        ({**LLAMA, "num_hidden_layers": 0}, r"^num_hidden_layers: expected a whole number from 1 to 10,000, got 0"),
        ({**LLAMA, "num_hidden_layers": True}, r"^num_hidden_layers: expected .* got True"),
        ({**LLAMA, "num_attention_heads": 5}, r"^num_key_value_heads: expected a divisor of the 5 heads, got 2"),
        ({**LLAMA, "num_attention_heads": 6}, r"^hidden_size: expected a multiple of the 6 heads.* got 64"),
        ({**LLAMA, "layer_types": ["full_attention"]}, r"^layer_types: expected 2 entries"),
        ({**LLAMA, "layer_types": ["full_attention", "mamba"]}, r"^layer_types: expected full_attention or .* 'mamba'"),
        ({**LLAMA, "layer_types": ["sliding_attention"] * 2}, r"^sliding_window: expected a whole number"),
        ({**LLAMA, "model_type": 3}, r"^model_type: expected a name, got 3"),
        ({**LLAMA, "model_type": "bert"}, r"^model_type: expected a decoder-only .* got the encoder 'bert'"),
        ({**LLAMA, "model_type": "t5", "is_encoder_decoder": True}, r"^is_encoder_decoder: expected a decoder-only"),
        ({**LLAMA, "model_type": "mamba"}, r"^model_type: expected .* softmax attention in every layer, got 'mamba'"),
        ({**LLAMA, "model_type": "new", "state_size": 16}, r"^model_type: expected .* softmax attention in every"),
        ({**LLAMA, "model_type": "starcoder2"}, r"^model_type: expected layers like Llama's, got 'starcoder2'"),
        ({**LLAMA, "model_type": "new", "num_experts": 8}, r"^model_type: expected a known family .* got 'new'"),
        ({**LLAMA, "model_type": "new", "kv_lora_rank": 8}, r"^model_type: expected a known family .* latent"),
        (
            {**LLAMA, "model_type": "new", "architectures": ["NewForMaskedLM"]},
            r"^architectures: expected a decoder-only",
        ),
        ({"model_type": "mixtral", **without("model_type")}, r"^num_local_experts: expected a whole number"),
        ({**PRESETS["deepseek-v3"], "v_head_dim": None}, r"^v_head_dim: expected a whole number"),
        ({}, r"^hidden_size: expected|^num_hidden_layers: expected"),
        ({**LLAMA, "hidden_size": 10**400}, r"^hidden_size: expected .* got a number of more than 18 digits"),
        ({**LLAMA, "num_hidden_layers": 10**7}, r"^num_hidden_layers: expected a whole number from 1 to 10,000"),
        ({**LLAMA, "tie_word_embeddings": "false"}, r"^tie_word_embeddings: expected true or false, got 'false'"),
        ({**LLAMA, "max_position_embeddings": "lots"}, r"^max_position_embeddings: expected a whole number"),
        ({**LLAMA, "model_type": "mistral", "sliding_window": -5}, r"^sliding_window: expected .* got -5"),
        ({**LLAMA, "model_type": "mistral", "sliding_window": "4096"}, r"^sliding_window: expected .* got '4096'"),
        ({**LLAMA, "model_type": "BERT"}, r"^model_type: expected .* the encoder 'bert'"),
        ({**LLAMA, "model_type": "qwen"}, r"^model_type: expected layers like Llama's"),
        ({**LLAMA, "model_type": "new", "architectures": 5}, r"^architectures: expected a list, of str, got 5"),
        ({**LLAMA, "model_type": "new", "moe_num_experts": 8}, r"^model_type: expected a known family"),
        ({"model_type": "clip", "text_config": LLAMA}, r"^model_type: expected .* the encoder 'clip'"),
        ({**LLAMA, "model_type": "motif", "num_noise_heads": 8}, r"^num_noise_heads: expected .* from 1 to 3, got 8"),
        ({**PRESETS["mixtral-8x7b"], "num_experts_per_tok": 9}, r"^num_experts_per_tok: expected .* from 1 to 8"),
        ({**PRESETS["qwen3-30b-a3b"], "mlp_only_layers": "01"}, r"^mlp_only_layers: expected a list, of int"),
        ({**PRESETS["deepseek-v3"], "mlp_layer_types": ["dense"]}, r"^mlp_layer_types: expected 61 entries"),
        ({**PRESETS["deepseek-v3"], "kv_lora_rank": None}, r"^kv_lora_rank: expected a whole number"),
        ({**LLAMA, "model_type": "diff_transformer", "attention": 5}, r"^attention: expected softmax, gated"),
        (
            {**LLAMA, "model_type": "diff_transformer", "num_attention_heads": 1},
            r"^num_attention_heads: expected an even",
        ),
    ],
)
def test_configurations_that_cannot_be_planned(config, message):
    with pytest.raises(ValueError, match=message):
        plan(ask(config))


def test_an_unknown_family_is_counted_as_llama_and_says_so():
    found = plan(ask({**LLAMA, "model_type": "brand_new"}))
    assert found["sizes"]["softmax"]["total"] == plan(ask(LLAMA))["sizes"]["softmax"]["total"]
    assert "brand_new" in found["notes"][0]
    assert plan(ask(LLAMA))["notes"] == []
    nested = plan(ask({"model_type": "some_vlm", "text_config": LLAMA}))
    assert nested["sizes"]["softmax"] == plan(ask(LLAMA))["sizes"]["softmax"]
    assert "text_config" in nested["notes"][0]


def test_odd_heads_have_no_v1_and_the_plan_says_why():
    found = plan(ask("smollm2-135m"))
    assert "v1" not in found["sizes"]
    assert "even numbers of heads" in found["missing"]["v1"]
    assert "No V1: " in to_markdown(found)
    with pytest.raises(ValueError, match="even numbers of heads"):
        plan(ask("smollm2-135m", variant="v1"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variant": "v3"}, r"^variant: expected one of v2, v1, gated, got 'v3'"),
        ({"contexts": ()}, "^contexts: expected"),
        ({"contexts": (1,)}, "^contexts: expected"),
        ({"batches": (0,)}, "^batches: expected"),
        ({"queries": 0}, "^queries: expected"),
        ({"train_context": 0}, "^train_context: expected"),
        ({"pairs": 1}, "^pairs: expected a whole number from 2"),
        ({"dtype": "int8"}, "^dtype: expected one of"),
        ({"dtype": "float8", "hardware": MACHINES["a100"]}, "^dtype: NVIDIA A100 .* has a rate for"),
        ({"train_tokens": 0.0}, "^train_tokens: expected"),
        ({"training": "magic"}, "^training: expected one of pretraining"),
        ({"task": "chess"}, "^task: expected one of"),
    ],
)
def test_requests_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        plan(ask(**changes))


def test_prices_out_of_range():
    with pytest.raises(ValueError, match=r"^utilization: expected"):
        Prices(utilization=0)
    with pytest.raises(ValueError, match=r"^device_hour: expected"):
        Prices(device_hour=-1)


def test_names_of_machines_and_presets_as_people_write_them():
    assert find_hardware("NVIDIA H100") is MACHINES["h100"]
    assert find_hardware("MI300X") is MACHINES["mi300x"]
    with pytest.raises(ValueError, match=r"^hardware: expected h100, .* or cpu, got 'tpu'"):
        find_hardware("tpu")
    assert find_preset("Llama-2-7B") is PRESETS["llama-7b"]
    assert find_preset("nothing") is None
    assert set(BYTES) == {"float32", "bfloat16", "float16", "float8"}


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(attention_bias=True, num_key_value_heads=2, tie_word_embeddings=True, **TINY),
        Qwen3Config(num_key_value_heads=1, head_dim=32, **TINY),
        Qwen2Config(num_key_value_heads=4, **TINY),
    ],
    ids=lambda config: config.model_type,
)
def test_the_integrators_start_is_exact(config):
    """Run as the file has it."""
    (snippet,) = re.findall(r"```python\n(.*?)```", read_artefact("skill"), flags=re.DOTALL)
    names: dict = {}
    exec(compile(snippet, "skill", "exec"), names)
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_config(config).double().eval()
    torch.nn.init.normal_(base.model.layers[0].self_attn.q_proj.weight)
    model = names["start_exactly"](base).eval()
    tokens = torch.randint(0, config.vocab_size, (2, 9))
    with torch.no_grad():
        difference = (model(tokens).logits - base(tokens).logits).abs().max()
    # Transformers norms in float32 whatever the dtype, which turns the last bit of float64 into one of 2^-24.
    assert difference < 2**-20 * base(tokens).logits.abs().max()
    with pytest.raises(ValueError, match="do not fit"):
        names["start_exactly"](Stranger(base))


class Stranger:
    """A model with a weight that no differential model has."""

    def __init__(self, base):
        self.config, self.dtype, self._base = base.config, base.dtype, base

    def state_dict(self):
        return self._base.state_dict() | {"model.surprise.weight": torch.zeros(1)}
