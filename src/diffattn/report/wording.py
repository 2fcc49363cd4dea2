"""Numbers and names as a reader sees them; the page, the terminal's table and the verdict share these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = [
    "MISSING",
    "as_given",
    "bytes_text",
    "count",
    "decimals_for",
    "duration",
    "finite",
    "join_words",
    "number",
    "percent",
    "quantity",
    "signed",
    "variant_name",
]

#: What stands where nothing was measured.
MISSING = "\N{EN DASH}"
_NAMES = {
    "softmax": "softmax",
    "gated": "gated",
    "logn": "log-n",
    "sink": "sink",
    "wide": "wide softmax",
    "v1": "V1",
    "v1-no-norm": "V1 without norm",
    "v2": "V2",
}


def variant_name(variant: str) -> str:
    """The name a reader sees of a variant: "v1" becomes "V1"; an unknown one stays as it is."""
    return _NAMES.get(variant, str(variant))


def finite(value: Any) -> float | None:
    """`value` as a float, or None where it is missing, NaN or infinite (a run that broke down)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if math.isfinite(as_float) else None


def number(value: float, digits: int = 4) -> str:
    """`value` with `digits` significant digits, never in powers of ten: 1,234 and 0.01234."""
    if value == 0:
        return "0"
    return f"{value:,.{_decimals(value, digits)}f}"


def quantity(value: float, digits: int = 4) -> str:
    """`number`, but in powers of ten where it would be longer than ten digits: 0.01234 and 7.896e+13."""
    if value and not 1e-5 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}"
    # Rounded first, so that 0.99999 is 1.000 as 1.00001 is.
    return number(float(f"{value:.{digits - 1}e}") if abs(value) < 1 else value, digits)


def as_given(value: float) -> str:
    """A number that someone typed, or that a method takes: 8, 0.5, 12.28 and 131,072."""
    return count(value) if value == round(value) or abs(value) >= 1e4 else f"{value:.4g}"


def percent(share: float, digits: int = 3) -> str:
    """A share of 1 as percents, never rounded to 0% or 100% that it is not: 1.36%, 99.99%, above 99.999%."""
    if not 0 < share < 1:
        return f"{number(100 * share, digits)}%"
    if 1 - share < 1e-5:
        return "above 99.999%"
    if share < 1e-7:
        return f"{100 * share:.1e}%"
    decimals = max(_decimals(100 * share, digits), _decimals(100 * (1 - share), 1))
    return f"{100 * share:.{decimals}f}%"


def count(value: float) -> str:
    """A whole number with thousands separated: 1,048,576."""
    return f"{round(value):,}"


def signed(value: float, decimals: int) -> str:
    """`value` with its sign and a fixed number of decimals; zero has no sign."""
    text = f"{value:+,.{decimals}f}"
    return text if float(text.replace(",", "")) else f"{0:.{decimals}f}"


def decimals_for(values: Sequence[float], digits: int = 3) -> int:
    """Decimals that give the largest of `values` three significant digits and hide none that is not zero."""
    sizes = [abs(value) for value in values if value]
    if not sizes:
        return digits
    return min(8, max(_decimals(max(sizes), digits), _decimals(min(sizes), 1)))


def bytes_text(value: float) -> str:
    """A number of bytes in MiB, from 1,024 MiB on in GiB."""
    mebibytes = value / 2**20
    return f"{mebibytes / 1024:,.2f} GiB" if mebibytes >= 1024 else f"{mebibytes:,.0f} MiB"


def join_words(words: Sequence[str], last: str = "and") -> str:
    """A list as a sentence has it: "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def duration(seconds: float) -> str:
    """A time as a person says it: 4.2 s, 14 min 3 s, 1 h 12 min."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _decimals(value: float, digits: int) -> int:
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))
