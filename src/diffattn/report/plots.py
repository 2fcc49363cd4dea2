"""The curves of a run, drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from diffattn.report.curves import Band, difference_bands, lambda_bands, seed_bands
from diffattn.report.svg import DASHES, INK, SERIES, STYLE, to_svg
from diffattn.report.wording import number, variant_name

__all__ = ["Plot", "plots"]

_WIDTH, _PANEL_HEIGHT = 4.5, 2.8
_MAX_LAYERS = 12


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One drawing: `title`, `caption`, what it shows in words (`alt`), the `svg`, the `variants` in it."""

    name: str
    title: str
    caption: str
    alt: str
    svg: str
    variants: tuple[str, ...]


def plots(results: dict[str, Any]) -> list[Plot]:
    """Loss, its difference to the baseline, gradient norm, lambda by layer: those with finite points."""
    loss, norm = seed_bands(results, "loss"), seed_bands(results, "gradient_norm")
    found = [
        _lines(
            results,
            loss,
            "loss",
            "Training loss",
            "Loss in nats a token; lower is better.",
            "loss, nats a token",
        ),
        _lines(
            results,
            difference_bands(results),
            "difference",
            f"Training loss minus that of {variant_name(str(results.get('baseline')))}",
            "Both saw the same text in the same order, so what is hard for both cancels. Below 0: better.",
            "difference in nats a token",
        ),
        _lines(
            results,
            norm,
            "gradient",
            "Gradient norm",
            "Before clipping, over all parameters.",
            "norm",
            log=True,
        ),
        _lambda(results),
    ]
    return [plot for plot in found if plot is not None]


def _lines(
    results: dict[str, Any],
    bands: dict[str, Band],
    name: str,
    title: str,
    caption: str,
    label: str,
    log: bool = False,
) -> Plot | None:
    if not bands:
        return None
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = Figure(figsize=(_WIDTH, _PANEL_HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        _draw(axes, results, bands)
        if name == "difference":
            axes.axhline(0, color=INK, linewidth=0.9)
        _label(axes, "training tokens", label)
        if log:
            _log_scale(axes)
        svg = to_svg(figure, name)
    seeds = len(results.get("seeds") or ())
    caption += " Lines are means over seeds, bands their lowest to highest." if seeds > 1 else ""
    return Plot(
        name=name,
        title=title,
        caption=caption,
        alt=_alt(title, bands),
        svg=svg,
        variants=_in_order(results, bands),
    )


def _lambda(results: dict[str, Any]) -> Plot | None:
    layers = lambda_bands(results)
    if not layers:
        return None
    wanted = sorted(layers)
    if len(wanted) > _MAX_LAYERS:
        wanted = [wanted[round(i)] for i in np.linspace(0, len(wanted) - 1, _MAX_LAYERS)]
    panel_rows = (len(wanted) + 1) // 2
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": "lambda"}):
        figure = Figure(figsize=(_WIDTH, 0.5 + 1.75 * panel_rows), layout="constrained")
        grid = figure.subplots(panel_rows, 2, sharex=True, sharey=True, squeeze=False)
        for axes, layer in zip(grid.flat, wanted, strict=False):
            _draw(axes, results, layers[layer])
            axes.set_title(f"layer {layer + 1}")
            _label(axes, "", "")
        for axes in list(grid.flat)[len(wanted) :]:
            axes.set_visible(False)
        figure.supxlabel("training tokens", fontsize=10)
        figure.supylabel("lambda", fontsize=10)
        svg = to_svg(figure, "lambda")
    last = {variant: band for layer in wanted for variant, band in layers[layer].items()}
    caption = (
        "How much of the second attention map is subtracted. Lines are means, bands the lowest to the "
        "highest over heads, tokens and seeds."
    )
    caption += f" Shown: {len(wanted)} of {len(layers)} layers." if len(wanted) < len(layers) else ""
    title = "Lambda by layer"
    alt = _alt(f"{title}; in layer {wanted[-1] + 1}", layers[wanted[-1]])
    return Plot(name="lambda", title=title, caption=caption, alt=alt, svg=svg, variants=_in_order(results, last))


def _draw(axes: Axes, results: dict[str, Any], bands: dict[str, Band]) -> None:
    for variant, band in bands.items():
        index = results["variants"].index(variant) % len(SERIES)
        dash: Any = (0, DASHES[index]) if DASHES[index] else "-"
        axes.fill_between(band.x, band.low, band.high, color=SERIES[index], alpha=0.18, linewidth=0)
        axes.plot(band.x, band.mean, color=SERIES[index], linewidth=1.7, linestyle=dash)


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(_short))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _log_scale(axes: Axes) -> None:
    values = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines])
    values = values[np.isfinite(values)]
    if values.min() <= 0 or values.max() < 5 * values.min():
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _short(value: float, _: object = None) -> str:
    for size, suffix in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def _alt(title: str, bands: dict[str, Band]) -> str:
    ends = []
    for variant, band in bands.items():
        seen = band.mean[np.isfinite(band.mean)]
        ends.append(f"{variant_name(variant)} goes from {number(seen[0], 3)} to {number(seen[-1], 3)}")
    return f"{title}: {'; '.join(ends)}."


def _in_order(results: dict[str, Any], present: Iterable[str]) -> tuple[str, ...]:
    kept = set(present)
    return tuple(variant for variant in results["variants"] if variant in kept)
