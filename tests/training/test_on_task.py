"""Training on generated tasks: a tiny model learns a tiny task, growing lengths, one result for one seed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from diffattn.errors import UserError
from diffattn.models import DiffTransformerConfig
from diffattn.tasks import FactsConfig, make_facts, vocabulary_size
from diffattn.training.curriculum import Curriculum
from diffattn.training.on_task import answer_logits, train_on_task
from diffattn.training.task_settings import TaskTraining
from diffattn.training.trainer import build_model

EASY = {"keys": 3, "values": 2, "facts": 1, "questions": 2, "filler_tokens": 2, "distractor_keys": 1}
SETTINGS = TaskTraining(
    learning_rate=1e-2, max_steps=150, tokens_per_step=480, lengths=(5, 10), window=4, warmup_steps=5, log_every=4
)


def draw(length, count, seed):
    return make_facts(FactsConfig(length=length - EASY["questions"], **EASY), count, seed)


def config(**changes):
    fields = {
        "attention": "softmax",
        "vocab_size": vocabulary_size(FactsConfig(length=8, **EASY)),
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 16,
    }
    return DiffTransformerConfig(**{**fields, **changes})


@pytest.fixture(scope="module")
def learned():
    asked, entries = [], []

    def recorded(length, count, seed):
        asked.append((length, count, seed))
        return draw(length, count, seed)

    run = train_on_task(config(), recorded, SETTINGS, watch=lambda model, entry: entries.append((model, entry)))
    return run, asked, entries


def weights(run):
    return torch.cat([parameter.detach().flatten() for parameter in run.model.parameters()])


def test_it_learns_and_then_answers(learned):
    run, _, _ = learned
    assert run.learned
    examples = draw(10, 200, 10**6)
    logits = answer_logits(run.model, torch.from_numpy(examples.queries), input_ids=torch.from_numpy(examples.tokens))
    assert logits.shape == (200, 2, run.model.config.vocab_size)
    assert (logits.argmax(-1).numpy() == examples.answers).mean() > 0.9
    assert not run.model.training


def test_it_goes_through_the_lengths(learned):
    run, asked, _ = learned
    first, second = run.result["reached"]
    assert (first["length"], second["length"]) == (5, 10)
    assert [length for length, _, _ in asked] == [5] * first["steps"] + [10] * (second["steps"] - first["steps"])
    assert {(length, count) for length, count, _ in asked} == {(5, 96), (10, 48)}
    assert run.result["steps"] == second["steps"] >= first["steps"] + SETTINGS.window
    assert run.result["tokens"] == second["tokens"] == 480 * second["steps"]
    assert 0 < first["seconds"] < second["seconds"] <= run.result["seconds"]


def test_no_examples_are_drawn_twice(learned):
    _, asked, _ = learned
    assert len({seed for _, _, seed in asked}) == len(asked)


def test_the_curves(learned):
    run, _, entries = learned
    curves, steps = run.result["curves"], run.result["steps"]
    assert curves["step"] == sorted({1, *range(4, steps, 4), steps})
    assert curves["tokens"] == [480 * step for step in curves["step"]]
    assert curves["loss"][0] == pytest.approx(math.log(config().vocab_size), abs=0.1)
    assert curves["loss"][-1] < curves["loss"][0] / 2
    assert curves["accuracy"][-1] > 0.85
    assert all(norm > 0 for norm in curves["gradient_norm"])
    assert curves["length"] == [5 if step <= run.result["reached"][0]["steps"] else 10 for step in curves["step"]]
    assert [entry for _, entry in entries] == [
        dict(zip(curves, values, strict=True)) for values in zip(*curves.values(), strict=True)
    ]
    assert all(model is run.model for model, _ in entries)


@pytest.mark.parametrize("noise", [{}, {"embedding_noise": 0.3, "normalised_embeddings": True}])
def test_one_seed_gives_one_result(noise):
    settings = replace(SETTINGS, max_steps=6, **noise)
    first, again = (train_on_task(config(), draw, settings) for _ in range(2))
    other = train_on_task(config(), draw, replace(settings, seed=1))
    assert torch.equal(weights(first), weights(again))
    assert first.result["curves"] == again.result["curves"]
    assert first.result["curves"]["loss"] != other.result["curves"]["loss"]
    assert not first.learned
    assert first.result["reached"][0] == {"length": 5, "steps": None, "tokens": None, "seconds": None}


def test_noise_is_trained_with():
    plain, noisy = (
        train_on_task(config(), draw, replace(SETTINGS, max_steps=1, embedding_noise=sigma)) for sigma in (0.0, 5.0)
    )
    assert plain.result["curves"]["loss"] != noisy.result["curves"]["loss"]


def test_loss_and_accuracy_are_of_the_questions_alone():
    """Against cross-entropy summed by hand over the logits of the model's own forward."""
    run = train_on_task(config(), lambda *_: draw(9, 7, 3), replace(SETTINGS, max_steps=1))
    model = build_model(config(), SETTINGS.seed)
    examples = draw(9, 7, 3)
    logits = model(torch.from_numpy(examples.tokens)).logits.double().log_softmax(-1)
    losses, right = [], []
    for row in range(7):
        for query, answer in zip(examples.queries[row], examples.answers[row], strict=True):
            losses.append(-logits[row, query, answer].item())
            right.append(logits[row, query].argmax().item() == answer)
    assert run.result["curves"]["loss"] == pytest.approx([sum(losses) / 14], rel=1e-5)
    assert run.result["curves"]["accuracy"] == pytest.approx([sum(right) / 14])
    assert run.result["tokens"] == 63


def test_a_run_that_diverges_says_at_which_step():
    run = train_on_task(config(), draw, replace(SETTINGS, learning_rate=1e30, warmup_steps=0, log_every=1))
    diverged_at = run.result["diverged_at"]
    assert diverged_at in range(2, 10)
    assert run.result["steps"] == diverged_at
    assert run.result["curves"]["step"] == list(range(1, diverged_at))
    assert all(math.isfinite(loss) for loss in run.result["curves"]["loss"])
    assert not run.learned


def test_extra_steps_are_taken_after_the_last_threshold():
    settings = replace(SETTINGS, lengths=(5,), threshold=1e-9, window=3, extra_steps=2)
    assert train_on_task(config(), draw, settings).result["steps"] == 5
    assert train_on_task(config(), draw, replace(settings, max_steps=4)).result["steps"] == 4


def test_the_threshold_is_of_whole_windows():
    curriculum = Curriculum(replace(SETTINGS, lengths=(5, 10), window=2, threshold=0.75))
    for step, accuracy in enumerate((1.0, 0.25, 1.0, 0.5, 1.0, 0.5), start=1):
        assert not curriculum.finished
        curriculum.take(accuracy, step, 10 * step, step / 2)
    assert curriculum.finished
    assert curriculum.reached == [
        {"length": 5, "steps": 4, "tokens": 40, "seconds": 2.0},
        {"length": 10, "steps": 6, "tokens": 60, "seconds": 3.0},
    ]


def test_wrong_tasks_are_named():
    with pytest.raises(UserError, match="a task of 10 tokens is longer than the model's 8"):
        train_on_task(config(max_position_embeddings=8), draw, SETTINGS)
    with pytest.raises(ValueError, match=r"make_batch: expected tokens below the model's vocab_size 9, got \d\d"):
        train_on_task(config(vocab_size=9), draw, SETTINGS)


def test_a_step_has_at_least_one_sequence():
    assert [SETTINGS.sequences(length) for length in (5, 7, 480, 481)] == [96, 68, 1, 1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lengths", ()),
        ("lengths", (8, 8)),
        ("lengths", (1, 8)),
        ("threshold", 1.5),
        ("betas", (0.9, 1.0)),
        ("window", 0),
        ("learning_rate", math.inf),
        ("embedding_noise", -1.0),
        ("extra_steps", -1),
        ("seed", -1),
    ],
)
def test_settings_out_of_range_are_named(field, value):
    with pytest.raises(ValueError, match=f"^{field} must be"):
        replace(SETTINGS, **{field: value})
