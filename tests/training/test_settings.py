"""Settings: what follows from them, and what they refuse."""

from __future__ import annotations

import pytest

from diffattn.training import TrainingSettings
from tiny import SETTINGS

GOOD = {"tokens": 1000, "context": 10, "batch_size": 2, "learning_rate": 1e-3}


def test_steps_are_whole():
    settings = TrainingSettings(**GOOD, gradient_accumulation=3)
    assert settings.tokens_per_step == 60
    assert settings.steps == 16


def test_learning_rate_rises_then_falls_to_its_floor():
    settings = TrainingSettings(**{**GOOD, "tokens": 4000}, warmup_ratio=0.1, min_learning_rate_ratio=0.1)
    factors = [settings.learning_rate_factor(step) for step in range(settings.steps)]
    assert settings.warmup_steps == 20
    assert factors[0] == pytest.approx(1 / 20)
    assert factors[19] == factors[20] == 1
    assert factors[20:] == sorted(factors[20:], reverse=True)
    assert factors[-1] == pytest.approx(0.1)


def test_without_warmup_the_first_step_has_the_peak():
    assert TrainingSettings(**GOOD, warmup_ratio=0).learning_rate_factor(0) == 1


def test_logs_and_checkpoints_default_to_shares_of_the_run():
    settings = TrainingSettings(**{**GOOD, "tokens": 20 * 488})
    assert 0.01 <= settings.log_steps / settings.steps <= 0.02
    assert settings.save_steps == 61
    assert TrainingSettings(**GOOD, log_every=7, save_every=9).log_steps == 7


def test_settings_survive_json():
    assert TrainingSettings(**SETTINGS.to_dict()) == SETTINGS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tokens", 0),
        ("tokens", 19),
        ("context", 1),
        ("batch_size", 0),
        ("gradient_accumulation", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("min_learning_rate_ratio", 1.5),
        ("warmup_ratio", -0.1),
        ("weight_decay", -1.0),
        ("beta1", 1.0),
        ("beta2", -0.1),
        ("max_grad_norm", -1.0),
        ("dtype", "float16"),
        ("seed", -1),
        ("save_every", 0),
        ("log_every", 0),
    ],
)
def test_a_bad_value_is_named(field, value):
    with pytest.raises(ValueError, match=field):
        TrainingSettings(**{**GOOD, field: value})
