"""Presets: sizes as promised, every variant buildable, overrides checked."""

from __future__ import annotations

import pytest

from diffattn.errors import UserError
from diffattn.experiments.presets import PRESETS, find_preset, override
from diffattn.experiments.request import derive
from diffattn.models import VARIANTS, count_parameters


def test_quick_is_what_it_says():
    quick = find_preset("quick")
    config = quick.baseline(quick.vocab_size)
    assert (config.num_hidden_layers, config.hidden_size, config.vocab_size) == (4, 128, 4096)
    assert quick.settings.tokens == 1_000_000
    assert quick.evaluation_tokens == 100_000


def test_small_has_about_three_million_parameters():
    small = find_preset("small")
    config = derive(small.baseline(small.vocab_size), "softmax", match_parameters=True)
    assert 2.7e6 < count_parameters(config).total < 3.3e6
    assert small.settings.tokens == 3_000_000


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_fits_and_can_be_matched(name, variant):
    preset = find_preset(name)
    baseline = preset.baseline(preset.vocab_size)
    softmax = count_parameters(derive(baseline, "softmax", match_parameters=True)).total
    matched = derive(baseline, variant, match_parameters=True)
    assert count_parameters(matched).total == pytest.approx(softmax, rel=0.01)
    assert matched.max_position_embeddings == preset.settings.context
    assert derive(baseline, variant, match_parameters=False).intermediate_size == preset.intermediate_size


def test_overrides_leave_the_rest():
    changed = override(find_preset("quick"), tokens=50_000, context=None, learning_rate=1e-3)
    assert changed.settings.tokens == 50_000
    assert changed.settings.context == find_preset("quick").settings.context
    assert changed.hidden_size == 128


def test_a_context_makes_room_in_the_model():
    assert override(find_preset("quick"), context=512).baseline(300).max_position_embeddings == 512


def test_bad_values_are_the_users():
    with pytest.raises(UserError, match="context"):
        override(find_preset("quick"), context=0)
    with pytest.raises(UserError, match="use quick or small"):
        find_preset("huge")
