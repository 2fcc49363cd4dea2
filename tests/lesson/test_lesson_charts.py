"""Curves: axes, labels, intervals."""

from __future__ import annotations

import pytest
from markup import Reader

from diffattn.lesson.estimates import Estimate
from diffattn.lesson.pages.axes import axis, short
from diffattn.lesson.pages.charts import figure
from diffattn.lesson.pages.part import Chart, Series


def chart(**changes):
    points = [(1000.0, Estimate(10.0, 1.0, 20)), (256_000.0, Estimate(0.5, 1.0, 20))]
    series = (
        Series("a, derived", "derived", [(1000.0, 10.0), (256_000.0, 1.0)]),
        Series("a, measured", "measured", points),
    )
    settings = {"title": "T", "x": "across", "y": "up", "series": series, "x_log": True, "y_log": True}
    return Chart(**{**settings, **changes})


def test_a_figure_has_axes_legend_and_intervals():
    drawn = figure(chart(x_ticks=(1_000, 4_000, 256_000)))
    read = Reader(drawn)
    for label in ("1K", "4K", "256K", "across", "up"):
        assert label in read.inside["text"]
    assert read.inside["title"] == "T"
    assert "a, derived" in read.inside["span"]
    assert "a, measured" in read.inside["span"]
    assert len(read.all("polyline")) == 1
    assert len(read.all("circle")) == 3  # two points, and one in the legend
    intervals = [a for a in read.all("line") if a["x1"] == a["x2"] and a["stroke"] == "var(--series-0)"]
    assert len(intervals) == 2
    assert all(float(a["y1"]) > float(a["y2"]) for a in intervals)


@pytest.mark.parametrize("y_log", [True, False])
def test_points_stay_inside_the_frame(y_log):
    read = Reader(figure(chart(y_log=y_log)))
    for circle in read.all("circle"):
        assert 0 <= float(circle["cx"]) <= 640
        assert 0 <= float(circle["cy"]) <= 340
    for line in read.all("line"):
        assert all(0 <= float(line[name]) <= 640 for name in ("x1", "x2", "y1", "y2"))


def test_axes():
    assert axis([0.0, 1.0], False).ticks == pytest.approx((0, 0.2, 0.4, 0.6, 0.8, 1.0))
    assert axis([1.0, 1000.0], True).ticks == (1, 10, 100, 1000)
    assert axis([20.0, 60.0], True).ticks == (20, 30, 40, 50)
    assert axis([3.0, 3.0], False).ticks[0] <= 3 <= axis([3.0, 3.0], False).ticks[-1]
    found = axis([1.0, 100.0], True)
    assert found.place(10) == pytest.approx(0.5)
    assert [short(x) for x in (0.1, 0.30000000000000004, 12, 1000, 256_000, 2e6)] == [
        "0.1",
        "0.3",
        "12",
        "1K",
        "256K",
        "2M",
    ]
