"""Part 5, continued: the closed form, symbol by symbol, and the limit of the gain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from diffattn.lesson.draws import Pair
from diffattn.lesson.estimates import Estimate, estimate, mean
from diffattn.lesson.pages.part import Cell, Column, Step, Table, both
from diffattn.lesson.parts.match_in_noise import LENGTH, MARGIN, model, pairs
from diffattn.planning.noise_model import NoiseModel

__all__ = ["Symbols", "the_closed_form"]

STRENGTH, CORRELATION, LAMBDA = 1.0, 0.9, 0.8
below = NormalDist().cdf  # Phi


@dataclass(frozen=True)
class Symbols:
    """The closed form's symbols for a model of the noise and a lambda, written out as the lesson states them."""

    model: NoiseModel
    lam: float

    @property
    def z1(self) -> float:
        return math.exp(self.model.margin) + (self.model.length - 1) * math.exp(self.model.strength**2 / 2)

    @property
    def z2(self) -> float:
        return math.exp(self.model.second_margin) + (self.model.length - 1) * math.exp(self.model.s2**2 / 2)

    @property
    def u(self) -> float:
        return math.exp(self.model.strength**2 / 2) / self.z1

    @property
    def w(self) -> float:
        return self.lam * math.exp(self.model.s2**2 / 2) / self.z2

    @property
    def sigma(self) -> float:
        s1, s2 = self.model.strength, self.model.s2
        return math.sqrt(s1 * s1 + s2 * s2 - 2 * self.model.correlation * s1 * s2)

    @property
    def d1(self) -> float:
        return (math.log(self.u / self.w) + self.sigma**2 / 2) / self.sigma

    @property
    def d2(self) -> float:
        return self.d1 - self.sigma

    @property
    def delta(self) -> float:
        first, second = self.model.margin - self.model.strength**2 / 2, self.model.second_margin - self.model.s2**2 / 2
        return math.exp(second - first)

    @property
    def noise(self) -> float:
        return self.u * (2 * below(self.d1) - 1) - self.w * (2 * below(self.d2) - 1)

    @property
    def signal(self) -> float:
        return math.exp(self.model.margin) / self.z1 - self.lam * math.exp(self.model.second_margin) / self.z2


def the_closed_form() -> Step:
    return Step(
        heading="The closed form, symbol by symbol",
        text=(
            "This part compares draws with a closed form. It is code in src/diffattn/planning/noise_model.py, and "
            "docs/mathematics.md says more; here is where it comes from. In map b the match scores m_b. Another key "
            "scores x ~ N(0, s1^2) in map 1 and y ~ N(0, s2^2) in map 2, which correlate by rho; a1 and a2 are its "
            "weights. The sum of many e^x is close to its mean, so both maps' sums count as constants, Z1 and Z2. Then "
            "a1 = e^x / Z1 and a2 = e^y / Z2, and part 1's square does the rest.",
            f"The table has each symbol, measured and derived, at N = {LENGTH:,}, m1 = {MARGIN:g}, m2 = 0, s = "
            f"{STRENGTH:g}, rho = {CORRELATION}, lambda = {LAMBDA}. Phi is the normal distribution function, "
            "`statistics.NormalDist().cdf`; 2 Phi(x) - 1 is erf(x / sqrt 2).",
        ),
        formula=FORMULA,
        table=Table((Column("symbol"), Column("what it is"), *both("value", ",.4g")), _rows()),
        shows="The whole theory is a mean of e^x and a square completed; the limit of the gain is its case of a second "
        "map that holds nothing of the match.",
    )


FORMULA = """\
a1 > lam a2 where x - y > ln(lam Z1 / Z2). Weighed by e^x, x - y has the
mean s1^2 - rho s1 s2 (part 1's square), by e^y rho s1 s2 - s2^2, and the
deviation sigma. So there a1 brings u Phi(d1) a key, lam a2 w Phi(d2).
As |z| = 2 max(z, 0) - z:
E|a1 - lam a2| = 2 (u Phi(d1) - w Phi(d2)) - (u - w)
               = u (2 Phi(d1) - 1) - w (2 Phi(d2) - 1)

The best lambda, and the most that it gains when s1 = s2 = s:
d E|a1 - lam a2| / dw = -(2 Phi(d2) - 1), so d SNR / d lam = 0 says
                    2 Phi(d2) - 1 = delta (2 Phi(d1) - 1)
map 2 without the match, delta = p2 = 0:  Phi(d2) = 1/2, d2 = 0, d1 = sigma
SNR = p1 / (u erf(sigma / sqrt 2));  over softmax's p1 / u:
gain = 1 / erf(sigma / sqrt 2) = 1 / erf(s sqrt(1 - rho))"""


def _rows() -> list[tuple[Cell, ...]]:
    drawn, s = pairs(STRENGTH, CORRELATION), Symbols(model(STRENGTH, CORRELATION), LAMBDA)
    match1, match2 = math.exp(s.model.margin), math.exp(s.model.second_margin)
    return [
        ("Z1", "sum of e^score in map 1: e^m1 + (N-1) e^(s1^2/2)", mean([match1 + sum(a) for a, _ in drawn]), s.z1),
        ("Z2", "the same in map 2", mean([match2 + sum(b) for _, b in drawn]), s.z2),
        ("u", "mean weight of a noise key in map 1: e^(s1^2/2) / Z1", _weight(drawn, 0, match1), s.u),
        ("w", "lam times that of map 2: lam e^(s2^2/2) / Z2", _weight(drawn, 1, match2, LAMBDA), s.w),
        ("sigma", "deviation of x - y: sqrt(s1^2 + s2^2 - 2 rho s1 s2)", _spread(drawn), s.sigma),
        ("d1", "(ln(u/w) + sigma^2/2) / sigma, a distance in sigmas", None, s.d1),
        ("Phi(d1)", "share of map 1's noise on keys where a1 > lam a2", _left(drawn, 0), below(s.d1)),
        ("d2", "d1 - sigma", None, s.d2),
        ("Phi(d2)", "share of map 2's noise on the same keys", _left(drawn, 1), below(s.d2)),
        ("delta", "match over noise in map 2, relative to map 1: (p2/w1) / (p1/u), w1 = w/lam", None, s.delta),
        ("E|a1 - lam a2|", "mean absolute weight of a noise key in the signed map", _absolute(drawn), s.noise),
        ("SNR", "|p1 - lam p2| over that; p_b = e^m_b / Z_b is the match's weight", None, s.signal / s.noise),
    ]


def _weight(drawn: list[Pair], which: int, match: float, lam: float = 1.0) -> Estimate:
    sums = [sum(pair[which]) for pair in drawn]
    return mean([lam * total / (match + total) / (LENGTH - 1) for total in sums])


def _spread(drawn: list[Pair]) -> Estimate:
    squares = [mean([math.log(x / y) ** 2 for x, y in zip(*pair, strict=True)]).value for pair in drawn]
    return estimate(math.sqrt, squares)


def _left(drawn: list[Pair], which: int) -> Estimate:
    """Share of one map's noise weight on keys where the first map's weight exceeds lambda times the second's."""
    return mean([sum(z for z, signed in zip(pair[which], _signed(pair), strict=True) if signed > 0) / sum(pair[which])
                 for pair in drawn])  # fmt: skip


def _absolute(drawn: list[Pair]) -> Estimate:
    return mean([sum(map(abs, _signed(pair))) / (LENGTH - 1) for pair in drawn])


def _signed(pair: Pair) -> list[float]:
    """a1 - lam a2 for each noise key."""
    first, second = pair
    a, b = 1 / (math.exp(MARGIN) + sum(first)), LAMBDA / (1 + sum(second))
    return [x * a - y * b for x, y in zip(first, second, strict=True)]
