"""The verdict says what the numbers show and no more."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from diffattn.experiments.verdict import MEASURES, compare_runs, sentences

Results = dict[str, Any]


def build(bits: dict[str, list[float | None]], **extra: Any) -> Results:
    """Results with these test bits a byte, by variant and seed; every word costs 7 bytes."""
    runs = [_run(variant, seed, value) for variant, values in bits.items() for seed, value in enumerate(values)]
    results: Results = {
        "seeds": list(range(max(map(len, bits.values())))),
        "variants": list(bits),
        "baseline": "softmax",
        "match_parameters": True,
        "settings": {"tokens": 1_000_000},
        "corpus": {"name": "stdlib", "unigram_perplexity_word": {"test": 914.4}},
        "runs": runs,
    }
    return results | extra


def _run(variant: str, seed: int, bits: float | None) -> Results:
    measures = {
        "bits_per_byte": bits,
        "perplexity_token": bits and 2 ** (3 * bits),
        "perplexity_word": bits and 2 ** (4 * bits),
    }
    evaluation = {"test": measures, "validation": {"perplexity_token": bits and 2 ** (3 * bits)}}
    return {"variant": variant, "seed": seed, "parameters": {"total": 1000}, "evaluation": evaluation}


def said(results: Results) -> str:
    return " ".join(sentences(results))


def names_a_winner(results: Results) -> bool:
    return re.search(r"(softmax|V1|V2) (is|are) (better|worse)", said(results)) is not None


def test_one_seed_names_no_winner_however_large_the_difference() -> None:
    results = build({"softmax": [2.0], "v1": [1.0], "v2": [3.0]})
    assert "cannot be told from chance" in sentences(results)[0]
    assert "another seed may turn that round" in said(results)
    assert "interval" not in said(results)
    assert not names_a_winner(results)


def test_names_the_better_and_the_worse_where_the_interval_excludes_zero() -> None:
    results = build({"softmax": [2.0, 2.1, 2.2], "v1": [2.2, 2.31, 2.39], "v2": [1.9, 2.01, 2.11]})
    first = sentences(results)[0]
    assert "V2 is better than softmax" in first
    assert "V1 is worse than softmax" in first
    assert names_a_winner(results)


def test_names_nobody_where_the_interval_contains_zero() -> None:
    results = build({"softmax": [2.0, 2.1, 2.2], "v2": [1.9, 2.15, 2.1]})
    assert "V2 is not told apart from softmax" in sentences(results)[0]
    assert "which does not make them equal" in sentences(results)[1]
    assert not names_a_winner(results)


def test_gives_difference_interval_and_smallest_visible_difference() -> None:
    # Differences -0.1, -0.2, -0.3: deviation 0.1, mean -0.2, half width 0.1 * 4.302653 / sqrt(3) = 0.248.
    results = build({"softmax": [2.0, 2.0, 2.0], "v2": [1.9, 1.8, 1.7]})
    evidence = sentences(results)[1]
    assert "V2 minus softmax: -0.200 bits a byte" in evidence
    assert "over 3 paired seeds -0.448 to +0.048" in evidence
    assert "(80% power) is 0.33 bits a byte" in evidence


def test_verdict_rests_on_bits_a_byte_of_the_test_split_alone() -> None:
    results = build({"softmax": [2.0, 2.1, 2.2], "v2": [1.9, 2.15, 2.1]})
    for run in results["runs"]:
        if run["variant"] == "v2":
            run["evaluation"]["validation"]["perplexity_token"] = 1.0 + run["seed"] * 1e-6
    assert not names_a_winner(results)


def test_several_claims_bring_the_caution_about_chance() -> None:
    clear = {"softmax": [2.0, 2.1, 2.2], "v1": [2.2, 2.31, 2.39], "v2": [1.9, 2.01, 2.11]}
    assert "about one excludes 0 by chance" in said(build(clear))
    del clear["v1"]
    assert "by chance" not in said(build(clear))


def test_a_run_that_broke_down_is_named_and_not_compared() -> None:
    results = build({"softmax": [2.0, 2.1], "v1": [None, 2.1], "v2": [math.nan, 1.9]})
    assert "no pair of models gave numbers that can be compared" in sentences(results)[0]
    assert "V1 gave no finite number" in said(results)
    assert "V2 gave no finite number" in said(results)
    assert "V1 and V2 are not shown to beat the add-one unigram bound" in said(results)
    assert not names_a_winner(results)


def test_a_broken_variant_does_not_stop_the_others() -> None:
    results = build({"softmax": [2.0, 2.1, 2.2], "v1": [2.0, None, 2.0], "v2": [1.9, 2.01, 2.11]})
    assert "V2 is better than softmax; V1 is not compared with softmax" in sentences(results)[0]


def test_pairs_by_seed_and_not_by_order() -> None:
    results = build({"softmax": [2.0, 3.0, 4.0], "v2": [1.9, 2.91, 3.89]})
    results["runs"].reverse()
    results["runs"][0], results["runs"][2] = results["runs"][2], results["runs"][0]
    entry = compare_runs(results)[0]
    assert (entry["interval_low"] < entry["difference_mean"] < entry["interval_high"] < 0) is True
    assert entry["difference_mean"] == pytest.approx(-0.1)


def test_seeds_that_only_one_has_are_left_out() -> None:
    results = build({"softmax": [2.0, 2.1], "v2": [1.9]})
    assert compare_runs(results)[0]["seeds"] == 1
    results["runs"] = [run for run in results["runs"] if (run["variant"], run["seed"]) != ("softmax", 0)]
    assert compare_runs(results)[0]["difference_mean"] is None
    assert "share no seed" in said(results)


def test_comparisons_have_the_stored_form() -> None:
    entries = compare_runs(build({"softmax": [2.0, 2.1], "v1": [2.0, 2.2], "v2": [1.9, None]}))
    keys = {"variant", "baseline", "measure", "unit", "values", "baseline_values", "difference_mean"}
    keys |= {"interval_low", "interval_high", "p", "confidence", "detectable", "seeds"}
    assert all(set(entry) == keys for entry in entries)
    assert [(entry["variant"], entry["measure"]) for entry in entries] == [
        (v, m) for v in ("v1", "v2") for m in MEASURES
    ]
    json.dumps(entries, allow_nan=False)


def test_unigram_bound_beaten_and_not() -> None:
    assert "Every model beats the add-one unigram bound" in said(build({"softmax": [2.0], "v2": [2.4]}))
    failed = said(build({"softmax": [2.0], "v2": [2.5]}))
    assert "V2 is not shown to beat the add-one unigram bound" in failed
    assert "Every model" not in failed
    assert "unigram" not in said(build({"softmax": [2.0]}, corpus={"name": "stdlib"}))


def test_parameters_matched_or_not() -> None:
    results = build({"softmax": [2.0], "v2": [2.0]})
    assert "Parameters were matched: softmax 1,000 and V2 1,000." in said(results)
    results["match_parameters"] = False
    results["runs"][1]["parameters"]["total"] = 1100
    assert "Parameters were not matched: softmax 1,000 and V2 1,100 (+10.0%)" in said(results)
    assert "may come from size" in said(results)


def test_speed_with_its_spread() -> None:
    entry = {"ratio_median": 1.254, "ratio_low": 1.2, "ratio_high": 1.31}
    speed = {"train_step": {"softmax": {"ratio_median": 1.0}, "v2": entry}, "decode": {}}
    text = said(build({"softmax": [2.0], "v2": [2.0]}, speed=speed))
    assert "a training step takes 1.25 (1.20 to 1.31) with V2." in text
    assert "decoding" not in text


@pytest.mark.parametrize("results", [{}, {"variants": [], "runs": []}, build({"v2": [2.0]}), build({"softmax": [2.0]})])
def test_incomplete_results_still_give_words(results: Results) -> None:
    assert sentences(results)
    assert all(sentence.endswith(".") for sentence in sentences(results))
