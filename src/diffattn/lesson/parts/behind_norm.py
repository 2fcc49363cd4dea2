"""Part 12: what a norm hides, and what bounds V2 without one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from diffattn.lesson.attention import Vector, dot, product, softmax, subtract
from diffattn.lesson.layers import EPSILON, rms, rms_norm, sigmoid
from diffattn.lesson.pages.part import Cell, Chart, Column, Exercise, Part, Series, Step, Table, both
from diffattn.lesson.parts.examples import matrix
from diffattn.lesson.parts.stable_runs import the_norm_in_training, where_it_broke

__all__ = ["PART", "norm_gradient", "slope"]

WIDTH, KEYS = 16, 24
SIZES = (0.1, 1.0, 10.0, 100.0, 1_000.0)
LAMBDAS = (0.2, 0.8, 2.0, 5.0, 20.0, 100.0)


def slope(function: Callable[[float], float], at: float) -> float:
    """A derivative by two values a little apart."""
    step = 1e-5 * max(abs(at), 1e-3)
    return (function(at + step) - function(at - step)) / (2 * step)


def norm_gradient(x: Vector, wanted: Vector) -> Vector:
    """Of wanted . RMSNorm(x) by x: (wanted - y mean(wanted y)) / rms, where y = x / rms and rms counts eps."""
    size = math.sqrt(dot(x, x) / len(x) + EPSILON)
    shared = dot(wanted, x) / (len(x) * size * size)
    return [(w - value * shared) / size for w, value in zip(wanted, x, strict=True)]


def _normed(x: Vector, wanted: Vector) -> float:
    return dot(wanted, rms_norm(x, [1.0] * len(x)))


def _measured_gradient(x: Vector, wanted: Vector) -> Vector:
    def moved(i: int) -> Callable[[float], float]:
        return lambda value: _normed([*x[:i], value, *x[i + 1 :]], wanted)

    return [slope(moved(i), value) for i, value in enumerate(x)]


def a_norm_forgets_size() -> Step:
    rng = random.Random(120)
    base, wanted = matrix(rng, 2, WIDTH)
    rows: list[tuple[Cell, ...]] = []
    for size in SIZES:
        x = [size * value for value in base]
        found, derived = _measured_gradient(x, wanted), norm_gradient(x, wanted)
        along = dot(found, x) / math.sqrt(dot(found, found) * dot(x, x))
        rows.append((size, _normed(x, wanted), math.hypot(*found), math.hypot(*derived), along + 0.0))
    return Step(
        heading="A norm forgets how large its input is",
        text=(
            "Take a vector x, its RMSNorm, and a loss that is any product with the outcome. Multiply x by a size. The "
            "loss stays, so there is no slope along x: the gradient stands at a right angle to it. And the same turn "
            "needs a step that is larger by the size, so the gradient is smaller by the size.",
            "A step at a right angle makes x longer, never shorter (Pythagoras). Under a norm, sizes grow.",
        ),
        formula="f(c x) = f(x)  for all c > 0, so  x . grad f(x) = 0  and  grad f(c x) = grad f(x) / c",
        table=Table(
            (
                Column("size of x", form="g"),
                Column("loss", "measured", ".5f"),
                *both("length of the gradient", ".6f"),
                Column("cosine of gradient and x", "measured", ".5f"),
            ),
            rows,
        ),
        shows="The loss does not see the size, and the gradient, at a right angle to x, shrinks as 1/size (but for eps "
        "at small sizes).",
    )


def lambda_behind_the_norm() -> Step:
    first, second, wanted = _two_contexts()

    def context(lam: float) -> Vector:
        return [a - lam * b for a, b in zip(first, second, strict=True)]

    rows: list[tuple[Cell, ...]] = []
    for lam in LAMBDAS:
        derived = -dot(norm_gradient(context(lam), wanted), second)
        found = slope(lambda x: _normed(context(x), wanted), lam)
        rows.append((lam, rms(context(lam)), rms(rms_norm(context(lam), [1.0] * WIDTH)), found, derived))
    bare = -dot(wanted, second)
    return Step(
        heading="Lambda behind V1's norm",
        text=(
            "V1's context is A1 V - lambda A2 V, and its norm comes after. Here lambda grows from 0.2 to 100 on two "
            f"fixed maps of {KEYS} keys, and the slope of a loss over lambda is measured and derived. Past some 10 the "
            "normed context is -A2 V alone, whatever lambda: the loss hardly moves, and hardly pulls lambda back.",
            f"Without the norm the context itself grows, and the slope stays {bare:+.3f} at every lambda: the growth "
            "shows in the loss at once.",
        ),
        formula="RMSNorm(A1 V - lam A2 V) -> -RMSNorm(A2 V),    slope over lam ~ 1 / lam^2",
        table=Table(
            (
                Column("lambda", form="g"),
                Column("context RMS", "measured", ".4f"),
                Column("after the norm", "measured", ".4f"),
                *both("slope over lambda", ".6f"),
            ),
            rows,
        ),
        charts=(_growth_chart(),),
        shows="The norm keeps the output's size and hides that lambda has run away; that is why a norm can make a "
        "model look stable that is not.",
    )


def _growth_chart() -> Chart:
    first, second, wanted = _two_contexts()
    fine = [0.2 * 500 ** (i / 40) for i in range(41)]
    contexts = [(lam, [a - lam * b for a, b in zip(first, second, strict=True)]) for lam in fine]
    return Chart(
        title="V1's context and its pull on lambda",
        x="lambda",
        y="size",
        x_log=True,
        y_log=True,
        series=(
            Series("context RMS before the norm", "derived", [(lam, rms(context)) for lam, context in contexts]),
            Series(
                "slope of the loss over lambda, without its sign",
                "derived",
                [(lam, abs(dot(norm_gradient(context, wanted), second))) for lam, context in contexts],
            ),
        ),
    )


def _two_contexts() -> tuple[Vector, Vector, Vector]:
    """A1 V and A2 V of one query, and what its loss multiplies them with."""
    rng = random.Random(121)
    maps = [softmax(scores) for scores in matrix(rng, 2, KEYS)]
    first, second = product(maps, matrix(rng, KEYS, WIDTH))
    return first, second, matrix(rng, 1, WIDTH)[0]


def the_bound_of_v2() -> Step:
    rows: list[tuple[Cell, ...]] = []
    for name, lam in _lambdas():
        rows.append((name, lam, _largest_rms(lam, -1), 1 + lam, _largest_rms(lam, 0), math.sqrt(1 + lam * lam)))
    return Step(
        heading="What bounds V2 without a norm",
        text=(
            "Two keys with values of RMS 1; the first map is all on one, the second all on the other. If the values "
            "are opposite, the context is as large as it can get: 1 + lambda. If uncorrelated, sqrt(1 + lambda^2).",
            "V2's lambda is a sigmoid, below 1, so its context stays below 2. V1's is a difference of exponentials, "
            "without a bound.",
        ),
        formula="RMS(A1 V - lam A2 V) <= RMS(A1 V) + lam RMS(A2 V) <= 1 + lam",
        table=Table(
            (
                Column("lambda from"),
                Column("lambda", form=".4g"),
                *both("opposite values", ".4f"),
                *both("uncorrelated values", ".4f"),
            ),
            rows,
        ),
        corrections=(
            "'V2 replaced the norm by a special initialisation.' It has none, and no projection down either: the "
            "subtraction brings 2H maps to H heads, and the sigmoid bounds them.",
        ),
        shows="V2 needs no norm because nothing in its context can grow past 2; V1 without one has no such bound.",
    )


def _lambdas() -> list[tuple[str, float]]:
    found = [(f"V2: sigmoid({x:g})", sigmoid(x)) for x in (-4.0, 0.0, 4.0, 12.0)]
    return found + [(f"V1: e^{x:g} - e^0 + 0.8", math.exp(x) - 1 + 0.8) for x in (0.0, 2.0, 4.0)]


def _largest_rms(lam: float, product_of_values: int) -> float:
    """RMS of the context of two opposite maps over two values with this mean product: -1 or 0."""
    value = [1.0] * WIDTH
    other = [-1.0] * WIDTH if product_of_values else [1.0, -1.0] * (WIDTH // 2)
    return rms(product(subtract([[1.0, 0.0]], [[0.0, 1.0]], [lam]), [value, other])[0])


def exercises() -> tuple[Exercise, ...]:
    return (
        Exercise(
            "A weight matrix stands before a norm, and plain gradient descent moves it by a step e at a right angle, "
            "in units of its length. How much longer is it after 1,000 steps of e = 0.05, if none is shortened?",
            f"Each multiplies the length by sqrt(1 + e^2): (1 + 0.0025)^500 = {1.0025**500:.2f} times.",
        ),
        Exercise(
            "Why was the norm needed in V1, and why could it go in V2?",
            "V1: one unbounded lambda for all heads of a layer, whose contexts differ in size; without the norm it "
            "lost its gain in the paper. V2: a lambda below 1 for each token and head bounds the context by 2, and a "
            "head can go to 0 by itself; a norm would blow such a head up again, by up to 1/sqrt(eps).",
        ),
        Exercise(
            "A run of V1 has a calm loss. Which two numbers do you watch to see a lambda run away, and where?",
            "Lambda itself, and the RMS of the context before the norm, by layer. The loss and what comes after the "
            "norm do not show it.",
        ),
    )


PART = Part(
    number=12,
    title="The norm's part",
    minutes=4,
    aim="say what a head norm does to gradients, what it hides, what bounds V2 instead, and what short runs showed.",
    steps=(a_norm_forgets_size, lambda_behind_the_norm, the_bound_of_v2, where_it_broke, the_norm_in_training),
    exercises=exercises,
)
