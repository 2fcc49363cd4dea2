"""The rate that is chosen, and what a single or broken one makes of it."""

from __future__ import annotations

import pytest

from diffattn.experiments.studies.jobs import Job
from diffattn.experiments.studies.tuning import check_rates, chosen_rates, tuning_table

SCORES = {
    ("v1", 0.1): 3.0,
    ("v1", 0.2): 2.5,
    ("v2", 0.1): 2.0,
    ("v2", 0.2): None,
    ("odd", 0.1): None,
    ("odd", 0.2): None,
}


class Scores:
    """Instead of a laboratory: the results are known."""

    ran = 0

    def run(self, jobs, what):
        self.ran += len(jobs)
        return {job.id: {"of": (job.arguments["name"], job.arguments["rate"])} for job in jobs}


def choose(rates=(0.1, 0.2), names=("v1", "v2", "odd")):
    laboratory = Scores()

    def job(name, rate):
        return Job(id=f"{name}{rate}", work="", arguments={"name": name, "rate": rate})

    return laboratory, chosen_rates(laboratory, names, rates, job, lambda result: SCORES[result["of"]])


def test_the_lowest_score_wins_and_a_broken_one_never():
    laboratory, chosen = choose()
    assert laboratory.ran == 6
    assert {name: entry["rate"] for name, entry in chosen.items()} == {"v1": 0.2, "v2": 0.1, "odd": 0.1}
    assert chosen["v2"]["tried"] == [{"rate": 0.1, "score": 2.0}, {"rate": 0.2, "score": None}]


def test_a_single_rate_is_taken_as_it_is():
    laboratory, chosen = choose(rates=(0.7,))
    assert laboratory.ran == 0
    assert chosen["odd"] == {"rate": 0.7, "tried": []}
    assert tuning_table(chosen, "Loss") is None


def test_the_table_says_what_broke_down():
    table = tuning_table(choose()[1], "Loss")
    assert table["head"] == ["Variant", "at 0.1", "at 0.2", "Chosen"]
    assert table["rows"] == [
        ["V1", "3.000", "2.500", "0.2"],
        ["V2", "2.000", "broke down", "0.1"],
        ["odd", "broke down", "broke down", "0.1"],
    ]


@pytest.mark.parametrize("rates", [(), (0.1, 0.1), (0.0,), (-1.0,), (float("nan"),), (float("inf"),)])
def test_rates_that_are_none(rates):
    with pytest.raises(ValueError, match="different numbers above 0, got"):
        check_rates(rates)
