"""How many paired runs would show a difference: the power of the paired t test, of the standard library only.

`experiments.statistics` answers the reverse question of runs that were made, with SciPy; a test holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from statistics import NormalDist, fmean, stdev
from typing import Any

from diffattn.planning.normal import tail

__all__ = ["difference_shown", "paired_losses", "pairs_needed", "power", "t_quantile", "tokens_needed"]

_MOST_PAIRS = 10_000


def power(shift: float, freedom: int, critical: float) -> float:
    """P(|T| > critical) for noncentral t: T = (Z + shift) / sqrt(X / freedom), X being chi-squared.

    Args:
        shift: true difference over its standard error.
        freedom: degrees of freedom, 1 or more.
        critical: of the two-sided test.
    """

    log = freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2) + math.log(2)

    def outside(x: float) -> float:  # at s = e^x = sqrt(X / freedom), by the density of x
        s = math.exp(x)
        density = math.exp(log + freedom * (x - s * s / 2))
        return density * (tail(critical * s - shift) + tail(critical * s + shift))

    # Beyond these bounds the density of x holds less than 1e-12.
    low, high = -28 / freedom - 8 / math.sqrt(2 * freedom), math.log(1 + 8 / math.sqrt(freedom))
    return _simpson(outside, low, high, 2 * (300 + 1200 // freedom**2))


@cache
def t_quantile(freedom: int, confidence: float = 0.95) -> float:
    """The critical value of a two-sided t test."""
    log = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    value = NormalDist().inv_cdf((1 + confidence) / 2)
    # The tail is convex and the normal's quantile lies below, so that Newton's steps only grow towards the root.
    for _ in range(30):
        density = math.exp(log - (freedom + 1) / 2 * math.log1p(value * value / freedom))
        step = (power(0.0, freedom, value) - (1 - confidence)) / (2 * density)
        value += step
        if abs(step) < 1e-12 * value:
            break
    return value


def pairs_needed(difference: float, deviation: float, confidence: float = 0.95, chance: float = 0.8) -> int:
    """The fewest pairs with which a two-sided paired t test finds `difference` with probability `chance`.

    Args:
        difference: true mean difference, not 0.
        deviation: standard deviation of the differences between the runs of a pair, taken as the true one.

    Raises:
        ValueError: a number out of range, or more than ten thousand pairs.
    """
    if not (difference and math.isfinite(difference)):
        raise ValueError(f"difference: expected a number that is not 0, got {difference}")
    if not (deviation >= 0 and math.isfinite(deviation)):
        raise ValueError(f"deviation: expected 0 or more, got {deviation}")
    if not 0 < 1 - confidence < chance < 1:
        raise ValueError(f"chance: expected above {1 - confidence:g} and below 1, got {chance}")

    if not deviation:
        return 2
    effect, normal = abs(difference) / deviation, NormalDist()
    # Were the spread known, this many would do; the t test needs a few more.
    pairs = max(2, math.floor(((normal.inv_cdf((1 + confidence) / 2) + normal.inv_cdf(chance)) / effect) ** 2))
    if pairs > _MOST_PAIRS:
        raise ValueError(f"difference: {difference} would need {pairs:,} pairs at a spread of {deviation:g}")
    while power(effect * math.sqrt(pairs), pairs - 1, t_quantile(pairs - 1, confidence)) < chance:
        pairs += 1
    return pairs


def difference_shown(pairs: int, deviation: float, confidence: float = 0.95, chance: float = 0.8) -> float:
    """The smallest true difference that so many pairs find with probability `chance`; the reverse of `pairs_needed`."""
    critical, high = t_quantile(pairs - 1, confidence), 1.0
    while power(high, pairs - 1, critical) < chance:
        high *= 2
    low = 0.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, pairs - 1, critical) < chance else (low, middle)
    return high * deviation / math.sqrt(pairs)


def paired_losses(results: Mapping[str, Any], variant: str, split: str = "test") -> dict[str, Any]:
    """What a pilot's results.json (of `diffattn compare`) says of a variant's loss against the baseline's.

    Returns:
        `differences` in nats a token, one for each seed; `mean`; `deviation` and the 95% t `interval` of the mean, None
        with a single seed; `tokens` that each run was trained on; `token_deviation`, the spread of the difference from
        token to token, as parts of the text show it, None where the pilot keeps no parts.

    Raises:
        ValueError: the results hold no such runs; the message names what is missing.
    """
    baseline = str(results.get("baseline"))
    ours, theirs = (_losses(results, name, split) for name in (variant, baseline))
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        raise ValueError(
            f"pilot: expected finite {split} losses of {variant} and {baseline} with the same seed, found none"
        )
    differences = [ours[seed] - theirs[seed] for seed in seeds]
    deviation = stdev(differences) if len(seeds) > 1 else None
    return {
        "differences": differences,
        "mean": fmean(differences),
        "deviation": deviation,
        "interval": None if deviation is None else _interval(fmean(differences), deviation, len(seeds)),
        "tokens": _tokens(results),
        "token_deviation": _token_deviation(results, variant, baseline, split),
    }


def _tokens(results: Mapping[str, Any]) -> int | None:
    settings = results.get("settings")
    tokens = settings.get("tokens") if isinstance(settings, dict) else None
    return tokens if type(tokens) is int and tokens > 0 else None


def _interval(mean: float, deviation: float, pairs: int) -> list[float]:
    half = t_quantile(pairs - 1) * deviation / math.sqrt(pairs)
    return [mean - half, mean + half]


def tokens_needed(difference: float, token_deviation: float, confidence: float = 0.95, chance: float = 0.8) -> int:
    """Tokens to evaluate on, so that the text alone does not hide `difference`: the power of a paired z test."""
    normal = NormalDist()
    quantiles = normal.inv_cdf((1 + confidence) / 2) + normal.inv_cdf(chance)
    return math.ceil((quantiles * token_deviation / difference) ** 2)


def _token_deviation(results: Mapping[str, Any], variant: str, baseline: str, split: str) -> float | None:
    """sqrt(tokens) times the standard error of the mean difference over a text's parts, averaged over seeds."""
    ours, theirs = (_parts(results, name, split) for name in (variant, baseline))
    found = []
    for seed in ours.keys() & theirs.keys():
        rows = [(count, (a - b) / count) for (count, a), (_, b) in zip(ours[seed], theirs[seed], strict=False)]
        if len(rows) > 1:
            total = sum(count for count, _ in rows)
            mean = sum(count * value for count, value in rows) / total
            variance = sum(count * (value - mean) ** 2 for count, value in rows) / (len(rows) - 1)
            found.append(math.sqrt(variance))
    return fmean(found) if found else None


def _parts(results: Mapping[str, Any], variant: str, split: str) -> dict[int, list[tuple[int, float]]]:
    """Tokens and negative log-likelihood of each part, by seed; none where a part is missing or not finite."""
    found = {}
    for seed, entry in _measured(results, variant, split):
        tokens, nll = entry.get("part_tokens"), entry.get("part_nll")
        if not (isinstance(tokens, list) and isinstance(nll, list) and len(tokens) == len(nll)):
            continue
        if all(_is_number(count) and count > 0 for count in tokens) and all(map(_is_number, nll)):
            found[seed] = list(zip(tokens, nll, strict=True))
    return found


def _losses(results: Mapping[str, Any], variant: str, split: str) -> dict[int, float]:
    return {
        seed: float(entry["loss"])
        for seed, entry in _measured(results, variant, split)
        if _is_number(entry.get("loss"))
    }


def _measured(results: Mapping[str, Any], variant: str, split: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Seed and measures of each run of a variant; what is no run is passed over."""
    runs = results.get("runs")
    for run in runs if isinstance(runs, list) else ():
        evaluation = run.get("evaluation") if isinstance(run, dict) else None
        entry = evaluation.get(split) if isinstance(evaluation, dict) else None
        if isinstance(entry, dict) and run.get("variant") == variant and type(run.get("seed")) is int:
            yield run["seed"], entry


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12


def _simpson(function: Callable[[float], float], low: float, high: float, steps: int) -> float:
    step = (high - low) / steps
    weights = (1 if i in (0, steps) else 4 if i % 2 else 2 for i in range(steps + 1))
    return sum(w * function(low + i * step) for i, w in enumerate(weights)) * step / 3
