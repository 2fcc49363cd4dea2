"""Speed: turns are taken, the first round does not count, ratios are round by round."""

from __future__ import annotations

import pytest

from diffattn.data import load_corpus, prepare
from diffattn.evaluation import DecodingConfig, TrainingStepConfig
from diffattn.experiments.request import derive
from diffattn.experiments.speed import SpeedConfig, alternate, measure_speed, ratios
from diffattn.training import build_model
from tiny import preset


def test_models_take_turns_and_the_first_round_does_not_count():
    calls = []

    def sample(model):
        calls.append(model)
        return float(len(calls))

    samples = alternate({"a": "A", "b": "B", "c": "C"}, sample, 2)
    assert calls == list("CBA") + list("ABC") + list("CBA")
    assert samples == {"a": [4, 9], "b": [5, 8], "c": [6, 7]}


def test_ratios_compare_within_a_round():
    found = ratios([2.0, 40.0, 6.0], [1.0, 10.0, 2.0])
    assert found == {"ratio_median": 3.0, "ratio_low": 2.5, "ratio_high": 3.5}
    assert ratios([2.0], [1.0]) == {"ratio_median": 2.0, "ratio_low": 2.0, "ratio_high": 2.0}


def test_every_model_is_timed(corpus_folder, tmp_path):
    data = prepare(load_corpus(corpus_folder), vocab_size=300, folder=tmp_path, progress=False)
    baseline = preset().baseline(data.vocab_size)
    models = {name: build_model(derive(baseline, name, True), 0) for name in ("softmax", "v1")}
    config = SpeedConfig(
        rounds=2,
        training_step=TrainingStepConfig(context=16, batch_size=2),
        decode=DecodingConfig(prompt_length=4, new_tokens=2),
    )
    found = measure_speed(models, "softmax", data, config, progress=False)
    assert found["train_step"]["softmax"]["ratio_median"] == 1
    assert len(found["train_step"]["v1"]["seconds"]) == 2
    assert min(found["decode"]["v1"]["milliseconds_per_token"]) > 0


def test_no_rounds_is_refused():
    with pytest.raises(ValueError, match="rounds"):
        SpeedConfig(rounds=0, training_step=TrainingStepConfig(), decode=DecodingConfig())
