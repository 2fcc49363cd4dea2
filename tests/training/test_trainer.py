"""Training: the same result however often it was stopped, the same tokens for every variant, no one else's folder."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, TrainerCallback

from diffattn.errors import UserError
from diffattn.experiments.request import derive
from diffattn.models import DiffTransformerConfig
from diffattn.training import callbacks, huggingface, load_run, train, trainer
from diffattn.training.checkpoints import newest_checkpoint
from diffattn.training.trainer import build_model
from tiny import SETTINGS, preset


def config_of(data, variant="v1", **changes):
    config = derive(preset().baseline(data.vocab_size), variant, match_parameters=True)
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def run(data, folder, variant="v1", settings=SETTINGS, **kwargs):
    return train(config_of(data, variant), data, settings, folder, progress=False, **kwargs)


def weights(folder):
    return load_file(folder / "model" / "model.safetensors")


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, run(data, folder)


@pytest.fixture
def stop_at(monkeypatch):
    """Press Ctrl-C in that step, or fall over after it, as a kill does."""

    def stop(step, kill=False):
        class Stop(callbacks.StopOnInterrupt):
            def on_step_end(self, args, state, control, **kwargs):
                if state.global_step == step and not kill:
                    signal.raise_signal(signal.SIGINT)
                super().on_step_end(args, state, control, **kwargs)

            def on_step_begin(self, args, state, control, **kwargs):
                if state.global_step == step and kill:
                    raise MemoryError

        monkeypatch.setattr(trainer, "StopOnInterrupt", Stop)

    yield stop
    monkeypatch.undo()


def test_result_is_complete(whole):
    folder, result = whole
    assert json.loads((folder / "training.json").read_text()) == result
    assert result["steps"] == 40
    assert result["tokens"] == 40 * 32
    assert result["tokens_per_second"] == pytest.approx(result["tokens"] / result["seconds"])
    assert result["peak_memory_bytes"] > 1 << 20
    assert sorted(path.name for path in folder.iterdir()) == ["model", "run.json", "training.json"]
    assert not list(folder.rglob("*.bin")) + list(folder.rglob("*.pt"))


def test_curves_have_one_value_for_each_entry(whole):
    curves = whole[1]["curves"]
    assert curves["step"] == [1, *range(4, 41, 4)]
    assert curves["tokens"] == [32 * step for step in curves["step"]]
    for name in ("loss", "gradient_norm", "learning_rate", "tokens_per_second"):
        assert len(curves[name]) == 11
        assert all(value > 0 for value in curves[name])
    assert curves["loss"][-1] < curves["loss"][0] - 1
    assert curves["learning_rate"][-1] == pytest.approx(1e-3)
    for name in ("mean", "min", "max"):
        assert [len(layers) for layers in curves["lambda"][name]] == [2] * 11
    assert curves["lambda"]["mean"][0][0] == pytest.approx(0.2, abs=0.5)


def test_softmax_has_no_lambda_and_the_model_can_decode(data, tmp_path):
    result = run(data, tmp_path / "run", "softmax", replace(SETTINGS, tokens=64))
    assert result["curves"]["lambda"] is None
    loaded = load_run(tmp_path / "run")
    assert loaded.model.config.use_cache
    assert loaded.tokenizer.eos_token_id == loaded.model.config.eos_token_id == 0
    assert loaded.claim["settings"]["tokens"] == 64


def test_a_finished_run_is_not_run_again(data, whole, monkeypatch):
    monkeypatch.delattr(trainer, "_run")
    assert run(data, whole[0]) == whole[1]


@pytest.mark.parametrize("step", [8, 10])
def test_after_ctrl_c_it_goes_on_to_the_same_model(data, whole, tmp_path, stop_at, step):
    folder = tmp_path / "run"
    stop_at(step)
    with pytest.raises(KeyboardInterrupt):
        run(data, folder)
    assert newest_checkpoint(folder / "checkpoints")[1]["step"] == step
    assert not (folder / "training.json").exists()
    stop_at(None)
    assert_same(run(data, folder), folder, whole)


def test_after_a_kill_it_goes_on_from_the_newest_complete_checkpoint(data, whole, tmp_path, stop_at):
    folder = tmp_path / "run"
    stop_at(18, kill=True)
    with pytest.raises(MemoryError):
        run(data, folder)
    # A kill in the middle of writing leaves one without its mark.
    (folder / "checkpoints" / "checkpoint-16" / "complete.json").unlink()
    stop_at(None)
    assert_same(run(data, folder), folder, whole)


def test_without_resume_it_begins_anew(data, whole, tmp_path, stop_at):
    folder = tmp_path / "run"
    stop_at(8)
    with pytest.raises(KeyboardInterrupt):
        run(data, folder)
    stop_at(None)
    assert_same(run(data, folder, resume=False), folder, whole)


def assert_same(result, folder, whole):
    expected = weights(whole[0])
    found = weights(folder)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-6)
    assert result["curves"]["step"] == whole[1]["curves"]["step"]
    assert result["curves"]["loss"][-1] == pytest.approx(whole[1]["curves"]["loss"][-1], rel=1e-5)
    assert result["seconds"] > 0


def test_every_variant_sees_the_same_tokens(data, tmp_path, monkeypatch):
    seen = {}

    def record(model, examples, settings, folder):
        batches = seen.setdefault(model.config.attention, [])
        model.base_model.register_forward_pre_hook(
            lambda _module, _args, inputs: batches.append(inputs["input_ids"].tolist()), with_kwargs=True
        )
        return huggingface.make_trainer(model, examples, settings, folder)

    monkeypatch.setattr(trainer, "make_trainer", record)
    settings = replace(SETTINGS, tokens=32 * 2 * 6, gradient_accumulation=2)
    for variant in ("softmax", "gated", "v1", "v2"):
        run(data, tmp_path / variant, variant, settings)
    first, *others = seen.values()
    assert len(first) == 12
    assert all(batches == first for batches in others)
    flat = [token for batch in first for row in batch for token in row]
    assert flat[:16] in data.tokens("train")[: len(data.tokens("train")) // 16 * 16].reshape(-1, 16).tolist()


def test_accumulation_is_a_larger_batch(data, tmp_path):
    large = replace(SETTINGS, tokens=16 * 4 * 10, batch_size=4)
    results = [
        run(data, tmp_path / name, settings=settings)
        for name, settings in (("large", large), ("small", replace(large, batch_size=2, gradient_accumulation=2)))
    ]
    assert results[0]["curves"]["loss"] == pytest.approx(results[1]["curves"]["loss"], rel=1e-4)
    first, second = weights(tmp_path / "large"), weights(tmp_path / "small")
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], rtol=1e-3, atol=1e-4)


def test_the_loss_is_the_models_own(data):
    model = build_model(config_of(data), 0)
    tokens = torch.randint(data.vocab_size, (2, 16))
    made = huggingface._Trainer.compute_loss(huggingface._Trainer, model, {"input_ids": tokens})
    torch.testing.assert_close(made, model(input_ids=tokens, labels=tokens).loss)


def test_vectors_have_no_weight_decay(data, tmp_path):
    model = build_model(config_of(data), 0)
    optimizer, _ = huggingface.adamw(model, 0.01, lambda _: 1.0, weight_decay=0.1, betas=(0.9, 0.95))
    decayed, free = optimizer.param_groups
    assert decayed["weight_decay"] == 0.1
    assert free["weight_decay"] == 0
    assert all(parameter.ndim == 2 for parameter in decayed["params"])
    assert any(parameter is model.model.layers[0].self_attn.lambda_q1 for parameter in free["params"])


@pytest.mark.parametrize(("attention", "granularity"), [("v1", "head"), ("v1", "token"), ("v2", "head")])
def test_lambda_of_any_granularity_has_none_but_its_projection(data, attention, granularity):
    config = DiffTransformerConfig(
        attention=attention, vocab_size=data.vocab_size, hidden_size=32, intermediate_size=40, num_hidden_layers=1,
        num_attention_heads=4, lambda_granularity=granularity,
    )  # fmt: skip
    model = build_model(config, 0)
    optimizer, _ = huggingface.adamw(model, 1e-3, SETTINGS.learning_rate_factor, weight_decay=0.1, betas=(0.9, 0.95))
    decayed, free = ({id(p) for p in group["params"]} for group in optimizer.param_groups)
    for name, parameter in model.named_parameters():
        last = name.rpartition(".")[2]
        assert (id(parameter) in free) == (parameter.ndim < 2 or "lambda_q" in last or "lambda_k" in last), name
        assert (id(parameter) in decayed) != (id(parameter) in free)


def test_weights_depend_on_the_seed_alone(data):
    first, again, other = (build_model(config_of(data), seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(tensor, again[name]) for name, tensor in first.items())
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


@pytest.mark.parametrize("changes", [{"dtype": "bfloat16"}, {"gradient_checkpointing": True}])
def test_bfloat16_and_gradient_checkpointing_learn_as_well(data, whole, tmp_path, changes):
    result = run(data, tmp_path / "run", "v1", replace(SETTINGS, **changes))
    assert result["curves"]["loss"][-1] == pytest.approx(whole[1]["curves"]["loss"][-1], abs=0.15)
    assert load_file(tmp_path / "run/model/model.safetensors")["model.norm.weight"].dtype == torch.float32


def test_a_loss_that_is_not_finite_is_shown(data, tmp_path, monkeypatch):
    class Break(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, **kwargs):
            if state.global_step == 5:
                model.lm_head.weight.data.fill_(float("inf"))

    def make(*args):
        made = huggingface.make_trainer(*args)
        made.add_callback(Break())
        return made

    monkeypatch.setattr(trainer, "make_trainer", make)
    result = run(data, tmp_path / "run", "v2", replace(SETTINGS, tokens=32 * 12))
    assert result["curves"]["loss"][-1] is None
    assert result["curves"]["loss"][1] > 0


def test_another_run_in_the_folder_is_refused(data, whole):
    with pytest.raises(UserError, match=r"another run \(learning_rate is 0\.01 there, 0\.02 here\)"):
        run(data, whole[0], settings=replace(SETTINGS, learning_rate=0.02))
    with pytest.raises(UserError, match=r"another run \(attention is v1 there, v2 here\)"):
        run(data, whole[0], "v2")


def test_a_folder_with_other_things_is_refused(data, tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match="not empty and holds no run"):
        run(data, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_checkpoint_of_another_shape_is_refused(data, tmp_path, stop_at):
    folder = tmp_path / "run"
    stop_at(8)
    with pytest.raises(KeyboardInterrupt):
        run(data, folder)
    stop_at(None)
    path = newest_checkpoint(folder / "checkpoints")[0] / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"] = torch.ones(8)
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"another model's \(model\.norm\.weight is 8 there, 16 by"):
        run(data, folder)


def test_a_context_longer_than_the_model_is_refused(data, tmp_path):
    config = config_of(data, max_position_embeddings=8)
    with pytest.raises(UserError, match="a context of 16 tokens is longer than the model's 8"):
        train(config, data, SETTINGS, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_corpus_shorter_than_one_context_is_refused(data, tmp_path):
    config = config_of(data, max_position_embeddings=1 << 20)
    settings = replace(SETTINGS, context=1 << 20, tokens=1 << 22)
    with pytest.raises(UserError, match="less than one context"):
        train(config, data, settings, tmp_path / "run", progress=False)


def test_outside_the_main_thread_it_trains_too(data, tmp_path):
    results = []
    thread = threading.Thread(target=lambda: results.append(run(data, tmp_path, "v2", replace(SETTINGS, tokens=64))))
    thread.start()
    thread.join()
    assert results[0]["steps"] == 2


def test_a_model_that_cannot_be_loaded_is_named(data, whole, tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        load_run(tmp_path / "nowhere")
    with pytest.raises(UserError, match="holds no model"):
        load_run(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(whole[0] / "model")
    model.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="tokenizer"):
        load_run(tmp_path)
    data.tokenizer.save_pretrained(tmp_path)
    assert load_run(tmp_path).claim is None
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**settings, "intermediate_size": 48}))
    with pytest.raises(UserError, match="another model's"):
        load_run(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "unheard-of"}')
    with pytest.raises(UserError, match="describes no model known here"):
        load_run(tmp_path)


def test_pickled_weights_are_not_loaded(data, whole, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(whole[0] / "model")
    model.config.save_pretrained(tmp_path)
    data.tokenizer.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="safetensors"):
        load_run(tmp_path)


def test_what_is_watched_is_kept_at_every_entry_and_survives_a_stop(data, tmp_path, whole, stop_at):
    def watch(model):
        return {"norm": float(model.model.norm.weight.detach().norm())}

    expected = run(data, tmp_path / "expected", watch=watch)["curves"]
    assert len(expected["watched"]["norm"]) == len(expected["step"])
    assert len(set(expected["watched"]["norm"])) > 5, "it is measured anew each time"
    assert expected["loss"] == whole[1]["curves"]["loss"], "watching changes nothing"
    stop_at(18)
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path / "stopped", watch=watch)
    stop_at(-1)
    assert run(data, tmp_path / "stopped", watch=watch)["curves"]["watched"] == expected["watched"]
    assert whole[1]["curves"]["watched"] is None
