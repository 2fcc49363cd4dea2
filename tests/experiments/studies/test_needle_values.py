"""The needle study's numbers out of runs made by hand: who is left out of what, and what the tables show."""

from __future__ import annotations

import pytest

from diffattn.experiments.studies.needle import conclude
from diffattn.experiments.studies.needle_hypotheses import needle_hypotheses, needle_values
from diffattn.experiments.studies.needle_values import over_seeds, usable
from planted_studies import needle_run

DASH = "\N{EN DASH}"


def planted(missed=()):
    """Softmax 0.9 at 256 tokens and 0.5 at 512; V2 0.95 and 0.8; a hundredth more for each seed."""
    shares = {"softmax": (0.9, 0.5), "v2": (0.95, 0.8)}
    return [
        needle_run(
            variant,
            seed=seed,
            learned=(variant, seed) not in missed,
            steps=steps,
            shares={n: {"accuracy": s + seed / 100} for n, s in zip((256, 512), shares[variant], strict=True)},
        )
        for variant, steps in (("softmax", 100), ("v2", 50))
        for seed in range(3)
    ]


def concluded(runs):
    conditions = {"plain": "filler"}
    tuning = {"plain": {name: {"rate": 1e-3, "tried": []} for name in ("softmax", "v2")}}
    about = {"variants": ["softmax", "v2"], "conditions": conditions, "lengths": [256, 512], "tuning": tuning}
    found = conclude({**about, "runs": runs})
    return {**found, "tables": {table["name"]: table["rows"] for table in found["tables"]}}


def test_all_learned():
    found = concluded(planted())
    (entry,) = found["comparisons"]
    assert (entry["outcome"], entry["lower"]) == ("supported", False)
    assert entry["values"] == pytest.approx([0.8, 0.81, 0.82])
    assert entry["sentence"].endswith(": better.")
    assert found["verdict"][0] == "V2: better than softmax: accuracy (plain)."
    assert found["verdict"][1].endswith("an order and no test: V2 0.810 and softmax 0.510.")
    assert found["failures"] == []
    assert found["tables"]["accuracy-plain"] == [
        ["softmax", "0.910 (0.900 to 0.920)", "0.510 (0.500 to 0.520)"],
        ["V2", "0.960 (0.950 to 0.970)", "0.810 (0.800 to 0.820)"],
    ]
    assert found["tables"]["costs-plain"] == [
        ["softmax", "3 of 3", "1,000", "100 (100 to 100)", "1.00", "1.00", "1.00"],
        ["V2", "3 of 3", "1,000", "50 (50 to 50)", "0.500", "0.500", "0.500"],
    ]


def test_who_missed_the_threshold_once_is_left_out_of_length():
    runs = planted(missed=[("v2", 1)])
    assert needle_values(runs, "v2", "plain", "accuracy", 512) == {0: None, 1: None, 2: None}
    assert needle_values(runs, "softmax", "plain", "accuracy", 512) == {0: 0.5, 1: 0.51, 2: 0.52}
    found = concluded(runs)
    assert found["outcomes"][0]["outcome"] == "not measured"
    assert "V2: not measured: accuracy (plain)." in found["verdict"][0]
    assert "Not learned with every seed, and so left out of what is said of length: V2 (filler)." in found["verdict"][0]
    assert found["failures"] == ["V2, filler, seed 1: missed the threshold in 300 steps."]
    assert found["tables"]["accuracy-plain"][1][0] == "V2 (not learned)"
    assert found["tables"]["costs-plain"][1][1] == "2 of 3"
    (over_length,) = [chart for chart in found["charts"] if chart["name"] == "accuracy-plain"]
    assert [curve["name"] for curve in over_length["curves"]] == ["softmax"]
    assert over_length["curves"][0]["points"][1] == [512, 0.51, 0.5, 0.52]


def test_softmax_that_missed_it_leaves_nothing_to_compare_with():
    found = concluded(planted(missed=[("softmax", 0)]))
    assert found["outcomes"][0]["outcome"] == "not measured"
    assert found["tables"]["costs-plain"][1][4:] == ["0.500", "0.500", "0.500"]
    gone = concluded(planted(missed=[("softmax", seed) for seed in range(3)]))
    assert gone["tables"]["costs-plain"][0][3:] == [DASH] * 4
    assert gone["tables"]["costs-plain"][1][4:] == [DASH] * 3


def test_each_version_and_condition_has_its_hypotheses():
    found = needle_hypotheses(("softmax", "v1", "v2"), ("plain", "absent"), (256, 2048))
    assert [asked for _, asked in found] == [
        ("plain", "accuracy", 2048),
        ("absent", "fabrication", 256),
        ("absent", "false_citation", 256),
    ] * 2
    assert [one.lower for one, _ in found] == [False, True, True] * 2
    assert needle_hypotheses(("softmax", "gated"), ("plain",), (256,)) == []


def test_fabrications_are_compared_at_the_length_trained_on():
    runs = [needle_run("v1", "absent", seed, shares={256: {"accuracy": 0.9, "fabrication": 0.25}}) for seed in range(2)]
    assert needle_values(runs, "v1", "absent", "fabrication", 256) == {0: 0.25, 1: 0.25}
    assert needle_values(runs, "v1", "absent", "fabrication", 512) == {0: None, 1: None}
    assert needle_values(runs, "v2", "absent", "fabrication", 256) == {}


def test_means_need_every_value():
    assert over_seeds([0.5, None]) is None
    assert over_seeds([]) is None
    assert over_seeds([0.25, 0.75]) == (0.5, 0.25, 0.75)
    assert not usable([])
