"""Orders in which the examples of several classes are shown: the same examples, permuted."""

from __future__ import annotations

import numpy as np

from diffattn.tasks.draws import distinct

__all__ = ["ORDERS", "arrange", "check_order"]

ORDERS = ("random", "alternating", "blocked")


def check_order(order: str) -> None:
    """Raises ValueError unless the order has one of the names."""
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")


def arrange(rng: np.random.Generator, rows: int, classes: int, each: int, order: str) -> np.ndarray:
    """Int64 `[rows, classes * each]`: in each row a permutation of examples, example i being of class i // each.

    "random" is any permutation. "alternating" goes through the classes in one random order again and again, "blocked"
    shows all of a class before the next; the classes' order and that within a class are random in every row.
    """
    if order == "random":
        return distinct(rng, rows, classes * each, classes * each)
    sequence = distinct(rng, rows, classes, classes)[:, :, None]
    within = distinct(rng, rows * classes, each, each).reshape(rows, classes, each)
    blocked = sequence * each + within
    return (blocked if order == "blocked" else blocked.swapaxes(1, 2)).reshape(rows, -1)
