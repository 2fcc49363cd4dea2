"""Part 3: DIFF V1 in full."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import cache

from diffattn.lesson.attention import Matrix, product, softmax, subtract
from diffattn.lesson.estimates import Estimate, estimate, mean
from diffattn.lesson.layers import EPSILON, lambda_init, lambda_v1, rms, rms_norm
from diffattn.lesson.pages.part import Chart, Column, Exercise, Part, Step, Table, both, pair
from diffattn.lesson.parts.examples import example_v1, matrix
from diffattn.planning.attention import Attention, variant
from diffattn.planning.noise_model import NoiseModel

__all__ = ["PART"]

WIDTH = 128
LAYERS = (0, 1, 2, 5, 11, 23, 31)
LENGTHS = (250, 500, 1_000, 2_000, 4_000)
STRENGTH, CORRELATION, VALUE_WIDTH, DRAWS, VECTORS = 1.0, 0.5, 8, 24, 1_000


def half_the_heads() -> Step:
    base = Attention(name="softmax", width=4096, heads=32, maps=32, keys=32, values=32, map_dim=128, value_dim=128)
    first = variant(base, "v1")
    rows = [
        ("output heads", base.heads, first.heads),
        ("softmax maps, each with its query", base.maps, first.maps),
        ("width of one map's query and key", base.map_dim, first.map_dim),
        ("keys", base.keys, first.keys),
        ("values", base.values, first.values),
        ("width of a value", base.value_dim, first.value_dim),
        ("numbers in the cache, a token and layer", base.cache_elements, first.cache_elements),
        *((f"parameters: {name}", base.parameters().get(name, 0), n) for name, n in first.parameters().items()),
        ("parameters of the layer", sum(base.parameters().values()), sum(first.parameters().values())),
    ]
    return Step(
        heading="Half the heads, twice the value",
        text=(
            "V1 keeps the budget of an ordinary layer. It halves the number of heads, not their width d. Each head has "
            "two maps of width d, with a key for each, and one value of width 2d. So there are as many maps as before, "
            "and as many parameters.",
            "Pairs are adjacent: head i owns the query maps 2i and 2i + 1. Some checkpoints pair i with i + H instead; "
            "mixing the two up gives no error, only a wrong model.",
        ),
        formula="A    = softmax(q1 k1^T / sqrt d) - lambda softmax(q2 k2^T / sqrt d)\n"
        "head = (1 - lambda_init) RMSNorm(A v)\n"
        "out  = concat(heads) Wo                        v has width 2d",
        table=Table((Column("one layer"), Column("baseline", "derived", ","), Column("V1", "derived", ",")), rows),
        corrections=(
            "'V1 halves the value cache.' It has half as many values of twice the width: the cache is the baseline's.",
        ),
        shows="V1's projections cost what the baseline's cost; it adds only four lambda vectors and the norm's weight.",
    )


def lambda_by_layer() -> Step:
    drawn = [_drawn(layer) for layer in LAYERS]
    spread = _lambda_spread()
    return Step(
        heading="Lambda and its schedule",
        text=(
            "lambda is one number a layer, shared by all its heads. It comes from four learned vectors of width d, "
            "which keeps its learning in step with the other weights', say the authors. It starts near lambda_init, "
            "which rises with depth.",
            f"The vectors start as N(0, 0.1^2). Drawn {VECTORS:,} times with d = {WIDTH}:",
        ),
        formula="lambda = exp(lq1.lk1) - exp(lq2.lk2) + lambda_init\n"
        "lambda_init = 0.8 - 0.6 exp(-0.3 l),   l = 0 for the first layer",
        table=Table(
            (
                Column("layer l", form="d"),
                Column("mean of lambda", "measured", ".3f"),
                Column("lambda_init", "derived", ".4f"),
                *both("standard deviation", ".3f"),
            ),
            [
                (layer, mean(values), lambda_init(layer), _deviation(values), spread)
                for layer, values in zip(LAYERS, drawn, strict=True)
            ],
        ),
        corrections=(
            "'lambda_init = 0.5 starts near ordinary attention.' It subtracts half of a second map: rows then sum to "
            "0.5. Near ordinary attention is lambda near 0.",
        ),
        shows=f"The first layer starts by subtracting {lambda_init(0):.1f} of the second map, the deep ones nearly "
        "0.8.",
    )


def _drawn(layer: int) -> list[float]:
    rng = random.Random(layer)
    return [lambda_v1(matrix(rng, 4, WIDTH, 0.1), layer) for _ in range(VECTORS)]


def _deviation(values: list[float]) -> Estimate:
    return estimate(lambda x, squared: math.sqrt(squared - x * x), values, [x * x for x in values])


def _lambda_spread() -> float:
    """Standard deviation of exp(x) - exp(y) for x and y that are products of N(0, 0.1^2) vectors of `WIDTH`."""
    square, first = (1 - 4e-4) ** (-WIDTH / 2), (1 - 1e-4) ** (-WIDTH / 2)
    return math.sqrt(2 * (square - first * first))


def what_the_norm_does() -> Step:
    lam = lambda_init(11)
    before = [(n, estimate(math.sqrt, [rms(row) ** 2 for row in _contexts(n)])) for n in LENGTHS]
    derived = [(n, _derived_rms(n, lam)) for n in LENGTHS]
    after = [mean([rms(rms_norm(row, [1.0] * VALUE_WIDTH)) for row in rows]) for rows in map(_contexts, LENGTHS)]
    return Step(
        heading="What the head norm does",
        text=(
            "The context is what a head's signed map makes of the values. For noise alone its root mean square (RMS) "
            "falls as the row gets longer, because uncorrelated values average out; and it depends on lambda. Layer 12 "
            f"starts at lambda = {lam:.3f}; scores of both maps have s = {STRENGTH:g} and correlate by {CORRELATION}.",
            "The norm brings each head, at each token, to an RMS near 1. It has one weight for all heads of the layer. "
            f"Its eps of {EPSILON:.5f} counts where the context is small: its gain ends at 1/sqrt(eps) = "
            f"{EPSILON**-0.5:.0f}. The fixed factor 1 - lambda_init after it keeps the gradients near those of an "
            "ordinary Transformer, so that its settings can be kept: this is the reason that the authors give.",
        ),
        formula=f"RMSNorm(x) = weight * x / sqrt(mean(x^2) + {EPSILON:.5f})    over a head's 2d channels",
        table=Table(
            (
                Column("keys", form=","),
                *both("context RMS", ".4f"),
                Column("after the norm", "measured", ".4f"),
                Column("norm multiplies by", "derived", ".1f"),
            ),
            [
                (n, value, formula, done, 1 / math.sqrt(formula**2 + EPSILON))
                for (n, value), (_, formula), done in zip(before, derived, after, strict=True)
            ],
        ),
        charts=(_rms_chart(before, derived),),
        shows="Without the norm heads of different sparsity and lambda differ in size by far; with it all have one "
        "size, and the norm's own gain then grows with the length (part 4 comes back to this).",
    )


def _rms_chart(before: list[tuple[int, Estimate]], derived: list[tuple[int, float]]) -> Chart:
    return Chart(
        title="RMS of a head's context over the length",
        x="keys",
        y="RMS of the context",
        x_log=True,
        y_log=True,
        x_ticks=LENGTHS,
        series=pair("context", derived, before),
    )


@cache
def _contexts(length: int) -> Matrix:
    """Contexts of `DRAWS` queries that see noise alone: the signed map times random values of unit variance."""
    rng, lam, found = random.Random(length), lambda_init(11), []
    for _ in range(DRAWS):
        first = [STRENGTH * rng.gauss(0, 1) for _ in range(length)]
        own = math.sqrt(1 - CORRELATION**2) * STRENGTH
        second = [CORRELATION * x + own * rng.gauss(0, 1) for x in first]
        signed = subtract([softmax(first)], [softmax(second)], [lam])
        found.append(product(signed, matrix(rng, length, VALUE_WIDTH))[0])
    return found


def _derived_rms(length: int, lam: float) -> float:
    """RMS of the context from noise alone: what the noise model's output signal-to-noise divides a faint match by."""
    model = NoiseModel(length=length + 1, margin=-20, second_margin=-20, strength=STRENGTH, correlation=CORRELATION)
    return abs(model.match_weight(lam)) / model.output_signal_to_noise(lam)


def the_whole_layer() -> Step:
    layer, x = example_v1()
    louder = [[10 * value for value in row] for row in layer.v]
    rows = []
    for name, norm in (("with the norm", layer.norm), ("without the norm", None)):
        plain, changed = replace(layer, norm=norm)(x), replace(layer, norm=norm, v=louder)(x)
        before, after = (rms([x for token in out for x in token]) for out in (plain, changed))
        rows.append((name, before, after, after / before))
    return Step(
        heading="The layer as a whole",
        text=(
            "src/diffattn/lesson/layers.py has the layer in about twenty lines: project, cut into heads, the operator "
            "of part 2, norm, factor, join, project. Here two heads of width 4 run on six tokens, once with Wv as "
            "drawn and once with Wv ten times as large.",
        ),
        table=Table(
            (
                Column("layer"),
                Column("RMS of the output", "measured", ".4f"),
                Column("with 10 Wv", "measured", ".4f"),
                Column("ratio", "measured", ".3f"),
            ),
            rows,
        ),
        shows="With the norm the layer's size no longer follows its values or its lambda: that kept V1's heads alike, "
        "and hid from the layer how much a head had found.",
    )


def exercises() -> tuple[Exercise, ...]:
    return (
        Exercise(
            "Why did V1 need the head norm?",
            "The heads of a layer share one lambda without a bound, and their maps differ in sparsity, so that their "
            "contexts differ in size by head, token and length. Without the norm the paper's 1.4B model lost what "
            "V1 had gained (loss 3.122 against 3.062, ordinary attention 3.087).",
        ),
        Exercise(
            "Which lambda_init has layer 7 (counted from 1)?",
            f"0.8 - 0.6 exp(-0.3 * 6) = {lambda_init(6):.4f}. Counting from 1 by mistake would give "
            f"{lambda_init(7):.4f}.",
        ),
        Exercise(
            "A head has d = 64. How wide is its value, and over how many channels does its norm run?",
            f"Both {2 * 64}: the value is 2d wide, and the norm runs over one head's value.",
        ),
    )


PART = Part(
    number=3,
    title="V1 in full",
    minutes=5,
    aim="write down every piece of DIFF V1 with its shape, and say what each is for.",
    steps=(half_the_heads, lambda_by_layer, what_the_norm_does, the_whole_layer),
    exercises=exercises,
)
