"""Part 5, continued: the cheap controls beside the subtraction, and where the closed form fails."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from functools import cache

from diffattn.lesson.draws import Measured, Pair, draw, measure, sharpened, sharper
from diffattn.lesson.estimates import Estimate, mean, ratio
from diffattn.lesson.pages.part import Cell, Chart, Column, Step, Table, both, pair
from diffattn.planning.noise_model import NoiseModel, best_sharpening

__all__ = ["closed_form_fails", "the_cheap_controls"]

MODEL = NoiseModel(length=16_384, margin=4.0, strength=1.0, correlation=0.9)
DRAWS, TRAINED, KEPT, GATE = 24, 1_024, 64, 0.3


@cache
def pairs() -> list[Pair]:
    return draw(MODEL, DRAWS, seed=70)


def the_cheap_controls() -> Step:
    lam, best = MODEL.best_lambda(), best_sharpening(MODEL.margin, MODEL.strength)
    growth = math.log(MODEL.length) / math.log(TRAINED)
    rows = [
        _row("softmax", measure(MODEL, pairs()), MODEL.signal_to_noise()),
        _row(f"differential, lambda {lam:.2f}", measure(MODEL, pairs(), lam), MODEL.signal_to_noise(lam)),
        _row(f"scores times {best:g} (best)", *_sharpened(best)),
        _row(f"scores times {growth:.1f} (log-n)", *_sharpened(growth)),
        _row("learned sink", _scaled(_past_the_sink), MODEL.signal_to_noise()),
        _row(f"gate of {GATE}", _scaled(_gate), MODEL.signal_to_noise()),
        _row(f"top-k, k = {KEPT}", _top(), None),
    ]
    return Step(
        heading="The cheap controls",
        text=(
            f"Other means reach for the same floor. m = {MODEL.margin:g}, s = {MODEL.strength:g}, rho = "
            f"{MODEL.correlation:g}, N = {MODEL.length:,}; the same draws for all. Scores times c: sharper logits, at "
            f"their best c = m/s^2, or growing with ln N after training at {TRAINED:,}. A learned sink is one more "
            f"score in the sum, here as large as all noise. A gate multiplies the output. Top-k keeps {KEPT} keys.",
            "The model is kind to sharpening: its match scores above nearly all noise. Where a lure scores above the "
            "match, as it may in real text, sharpening raises the lure; a second map that knows the lure removes it.",
        ),
        formula="scores times c: signal-to-noise e^(c m - c^2 s^2/2)\nbest at c = m/s^2, where it is e^(m^2/(2 s^2))",
        table=Table(
            (
                Column("attention"),
                Column("weight of the match", "measured", ".5f"),
                Column("noise mass", "measured", ".4f"),
                *both("signal-to-noise", ",.1f"),
            ),
            rows,
        ),
        corrections=(
            "'The only method that attacks the floor.' Sharper logits, log-n scaling, a sink, a gate and top-k attack "
            "it too, and a comparison at one fixed temperature flatters the subtraction.",
        ),
        shows="A sink and a gate lower the noise mass and leave signal-to-noise as it was; sharpening raises it, here "
        "by far more than the subtraction.",
    )


def _row(name: str, found: Measured, derived: float | None) -> tuple[Cell, ...]:
    return name, found.match, found.noise_mass, found.signal_to_noise, derived


def _sharpened(factor: float) -> tuple[Measured, float]:
    return measure(sharper(MODEL, factor), sharpened(pairs(), factor)), sharper(MODEL, factor).signal_to_noise()


def _past_the_sink(total: float) -> float:
    """What is left to the keys when a sink of e^score = (N-1) e^(s^2/2) joins the sum."""
    return total / (total + (MODEL.length - 1) * math.exp(MODEL.strength**2 / 2))


def _gate(total: float) -> float:
    """What a gate leaves, whatever the scores are."""
    return GATE


def _scaled(factor: Callable[[float], float]) -> Measured:
    """Softmax whose weights are all multiplied by a factor of the sum of exponentials."""
    signal, rows = math.exp(MODEL.margin), []
    for first, _ in pairs():
        others = math.fsum(first)
        total = signal + others
        rows.append((factor(total) * signal / total, factor(total) * others / total))
    return _positive(rows)


def _top() -> Measured:
    """Softmax over the `KEPT` largest scores, of which the match may or may not be one."""
    signal, rows = math.exp(MODEL.margin), []
    for first, _ in pairs():
        kept = heapq.nlargest(KEPT, [signal, *first])
        total = math.fsum(kept)
        match = signal / total if signal >= kept[-1] else 0.0
        rows.append((match, 1 - match))
    return _positive(rows)


def _positive(rows: list[tuple[float, float]]) -> Measured:
    matches, masses = zip(*rows, strict=True)
    return Measured(
        match=mean(matches),
        noise_mass=mean(masses),
        negative=mean([0.0] * len(rows)),
        row_sum=mean([match + mass for match, mass in rows]),
        signal_to_noise=ratio(matches, [mass / (MODEL.length - 1) for mass in masses]),
    )


def closed_form_fails() -> Step:
    rows: list[tuple[Cell, ...]] = []
    points = []
    for factor in (1, 2, 3, 4):
        model = sharper(MODEL, factor)
        found = measure(model, sharpened(pairs(), factor)).signal_to_noise
        points.append((float(factor), found))
        rows.append(
            (
                factor,
                model.margin,
                model.strength,
                model.deviation,
                "yes" if model.holds else "no",
                found,
                model.signal_to_noise(),
            )
        )
    return Step(
        heading="Where the closed form fails",
        text=(
            "The closed form replaces the sum over the noise by its mean. That needs many keys of like size: "
            "(e^(s^2) - 1) / (N - 1) below 0.01. Sharpening also multiplies s. At c = 4 the scores have s = 4, and "
            "the sum is little more than its largest term, which is smaller than the mean suggests in most draws.",
        ),
        table=Table(
            (
                Column("c", form="d"),
                Column("margin", form="g"),
                Column("s", form="g"),
                Column("deviation", "derived", ".2g"),
                Column("in range", "derived"),
                *both("signal-to-noise", ",.0f"),
            ),
            rows,
        ),
        charts=(_sharpening_chart(points),),
        shows="A formula has a range: outside it only the measurement counts; at c = 4 it is well above the formula.",
    )


def _sharpening_chart(points: list[tuple[float, Estimate]]) -> Chart:
    fine = [1 + x / 25 for x in range(76)]
    curve = [(c, sharper(MODEL, c).signal_to_noise()) for c in fine]
    return Chart(
        title="Sharpening the scores",
        x="factor c on the scores",
        y="signal-to-noise",
        y_log=True,
        series=pair("signal-to-noise", curve, points),
    )
