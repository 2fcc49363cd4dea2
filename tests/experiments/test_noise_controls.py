"""The cheap controls, each by what it must and must not change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from diffattn.experiments.noise import NoiseRequest
from diffattn.experiments.noise.controls import controls, sink_score, together
from diffattn.experiments.noise.draws import keys_of, measure, standard_scores
from diffattn.experiments.noise.quantities import closed_form, describe

SETTING = {"length": 16_384, "lengths": (16_384,), "margin": 2.0, "draws": 24}


def measured(**changes):
    """Softmax's measures, and for each control itself and its measures, on the same draws."""
    request = NoiseRequest(**{**SETTING, **changes})
    chosen, model = controls(request), request.model
    [[softmax, *others]] = measure([(model, together(chosen))], request.draws, request.seed)
    found = {
        control.name: (control, describe(sums, softmax, model.length - 1, control.closed))
        for control, sums in zip(chosen, others, strict=True)
    }
    return describe(softmax, softmax, model.length - 1, closed_form(model, 0.0)), found


@pytest.fixture(scope="module")
def usual():
    return measured()


def test_every_control_is_there(usual):
    assert list(usual[1]) == ["temperature", "log_n", "sink", "gate", "top_k"]


@pytest.mark.parametrize(("margin", "strength"), [(2.0, 1.0), (1.0, 0.6), (0.6, 0.4)])
def test_the_best_temperature_reaches_its_limit_and_no_other_does(margin, strength):
    _, found = measured(margin=margin, strength=strength, length=65_536, lengths=(65_536,))
    control, measures = found["temperature"]
    assert control.parameter == pytest.approx(margin / strength**2)
    assert measures["signal_to_noise"]["value"] == pytest.approx(math.exp(margin**2 / (2 * strength**2)), rel=0.03)
    assert measures["signal_to_noise"]["inside"]
    request = NoiseRequest(length=65_536, margin=margin, strength=strength)
    for factor in (0.8, 1.25):
        other = request.at(margin=factor * control.parameter * margin, strength=factor * control.parameter * strength)
        assert other.signal_to_noise() < measures["signal_to_noise"]["low"]


def test_the_closed_forms_of_controls_are_met(usual):
    _, found = usual
    for name in ("temperature", "log_n", "sink", "gate"):
        control, measures = found[name]
        assert control.holds
        for quantity in ("match_weight", "noise_mass", "signal_to_noise"):
            cell = measures[quantity]
            allowed = max(4 * (cell["error"] or 0.0), 1e-3 * abs(cell["closed_form"]))
            assert abs(cell["value"] - cell["closed_form"]) < allowed, (name, quantity)
            assert cell["value"] == pytest.approx(cell["closed_form"], rel=0.05), (name, quantity)
    assert found["sink"][1]["gain"]["closed_form"] is None
    assert found["top_k"][0].holds is None
    assert found["top_k"][1]["gain"]["closed_form"] is None


def test_log_n_scaling_leaves_its_base_length_alone():
    softmax, found = measured(base_length=16_384)
    assert found["log_n"][0].parameter == 1.0
    assert found["log_n"][1]["signal_to_noise"]["value"] == pytest.approx(softmax["signal_to_noise"]["value"])
    _, shorter = measured(base_length=128)
    assert shorter["log_n"][0].parameter == pytest.approx(2.0)
    assert shorter["log_n"][1]["gain"]["low"] > 1


def test_a_gate_scales_weights_and_no_ratio():
    softmax, found = measured(gate=0.3)
    measures = found["gate"][1]
    for name in ("match_weight", "noise_mass", "row_sum"):
        assert measures[name]["value"] == pytest.approx(0.3 * softmax[name]["value"], rel=1e-12)
    for name in ("signal_to_noise", "output_signal_to_noise"):
        assert measures[name]["value"] == pytest.approx(softmax[name]["value"], rel=1e-12)


def test_a_sink_takes_weight_from_match_and_noise_alike(usual):
    softmax, found = usual
    measures = found["sink"][1]
    share = measures["match_weight"]["value"] / softmax["match_weight"]["value"]
    assert share == pytest.approx(0.5, abs=0.01)
    assert measures["noise_mass"]["value"] == pytest.approx(share * softmax["noise_mass"]["value"], rel=1e-3)
    assert measures["row_sum"]["value"] == pytest.approx(0.5, abs=0.01)
    for name in ("signal_to_noise", "output_signal_to_noise"):
        assert measures[name]["value"] == pytest.approx(softmax[name]["value"], rel=1e-3)


def test_the_sinks_score_is_the_logarithm_of_the_expected_noise():
    model = NoiseRequest(length=1001, margin=5.0, strength=0.8).model
    assert sink_score(model) == pytest.approx(math.log(1000 * math.exp(0.32)))


@pytest.mark.parametrize("kept", [1, 5, 200, 10_000])
def test_top_k_keeps_the_largest(kept):
    request = NoiseRequest(length=200, lengths=(200,), margin=2.0, strength=1.0, top_k=kept)
    keys = keys_of(request.model, next(standard_scores(200, 6, 0)))
    weights = controls(request)[-1].weights(keys).numpy()
    scores = keys[:, 0, :, 0].numpy()
    for ours, row in zip(weights, scores, strict=True):
        threshold = np.sort(row)[-min(kept, 200)]
        powers = np.where(row >= threshold, np.exp(row), 0.0)
        np.testing.assert_allclose(ours, powers / powers.sum(), atol=1e-14)


def test_top_k_loses_a_match_that_is_not_among_the_largest():
    _, found = measured(margin=1.0, top_k=8)
    assert found["top_k"][1]["match_weight"]["value"] == 0
    assert found["top_k"][1]["signal_to_noise"]["value"] == 0
