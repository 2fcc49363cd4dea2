"""The noise floor of attention in closed form: one match among keys whose scores are Gaussian noise.

Of N keys one is the match, with the score m_b in map b; the scores of the other M = N - 1 are N(0, s_b^2), and at the
same key those of the two maps correlate by rho. All results are ratios of expectations, with each map's sum of
exponentials replaced by its mean Z_b = e^m_b + M e^(s_b^2 / 2): those of a position `holds` where that sum deviates
little, those of the output, which take a sum of squares, `output_holds`:

    p_b = e^m_b / Z_b       weight of the match in map b
    u   = e^(s1^2 / 2) / Z1     mean weight of another key in map 1; w1 the same in map 2, w = lam w1
    sigma^2 = s1^2 + s2^2 - 2 rho s1 s2,  d1 = ln(u / w) / sigma + sigma / 2,  d2 = d1 - sigma
    E|a1 - lam a2| = u erf(d1 / sqrt 2) - w erf(d2 / sqrt 2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from diffattn.planning.normal import tail

__all__ = ["NoiseModel", "best_sharpening", "limit_gain", "losing_strength", "margin_for_noise_mass"]

#: Above this the sum of exponentials is too far from its mean, and the closed form fails.
LARGEST_DEVIATION = 0.01
#: The same for the sum of squares, of one draw.
LARGEST_SQUARE_DEVIATION = 0.1


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """One query that sees one match among noise, in both maps. Scores are what softmax takes: q.k times the scale.

    Attributes:
        length: N, keys that the query sees, the match among them; 2 or more.
        margin: m1, the match's score in the first map above the mean of the others.
        strength: s1, standard deviation of the others' scores in the first map, above 0.
        second_margin: m2, the same in the second map; 0 where it knows nothing of the match.
        second_strength: s2; None for `strength`.
        correlation: rho, between the two maps' scores of the same key, -1 to 1.

    Raises:
        ValueError: a number out of its range; the message names it.
    """

    length: int
    margin: float
    strength: float
    second_margin: float = 0.0
    second_strength: float | None = None
    correlation: float = 0.0

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ValueError(f"length: expected 2 or more keys, got {self.length}")
        for name, value in (("strength", self.strength), ("second_strength", self.s2)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name}: expected a number above 0, got {value}")
        for name in ("margin", "second_margin"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name}: expected a finite number, got {getattr(self, name)}")
        if not -1 <= self.correlation <= 1:
            raise ValueError(f"correlation: expected -1 to 1, got {self.correlation}")

    @property
    def s2(self) -> float:
        return self.strength if self.second_strength is None else self.second_strength

    @property
    def deviation(self) -> float:
        """Variance of a map's sum over the noise, over its squared mean: (e^(s^2) - 1) / (N - 1), the larger."""
        return math.expm1(min(max(self.strength, self.s2) ** 2, 700.0)) / (self.length - 1)

    @property
    def holds(self) -> bool:
        """Whether the closed form of a position may be trusted."""
        return self.deviation < LARGEST_DEVIATION

    @property
    def output_holds(self) -> bool:
        """Whether that of the output may be: a few scores decide a sum of squares sooner than a sum."""
        strength = max(self.strength, self.s2)
        return math.expm1(min(4 * strength**2, 700.0)) / (self.length - 1) < LARGEST_SQUARE_DEVIATION

    def match_weight(self, lam: float = 0.0) -> float:
        """Signed weight of the match, p1 - lam p2; with lam = 0 ordinary attention's."""
        return self._match(1) - lam * self._match(2)

    def noise_weight(self, lam: float = 0.0) -> float:
        """Mean absolute weight of one of the other keys, E|a1 - lam a2|."""
        u, w = self._other(1), lam * self._other(2)
        if w <= 0:  # nothing is taken away
            return u - w
        if not self._sigma:
            return abs(u - w)
        d1, d2 = self._distances(u, w)
        return u * math.erf(d1 / math.sqrt(2)) - w * math.erf(d2 / math.sqrt(2))

    def noise_mass(self, lam: float = 0.0) -> float:
        """Absolute weight of all the others together; for softmax 1 - p1, the noise floor."""
        return (self.length - 1) * self.noise_weight(lam)

    def negative_mass(self, lam: float) -> float:
        """How much of `noise_mass` is below zero, as a positive number: M (w Phi(-d2) - u Phi(-d1))."""
        u, w = self._other(1), lam * self._other(2)
        if w <= 0:
            return 0.0
        if not self._sigma:
            return (self.length - 1) * max(w - u, 0.0)
        d1, d2 = self._distances(u, w)
        return (self.length - 1) * (w * tail(d2) - u * tail(d1))

    def signal_to_noise(self, lam: float = 0.0) -> float:
        """|weight of the match| over the mean absolute weight of another key; softmax's is e^(m1 - s1^2 / 2)."""
        noise = self.noise_weight(lam)
        return abs(self.match_weight(lam)) / noise if noise else math.inf

    def gain(self, lam: float) -> float:
        """`signal_to_noise(lam)` over softmax's: below 1 the subtraction hurts."""
        return self.signal_to_noise(lam) / self.signal_to_noise()

    def best_lambda(self) -> float:
        """The lambda of the largest `signal_to_noise` with an upright match: 2 Phi(d2) - 1 = delta (2 Phi(d1) - 1).

        delta is how much more of the match than of noise the second map holds, relative to the first. From delta = 1 on
        subtracting only loses until the match's weight turns negative, and the best is 0: let the maps change places.
        """
        u, w1 = self._other(1), self._other(2)
        delta = self._delta
        if delta >= 1:
            return 0.0
        sigma = self._sigma
        if not sigma:
            return u / w1
        low, high = sigma * sigma / 2, sigma * sigma / 2 + 12 * sigma
        for _ in range(200):
            x = (low + high) / 2
            d1, d2 = x / sigma + sigma / 2, x / sigma - sigma / 2
            below = math.erf(d2 / math.sqrt(2)) < delta * math.erf(d1 / math.sqrt(2))
            low, high = (x, high) if below else (low, x)
        return u / w1 * math.exp(-low)

    def output_signal_to_noise(self, lam: float = 0.0) -> float:
        """|weight of the match| over the standard deviation that the others give the output, for uncorrelated values
        of unit variance; softmax's falls as e^(m - s^2) / sqrt(N - 1) once noise has the mass.
        """
        a, b, c = self._squares
        variance = a - 2 * b * lam + c * lam * lam
        if variance <= 0:
            return math.inf
        return abs(self.match_weight(lam)) / math.sqrt((self.length - 1) * variance)

    def best_output_lambda(self) -> float:
        """The lambda of the largest `output_signal_to_noise`, (b p1 - a p2) / (c p1 - b p2); 0 where none helps."""
        a, b, c = self._squares
        p1, p2 = self._match(1), self._match(2)
        above, below = b * p1 - a * p2, c * p1 - b * p2
        return max(above / below, 0.0) if below > 0 else 0.0

    @property
    def largest_chance(self) -> float:
        """Chance that no other key scores above the match in the first map: Phi(m / s)^(N - 1)."""
        return math.exp((self.length - 1) * math.log1p(-min(tail(self.margin / self.strength), 1 - 1e-16)))

    def _log_sum(self, which: int) -> float:
        margin, s = self._map(which)
        noise = math.log(self.length - 1) + s * s / 2
        high, low = max(margin, noise), min(margin, noise)
        return high + math.log1p(math.exp(low - high))

    def _map(self, which: int) -> tuple[float, float]:
        return (self.margin, self.strength) if which == 1 else (self.second_margin, self.s2)

    def _match(self, which: int) -> float:
        return math.exp(self._map(which)[0] - self._log_sum(which))

    def _other(self, which: int) -> float:
        return math.exp(self._map(which)[1] ** 2 / 2 - self._log_sum(which))

    @property
    def _delta(self) -> float:
        first, second = self.margin - self.strength**2 / 2, self.second_margin - self.s2**2 / 2
        return math.exp(min(second - first, 700.0))

    @property
    def _sigma(self) -> float:
        squared = self.strength**2 + self.s2**2 - 2 * self.correlation * self.strength * self.s2
        return math.sqrt(max(squared, 0.0))

    def _distances(self, u: float, w: float) -> tuple[float, float]:
        d1 = math.log(u / w) / self._sigma + self._sigma / 2
        return d1, d1 - self._sigma

    @property
    def _squares(self) -> tuple[float, float, float]:
        u, w1, s1, s2 = self._other(1), self._other(2), self.strength, self.s2
        return (
            u * u * math.exp(s1 * s1),
            u * w1 * math.exp(self.correlation * s1 * s2),
            w1 * w1 * math.exp(s2 * s2),
        )


def limit_gain(strength: float, correlation: float) -> float:
    """What the best lambda gains at most: 1 / erf(s sqrt(1 - rho)), at great length, both maps equally noisy, nothing
    of the match in the second.
    """
    shared = strength * math.sqrt(max(1 - correlation, 0.0))
    return 1 / math.erf(shared) if shared else math.inf


def losing_strength(lam: float) -> float:
    """The s sqrt(1 - rho) above which a fixed `lam` loses against softmax, in the setting of `limit_gain`.

    For lambda 1, .8 and .5 it is .954, 1.070 and 1.277; `lam` is above 0 and at most 1.
    """
    if not 0 < lam <= 1:
        raise ValueError(f"lam: expected above 0 and at most 1, got {lam}")
    low, high = 1e-9, 20.0
    for _ in range(200):
        half = (low + high) / 2
        sigma = half * math.sqrt(2)
        d1 = -math.log(lam) / sigma + sigma / 2
        noise = math.erf(d1 / math.sqrt(2)) - lam * math.erf((d1 - sigma) / math.sqrt(2))
        low, high = (half, high) if noise < 1 else (low, half)
    return low


def margin_for_noise_mass(length: int, strength: float, mass: float = 0.1) -> float:
    """The margin at which softmax leaves `mass` to the noise: ln((1 / mass - 1) (N - 1)) + s^2 / 2."""
    return math.log((1 / mass - 1) * (length - 1)) + strength * strength / 2


def best_sharpening(margin: float, strength: float) -> float:
    """The factor c on the scores with the largest signal-to-noise, m / s^2; it gives e^(m^2 / (2 s^2))."""
    return margin / (strength * strength)
