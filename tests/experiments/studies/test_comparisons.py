"""Outcomes and sentences of hypotheses: what the pairs say, and no more."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

from diffattn.experiments.studies.comparisons import Hypothesis, judge, outcome_rows, p_text

BASE = {0: 2.0, 1: 2.5, 2: 2.2}


def stated(**changes):
    fields = {"name": "h", "variant": "v2", "baseline": "softmax", "measure": "test loss", "unit": "bits a byte"}
    return Hypothesis(**{**fields, "at": "equal tokens", **changes})


def shifted(*differences):
    return {seed: BASE[seed] + difference for seed, difference in enumerate(differences)}


def one(values, baseline=BASE, **changes):
    return judge([(stated(**changes), values, baseline)])[0]


@pytest.mark.parametrize(
    ("lower", "sign", "outcome", "word"),
    [
        (True, -1, "supported", "better"),
        (True, 1, "contradicted", "worse"),
        (False, 1, "supported", "better"),
        (False, -1, "contradicted", "worse"),
    ],
)
def test_a_clear_difference_in_either_direction(lower, sign, outcome, word):
    found = one(shifted(sign * 0.5, sign * 0.51, sign * 0.49), lower=lower)
    assert found["outcome"] == outcome
    assert found["difference_mean"] == pytest.approx(sign * 0.5)
    assert found["sentence"].endswith(f": {word}.")
    assert "over 3 paired seeds" in found["sentence"]
    assert f"{'+' if sign > 0 else '-'}0.5" in found["sentence"]


def test_not_resolved_names_what_could_have_been_seen():
    found = one(shifted(0.3, -0.2, 0.1))
    assert found["outcome"] == "not resolved"
    assert found["interval_low"] < 0 < found["interval_high"]
    named = re.search(r"not resolved below ([0-9.]+) bits a byte\.$", found["sentence"])
    # The upper tail alone: with 80% power the other one is nothing.
    power = stats.nct.sf(stats.t.ppf(0.975, 2), 2, found["detectable"] / np.std([0.3, -0.2, 0.1], ddof=1) * 3**0.5)
    assert power == pytest.approx(0.8, abs=0.005)
    assert float(named[1]) == pytest.approx(found["detectable"], rel=0.05)


@pytest.mark.parametrize(
    ("values", "baseline", "words"),
    [
        ({0: 1.0, 1: None, 2: 1.0}, BASE, "V2 diverged or was not measured with at least one seed"),
        (BASE, {0: 1.0, 1: float("nan"), 2: 1.0}, "softmax diverged or was not measured"),
        ({0: None}, {0: None}, "V2 and softmax diverged"),
        ({3: 1.0}, BASE, "they share no seed"),
        ({}, BASE, "they share no seed"),
        ({0: 1.0}, {0: 2.0}, "one seed has no interval, so nothing follows"),
    ],
)
def test_what_was_not_measured_decides_nothing(values, baseline, words):
    found = one(values, baseline)
    assert (found["outcome"], found["p_holm"]) == ("not measured", None)
    assert words in found["sentence"]
    assert not re.search("better|worse|resolved", found["sentence"])


def test_holm_counts_all_that_were_measured():
    clear, faint = shifted(-0.5, -0.52, -0.47), shifted(-0.5, -0.6, -0.4)
    alone = one(faint)
    assert (alone["outcome"], alone["p_holm"]) == ("supported", alone["p"])
    among = judge([(stated(name=str(n)), faint, BASE) for n in range(4)] + [(stated(name="gone"), {}, BASE)])
    assert [entry["p_holm"] for entry in among[:4]] == pytest.approx([4 * alone["p"]] * 4)
    assert {entry["outcome"] for entry in among[:4]} == {"not resolved"}
    for entry in among[:4]:  # its own interval leaves 0 out, which is not enough among four
        assert entry["interval_high"] < 0
        assert entry["sentence"].endswith("not resolved once corrected for the number of hypotheses.")
    mixed = judge([(stated(name="clear"), clear, BASE), *((stated(name=str(n)), faint, BASE) for n in range(4))])
    assert [entry["outcome"] for entry in mixed] == ["supported", *["not resolved"] * 4]


def test_equal_pairs_are_not_told_apart_by_zero():
    found = one(BASE)
    assert found["outcome"] == "not resolved"
    assert found["sentence"].endswith("not resolved, no pair differs.")


def test_no_sentence_claims_more_than_its_interval():
    generator = np.random.default_rng(0)
    for _ in range(60):
        shift = generator.choice([0, 0.1, 1.0])
        values = [{seed: v + generator.normal(shift, 0.2) for seed, v in BASE.items()} for _ in range(3)]
        for entry in judge([(stated(name=str(n)), each, BASE) for n, each in enumerate(values)]):
            if re.search("better|worse", entry["sentence"]):
                assert entry["p_holm"] < 0.05
                assert entry["interval_low"] * entry["interval_high"] > 0
                assert ("worse" in entry["sentence"]) == (entry["interval_low"] > 0)


def test_words_of_hypotheses_and_rows():
    assert stated().text == "At equal tokens, V2 has a lower test loss than softmax."
    assert stated(lower=False).text == "At equal tokens, V2 has a higher test loss than softmax."
    rows = outcome_rows(judge([(stated(), BASE, BASE)]))
    assert [set(row) for row in rows] == [{"hypothesis", "outcome", "sentence"}]
    assert [p_text(p) for p in (None, 1e-9, 0.0123)] == ["no p value", "p < 0.0001", "p = 0.012"]
