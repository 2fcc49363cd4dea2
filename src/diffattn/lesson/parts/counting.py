"""Part 7: counting parameters, component by component."""

from __future__ import annotations

from dataclasses import dataclass

from diffattn.lesson.pages.part import Cell, Column, Exercise, Part, Step, Table
from diffattn.lesson.parts.examples import example_v1, example_v2
from diffattn.planning.attention import Attention, variant

__all__ = ["LLAMA_2_7B", "LLAMA_3_8B", "MISTRAL_7B", "PART", "Body", "ordinary", "paid_width"]

NAMES = ("softmax", "v1", "v2")


@dataclass(frozen=True, kw_only=True)
class Body:
    """A Llama-like model: everything but its attention.

    Attributes:
        width: of the residual stream.
        layers: how many.
        feed_forward: inner width of the SwiGLU feed-forward, which has three matrices.
        vocabulary: tokens; input and output embeddings are not tied.
    """

    width: int
    layers: int
    feed_forward: int
    vocabulary: int

    def parameters(self, attention: Attention) -> dict[str, int]:
        """Parameters of the model by component."""
        return {
            "attention": self.layers * sum(attention.parameters().values()),
            "feed-forward": self.layers * 3 * self.width * self.feed_forward,
            "norms": (2 * self.layers + 1) * self.width,
            "embeddings, in and out": 2 * self.vocabulary * self.width,
        }


LLAMA_2_7B = Body(width=4096, layers=32, feed_forward=11_008, vocabulary=32_000)
MISTRAL_7B = Body(width=4096, layers=32, feed_forward=14_336, vocabulary=32_000)
LLAMA_3_8B = Body(width=4096, layers=32, feed_forward=14_336, vocabulary=128_256)


def ordinary(kv_heads: int, *, heads: int = 32, width: int = 4096) -> Attention:
    """Ordinary attention whose heads together are as wide as the stream."""
    size = width // heads
    return Attention(
        name="softmax",
        width=width,
        heads=heads,
        maps=heads,
        keys=kv_heads,
        values=kv_heads,
        map_dim=size,
        value_dim=size,
    )


def extra_in_v2(body: Body, kv_heads: int) -> int:
    base = ordinary(kv_heads, width=body.width)
    return body.parameters(variant(base, "v2"))["attention"] - body.parameters(base)["attention"]


def paid_width(body: Body, kv_heads: int) -> int:
    """The feed-forward's width at which V2 has the baseline's parameters, rounded to the nearest whole number."""
    return body.feed_forward - round(extra_in_v2(body, kv_heads) / (3 * body.width * body.layers))


def one_layer(kv_heads: int) -> Step:
    found = [variant(ordinary(kv_heads), name).parameters() for name in NAMES]
    names = list(dict.fromkeys(name for counts in found for name in counts))
    rows: list[tuple[Cell, ...]] = [(name, *(counts.get(name, 0) for counts in found)) for name in names]
    totals = [sum(counts.values()) for counts in found]
    rows.append(("the layer", *totals))
    return Step(
        heading=f"One layer, {_kind(kv_heads)}",
        text=(
            f"Width 4096, 32 heads of 128, {kv_heads} key/value heads. A projection from width w to n maps of d has "
            "w n d parameters.",
        ),
        table=Table(
            (Column("component"), *(Column(name, "derived", ",") for name in ("baseline", "V1", "V2"))),
            rows,
        ),
        corrections=(
            "A V2 count with a doubled Wo is wrong: the subtraction comes before Wo. So is one with V1's four lambda "
            "vectors: V2 has a projection, here of 32 x 4096.",
        )
        if kv_heads == 32
        else (),
        shows=f"V1 adds {totals[1] - totals[0]:,}; V2 adds {totals[2] - totals[0]:,}, "
        f"{100 * (totals[2] / totals[0] - 1):.0f} % of the attention: one more Wq and Wlam.",
    )


def _kind(kv_heads: int) -> str:
    return "multi-head" if kv_heads == 32 else f"{kv_heads} key/value heads"


def counted_lists() -> Step:
    first, _ = example_v1()
    second, _ = example_v2()
    v1 = sum(map(_numbers, (first.q, first.k, first.v, first.o, first.vectors, first.norm)))
    v2 = sum(map(_numbers, (second.q, second.k, second.v, second.o, second.lam)))
    return Step(
        heading="The formulas checked on real layers",
        text=("The layers of parts 3 and 4 are lists of numbers. Count them, one by one, and compare:",),
        table=Table(
            (Column("layer"), Column("numbers in its lists", "measured", ","), Column("formula", "derived", ",")),
            [
                ("V1: stream 16, 2 heads of 4", v1, _small(4, "v1")),
                ("V2: stream 16, 4 heads of 4 on 2 key/value heads", v2, _small(2, "v2")),
            ],
        ),
        shows="The formulas count what is there.",
    )


def _small(kv_heads: int, name: str) -> int:
    return sum(variant(ordinary(kv_heads, heads=4, width=16), name).parameters().values())


def _numbers(nested: object) -> int:
    return sum(map(_numbers, nested)) if isinstance(nested, (list, tuple)) else 1


def the_seven_billion(kv_heads: int) -> Step:
    body = LLAMA_2_7B
    narrow = Body(width=4096, layers=32, feed_forward=paid_width(body, kv_heads), vocabulary=32_000)
    cases = [(body, "softmax"), (body, "v1"), (body, "v2"), (narrow, "v2")]
    found = [case.parameters(variant(ordinary(kv_heads), name)) for case, name in cases]
    rows: list[tuple[Cell, ...]] = [(name, *(counts[name] for counts in found)) for name in found[0]]
    totals = [sum(counts.values()) for counts in found]
    rows += [("the model", *totals), ("over the baseline", *(total - totals[0] for total in totals))]
    extra = totals[2] - totals[0]
    return Step(
        heading=f"A model of 7B, {_kind(kv_heads)}",
        text=(
            f"{body.layers} layers, feed-forward {body.feed_forward:,}, vocabulary {body.vocabulary:,}, "
            f"{kv_heads} key/value heads. V2 touches neither keys nor values, so it adds the same with any number of "
            "them.",
            "To compare at equal parameters, narrow the feed-forward: 3 x 4096 x 32 parameters for each unit of "
            f"width. {extra:,} are {extra // (3 * 4096 * 32):,} units, with a remainder of {extra % (3 * 4096 * 32)}.",
        ),
        table=Table(
            (
                Column("component"),
                Column("baseline", "derived", ","),
                Column("V1", "derived", ","),
                Column("V2", "derived", ","),
                Column(f"V2, feed-forward {narrow.feed_forward:,}", "derived", ","),
            ),
            rows,
        ),
        shows=f"V2 adds {extra:,} ({100 * extra / totals[0]:.1f} %), and a feed-forward of {narrow.feed_forward:,} "
        f"instead of {body.feed_forward:,} pays for it exactly.",
    )


def exercises() -> tuple[Exercise, ...]:
    counts = MISTRAL_7B.parameters(ordinary(8))
    total, extra = sum(counts.values()), extra_in_v2(MISTRAL_7B, 8)
    layer = ordinary(8).parameters()
    twice = sum(layer.values()) + layer["query"] + layer["output"]
    v2 = sum(variant(ordinary(8), "v2").parameters().values())
    return (
        Exercise(
            f"The 7B count: Mistral-7B has width {MISTRAL_7B.width}, {MISTRAL_7B.layers} layers, 32 heads, 8 key/value "
            f"heads, feed-forward {MISTRAL_7B.feed_forward:,} and a vocabulary of {MISTRAL_7B.vocabulary:,}, not tied. "
            "How many parameters has it, how many does V2 add, and which feed-forward pays for them?",
            f"{total:,}: {', '.join(f'{name} {count:,}' for name, count in counts.items())}. V2 adds {extra:,}, "
            f"{100 * extra / total:.1f} %; a feed-forward of {paid_width(MISTRAL_7B, 8):,} pays for them.",
        ),
        Exercise(
            "V2's authors speak of 25 % saved. Against what, and with 8 key/value heads, how much is it?",
            "Against a Transformer with 2H query heads and an output weight for all of them. Its layer would have "
            f"{twice:,} parameters; V2's has {v2:,}: {100 * (1 - v2 / twice):.0f} % less. Against the ordinary "
            "baseline it is more.",
        ),
        Exercise(
            "Where do V1's 768 extra parameters at d = 128 come from?",
            f"Four lambda vectors of d, {4 * 128}, and the norm's weight of 2d, {2 * 128}.",
        ),
    )


def multi_head() -> Step:
    return one_layer(32)


def grouped() -> Step:
    return one_layer(8)


def multi_head_model() -> Step:
    return the_seven_billion(32)


def grouped_model() -> Step:
    return the_seven_billion(8)


PART = Part(
    number=7,
    title="Counting",
    minutes=3,
    aim="count a model's parameters under each attention, and say what grew and what stayed.",
    steps=(multi_head, grouped, counted_lists, multi_head_model, grouped_model),
    exercises=exercises,
)
