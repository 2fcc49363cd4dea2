"""Known retrieval tasks as facts of one token: which facts stand in which haystack, and which are asked for."""

from __future__ import annotations

from dataclasses import replace

from diffattn.tasks.facts import FactsConfig

__all__ = ["RULER_TOKENS", "key_values", "needle", "needles", "ruler"]

RULER_TOKENS = ("niah_single", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3", "niah_multiquery")
"""RULER's needle variants (arXiv:2404.06654) that differ as tokens. Single 1 to 3 differ in their text and in the form
of their values alone; several values of one key are no single next token."""


def needle(length: int, depth: float | None = None) -> FactsConfig:
    """One fact in filler, asked for once."""
    return FactsConfig(length=length, facts=1, questions=1, depth=depth)


def needles(length: int, placed: int, asked: int, depth: float | None = None) -> FactsConfig:
    """`placed` facts in filler, `asked` different ones asked for; with a depth one alone, which stands there.

    Raises:
        ValueError: more are asked for than are placed, or more than one at a depth.
    """
    keys = max(16, placed)
    return FactsConfig(length=length, keys=keys, facts=placed, questions=asked, repeat=False, depth=depth)


def key_values(pairs: int, gold: int | None = None, keys: int | None = None) -> FactsConfig:
    """Facts of `pairs` different keys and nothing else; the one at position `gold` (0 to pairs - 1) is asked for.

    Lost-in-the-middle's key-value retrieval (arXiv:2307.03172). `keys` (default: `pairs`) sizes the vocabulary: give
    one number for all lengths to be compared.

    Raises:
        ValueError: there is no such position, or there are fewer keys than pairs.
    """
    if gold is not None and not 0 <= gold < pairs:
        raise ValueError(f"gold must be within 0 to {pairs - 1}, got {gold}")
    depth = None if gold is None else gold / max(pairs - 1, 1)
    return FactsConfig(length=pairs, keys=keys or pairs, facts=pairs, questions=1, depth=depth)


def ruler(name: str, length: int, depth: float | None = None, keys: int = 16) -> FactsConfig:
    """One of `RULER_TOKENS`.

    - "niah_single": one fact in filler.
    - "niah_multikey_1": four, one asked for.
    - "niah_multikey_2": one among facts of keys that are never asked for.
    - "niah_multikey_3": every token is a fact of another key, and any may be asked for (needs keys >= length).
    - "niah_multiquery": four, all asked for; it takes no depth.

    Raises:
        ValueError: there is no such variant, or it cannot be so.
    """
    config = replace(needle(length, depth), keys=keys)
    if name == "niah_single":
        return config
    if name == "niah_multikey_1":
        return replace(config, facts=4)
    if name == "niah_multikey_2":
        return replace(config, haystack="distractors")
    if name == "niah_multikey_3":
        return replace(config, facts=length)
    if name == "niah_multiquery":
        return replace(config, facts=4, questions=4, repeat=False)
    raise ValueError(f"name must be one of {', '.join(RULER_TOKENS)}, got {name!r}")
