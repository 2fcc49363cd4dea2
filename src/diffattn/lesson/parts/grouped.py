"""Part 8: grouped queries, and the operator run in their shape."""

from __future__ import annotations

import random
from array import array

from diffattn.lesson.attention import Heads, diff_attention, softmax_attention
from diffattn.lesson.pages.part import Cell, Column, Exercise, Part, Step, Table, both
from diffattn.lesson.parts.counting import ordinary
from diffattn.lesson.parts.examples import random_heads
from diffattn.planning.attention import variant

__all__ = ["PART", "changed_maps"]

HEADS, KV_HEADS, WIDTH, TOKENS = 32, 8, 4, 6
CONTEXT, LAYERS, BYTES = 131_072, 32, 2


def the_cache() -> Step:
    cases = [
        ("baseline, multi-head", ordinary(32)),
        ("baseline", ordinary(KV_HEADS)),
        ("V1", variant(ordinary(KV_HEADS), "v1")),
        ("V2", variant(ordinary(KV_HEADS), "v2")),
    ]
    rows: list[tuple[Cell, ...]] = [
        (
            name,
            a.maps,
            a.keys,
            a.values,
            a.value_dim,
            a.cache_elements,
            a.cache_elements * BYTES * CONTEXT * LAYERS / 2**30,
        )
        for name, a in cases
    ]
    return Step(
        heading="The cache is the baseline's, byte for byte",
        text=(
            f"32 query heads of 128 on {KV_HEADS} key/value heads: groups of four queries share a key and a value. The "
            f"cache holds keys and values only, so V2's second queries leave it alone. Last column: bfloat16, {LAYERS} "
            f"layers, {CONTEXT:,} tokens.",
        ),
        table=Table(
            (
                Column("attention"),
                Column("maps", form="d"),
                Column("keys", form="d"),
                Column("values", form="d"),
                Column("width of a value", form="d"),
                Column("numbers a token and layer", "derived", ","),
                Column("GiB", "derived", ".1f"),
            ),
            rows,
        ),
        corrections=(
            "'V1 halves the value cache.' Half as many values, twice as wide: the row above shows the baseline's "
            "number.",
        ),
        shows=f"Grouping cuts the cache to a quarter; V1 and V2 keep it at {rows[1][5]:,} numbers a token and layer.",
    )


def the_run() -> Step:
    q1, q2, k, v = example()
    out = diff_attention(q1, q2, k, v, 0.5)
    attended = softmax_attention(interleaved(q1, q2), k, v)
    apart = [
        abs(first - 0.5 * second - whole)
        for i, head in enumerate(out)
        for row1, row2, row in zip(attended[2 * i], attended[2 * i + 1], head, strict=True)
        for first, second, whole in zip(row1, row2, row, strict=True)
    ]
    stored = len(array("d", [x for heads in (k, v) for rows in heads for row in rows for x in row]).tobytes())
    small = ordinary(KV_HEADS, heads=HEADS, width=HEADS * WIDTH)
    return Step(
        heading="The operator in that shape",
        text=(
            f"{HEADS} output heads, {2 * HEADS} maps, {KV_HEADS} key/value heads, width {WIDTH}, {TOKENS} tokens, "
            "plain Python, float64. The same is done by one ordinary attention with the maps interleaved, as an "
            "ordinary kernel would, and the pairs subtracted after it.",
        ),
        formula="a = attention([q1[0], q2[0], q1[1], q2[1], ...], k, v)\nout = a[0::2] - lam a[1::2]",
        table=Table(
            (Column("check"), *both("value", ".4g")),
            [
                ("output heads", len(out), HEADS),
                ("bytes of the cache; derived for the baseline", stored, small.cache_elements * TOKENS * 8),
                ("bytes of the cache; derived for V2", stored, variant(small, "v2").cache_elements * TOKENS * 8),
                ("largest difference of the two ways", max(apart), 0.0),
            ],
        ),
        shows="One ordinary call with twice the queries and the baseline's keys and values is the whole of V2's "
        "attention.",
    )


def who_reads_what() -> Step:
    rows: list[tuple[Cell, ...]] = []
    for group in (0, 3, 7):
        maps = changed_maps(group)
        pairs = sorted({index // 2 for index in maps})
        rows.append((group, f"{maps[0]} to {maps[-1]}", len(maps), f"{pairs[0]} to {pairs[-1]}", _split_pairs(maps)))
    return Step(
        heading="Both maps of a pair read the same key and value",
        text=(
            "Change the key of one key/value head, and see which of the 64 maps change. Adjacent maps 2i and 2i + 1 "
            "must be among them together; pairs i and i + 32 would be torn apart.",
        ),
        table=Table(
            (
                Column("key/value head changed", form="d"),
                Column("maps that change", "measured"),
                Column("how many", "measured", "d"),
                Column("output heads", "measured"),
                Column("half-split pairs torn apart", "measured", "d"),
            ),
            rows,
        ),
        shows=f"Each key/value head serves {2 * HEADS // KV_HEADS} maps, which are {HEADS // KV_HEADS} whole adjacent "
        "pairs.",
    )


def example() -> tuple[Heads, Heads, Heads, Heads]:
    rng = random.Random(8)
    q1, q2, k, v = (random_heads(rng, heads, TOKENS, WIDTH) for heads in (HEADS, HEADS, KV_HEADS, KV_HEADS))
    return q1, q2, k, v


def interleaved(q1: Heads, q2: Heads) -> Heads:
    return [head for pair in zip(q1, q2, strict=True) for head in pair]


def changed_maps(group: int) -> list[int]:
    """Which of the interleaved maps give another output when the keys of one key/value head change."""
    q1, q2, k, v = example()
    other = [[[-x for x in row] for row in rows] if g == group else rows for g, rows in enumerate(k)]
    before, after = (softmax_attention(interleaved(q1, q2), keys, v) for keys in (k, other))
    return [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]


def _split_pairs(maps: list[int]) -> int:
    """How many pairs i, i + H have one member alone among these maps."""
    return sum((i in maps) != (i + HEADS in maps) for i in range(HEADS))


def exercises() -> tuple[Exercise, ...]:
    one = variant(ordinary(1), "v2")
    return (
        Exercise(
            "A model has 64 query heads and 8 key/value heads. How many maps of V2 read one key/value head?",
            f"{2 * 64 // 8}: 128 maps on 8 key/value heads, which are 8 adjacent pairs each.",
        ),
        Exercise(
            "Can V1 pair the heads of a model with one key/value head? Can V2?",
            "V1 needs two keys to a pair, so an even number of key/value heads. V2 works with any: with one, all "
            f"{one.maps} maps read the same key and value.",
        ),
        Exercise(
            "Under grouped queries V1's official repository has two rules. Which keys do the heads of group g use in "
            "the flash files, and what happens if the other rule is meant?",
            "Keys 2g for first maps and 2g + 1 for second maps. The plain file is another model whenever there are "
            "fewer key/value heads than heads; nothing reports the difference.",
        ),
    )


PART = Part(
    number=8,
    title="Grouped queries",
    minutes=2,
    aim="say what V2 stores, and which map reads which key and value.",
    steps=(the_cache, the_run, who_reads_what),
    exercises=exercises,
)
