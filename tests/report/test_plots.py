"""The curves: what is drawn, gaps where a run broke down, and SVG that can stand beside other SVG."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from diffattn.report.curves import difference_bands, lambda_bands, seed_bands
from diffattn.report.plots import Plot, plots

Results = dict[str, Any]


def runs_of(results: Results, variant: str) -> list[Results]:
    return [run for run in results["runs"] if run["variant"] == variant]


@pytest.fixture(scope="module")
def drawn(make: Callable[..., Results]) -> list[Plot]:
    return plots(make())


def test_draws_each_kind_with_its_variants(drawn: list[Plot]) -> None:
    assert {plot.name: plot.variants for plot in drawn} == {
        "loss": ("softmax", "v1", "v2"),
        "difference": ("v1", "v2"),
        "gradient": ("softmax", "v1", "v2"),
        "lambda": ("v1", "v2"),
    }


def test_band_is_mean_and_range_over_seeds(results: Results) -> None:
    curves = np.array([run["curves"]["loss"] for run in runs_of(results, "v1")])
    band = seed_bands(results, "loss")["v1"]
    np.testing.assert_allclose(band.mean, curves.mean(axis=0))
    np.testing.assert_allclose(band.low, curves.min(axis=0))
    np.testing.assert_allclose(band.high, curves.max(axis=0))
    assert band.x.tolist() == results["runs"][0]["curves"]["tokens"]


def test_lambda_band_takes_the_range_over_heads_and_seeds(results: Results) -> None:
    first, *_ = runs = runs_of(results, "v2")
    first["curves"]["lambda"]["min"][7][2] = -3.0
    first["curves"]["lambda"]["mean"][7][2] += 0.3
    band = lambda_bands(results)[2]["v2"]
    assert band.low[7] == -3.0
    assert band.mean[7] == pytest.approx(np.mean([run["curves"]["lambda"]["mean"][7][2] for run in runs]))
    assert "softmax" not in lambda_bands(results)[2]


def test_difference_pairs_the_same_seed(results: Results) -> None:
    for run in results["runs"]:
        run["curves"]["loss"] = [run["seed"] + (0.5 if run["variant"] == "v1" else 0.0)] * 50
    results["runs"].reverse()
    band = difference_bands(results)["v1"]
    assert (band.low == 0.5).all()
    assert (band.high == 0.5).all()


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_a_value_that_is_not_finite_is_a_gap(results: Results, bad: float | None) -> None:
    runs_of(results, "v1")[1]["curves"]["loss"][20:] = [bad] * 30
    band = seed_bands(results, "loss")["v1"]
    assert np.isfinite(band.mean[:20]).all()
    assert np.isnan(band.mean[20:]).all()


def test_words_of_a_curve_with_a_gap_hold_its_last_finite_value(results: Results) -> None:
    runs_of(results, "v1")[1]["curves"]["loss"][20:] = [None] * 30
    last = seed_bands(results, "loss")["v1"].mean[19]
    assert f"to {last:.2f}; V2" in next(plot.alt for plot in plots(results) if plot.name == "loss")


def test_curves_without_any_finite_value_are_left_out(make: Callable[..., Results]) -> None:
    results = make(variants=("softmax",), seeds=(0,))
    results["runs"][0]["curves"]["loss"] = [None] * 50
    assert [plot.name for plot in plots(results)] == ["gradient"]
    results["runs"][0]["curves"] = {}
    assert plots(results) == []


def test_seeds_logged_at_different_tokens_meet_where_both_logged(results: Results) -> None:
    curves = runs_of(results, "v1")[0]["curves"]
    curves.update({key: curves[key][::2] for key in ("tokens", "loss", "gradient_norm")})
    assert len(seed_bands(results, "loss")["v1"].x) == 25


def test_many_layers_are_thinned_and_the_caption_says_so(results: Results) -> None:
    for run in runs_of(results, "v1") + runs_of(results, "v2"):
        lambdas = run["curves"]["lambda"]
        run["curves"]["lambda"] = {kind: [log * 8 for log in lambdas[kind]] for kind in lambdas}
    plot = plots(results)[-1]
    assert plot.svg.count(">layer ") == 12
    assert "12 of 24 layers" in plot.caption
    assert ">layer 24<" in plot.svg


def test_svg_is_well_formed_and_takes_its_colours_from_the_page(drawn: list[Plot]) -> None:
    for plot in drawn:
        ElementTree.fromstring(plot.svg)
        assert "#a100" not in plot.svg
        assert "var(--series-1)" in plot.svg
        assert not re.search(r"http|xmlns|<style|<script|<metadata", plot.svg)


def test_svg_ids_are_unique_and_every_reference_is_met(drawn: list[Plot]) -> None:
    page = "".join(plot.svg for plot in drawn)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    references = re.findall(r'href="#([^"]+)"', page) + re.findall(r"url\(#([^)]+)\)", page)
    assert references
    assert set(references) <= set(ids)


def test_drawing_is_deterministic_and_leaves_matplotlib_as_it_was(results: Results, drawn: list[Plot]) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    assert plots(results) == drawn
    assert dict(matplotlib.rcParams) == before


def test_report_loads_neither_pyplot_nor_torch_nor_experiments() -> None:
    code = "import sys, diffattn.report; print([m for m in sys.modules if m.startswith(%r)])"
    names = ("matplotlib.pyplot", "torch", "diffattn.experiments", "transformers", "scipy")
    found = subprocess.run([sys.executable, "-c", code % (names,)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
