"""Part 9: the arithmetic of one decode step, and a step measured on this machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from diffattn.lesson.pages.part import Cell, Chart, Column, Exercise, Part, Series, Step, Table
from diffattn.lesson.parts.counting import LLAMA_3_8B, extra_in_v2, ordinary
from diffattn.lesson.parts.timed_step import a_measured_step
from diffattn.planning.attention import Attention, Latent, variant

__all__ = ["H100", "PART", "Machine", "latent", "weight_growth"]

BYTES = 2  # bfloat16


@dataclass(frozen=True)
class Machine:
    """A processor by its name, its FLOP/s at best and the bytes a second that its memory gives."""

    name: str
    flops: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """FLOPs a byte above which arithmetic, and not memory, takes the time."""
        return self.flops / self.bandwidth

    def slower(self, before: float, after: float) -> float:
        """How much longer work of `after` FLOPs a byte takes than of `before`, on the same bytes."""
        return max(after, self.ridge) / max(before, self.ridge)


H100 = Machine("H100 in bfloat16", 989e12, 3.35e12)


def latent() -> Attention:
    """Latent keys and values (MLA) with 128 heads over one latent of 512 and a rotated key of 64."""
    sizes = Latent(query_rank=1_536, rank=512, rope_dim=64, nope_dim=128, value_dim=128)
    return Attention(
        name="softmax", width=7_168, heads=128, maps=128, keys=128, values=128, map_dim=192, value_dim=128, latent=sizes
    )


def flops_and_bytes() -> Step:
    base = ordinary(8)
    first, second = variant(base, "v1"), variant(base, "v2")
    again = first.values * first.value_dim
    cases = [
        ("baseline", base.pair_flops(), base.cache_elements),
        ("V1, one pass over V", first.pair_flops(), first.cache_elements),
        ("V1, two passes over V", first.pair_flops(), first.cache_elements + again),
        ("V1, maps combined first", first.pair_flops(combined=True), first.cache_elements),
        ("V2", second.pair_flops(), second.cache_elements),
        ("V2, maps combined first", second.pair_flops(combined=True), second.cache_elements),
    ]
    return Step(
        heading="FLOPs and bytes of one cached token",
        text=(
            "To decode one token, every cached key is multiplied with every map's query, and every value with the "
            "map's weights. Per cached token and layer, with 32 heads of 128 on 8 key/value heads, in bfloat16:",
            "Combined first: a kernel subtracts the maps before the product with V, which is then done once for a "
            "pair. Intensity is FLOPs a byte. It depends on neither length nor batch, only on heads a key/value head.",
        ),
        formula="intensity = FLOPs / bytes    baseline 4Hd / (4 Hkv d) = H / Hkv,  V2 2H / Hkv",
        table=Table(
            (
                Column("attention"),
                Column("FLOPs", "derived", ","),
                Column("over the baseline", "derived", ".2f"),
                Column("bytes", "derived", ","),
                Column("intensity", "derived", ".2f"),
            ),
            [
                (name, flops, flops / base.pair_flops(), BYTES * read, flops / (BYTES * read))
                for name, flops, read in cases
            ],
        ),
        corrections=(
            "'V1 must load the value cache twice.' The official calls do. One ordinary call with queries [q1, 0] and "
            "[0, q2] against keys [k1, k2] reads the cache once; the zeros cost arithmetic, not bytes.",
            "'vLLM and SGLang integration is under way.' vLLM removed its differential backend in 0.11, SGLang has "
            "none. V2 needs none: it is an ordinary call and a subtraction.",
        ),
        shows="V2 doubles the arithmetic on the baseline's bytes; whether that costs time depends on the machine.",
    )


def the_roofline() -> Step:
    grouped, one, mla = ordinary(8), ordinary(32), latent()
    wide = ordinary(8, heads=128, width=128 * 128)
    cases = [
        ("32 heads on 32", one, 1),
        ("32 heads on 8", grouped, 1),
        ("128 heads on 8", wide, 1),
        ("32 on 8, 8 tokens a step", grouped, 8),
        ("32 on 8, 64 tokens a step", grouped, 64),
        ("MLA, 128 heads on one latent", mla, 1),
        ("MLA, 2 tokens a step", mla, 2),
    ]
    return Step(
        heading="The roofline of a machine",
        text=(
            f"An {H100.name} computes {H100.flops / 1e12:.0f} TFLOP/s and reads {H100.bandwidth / 1e12:.2f} TB/s: its "
            f"ridge is at {H100.ridge:.0f} FLOPs a byte. Below it memory takes the time, and more arithmetic is free. "
            "Above it arithmetic takes the time.",
            "Several tokens a step (speculation) multiply the intensity, as does MLA, where 128 heads share one "
            "latent.",
        ),
        formula="time of the attention = max(bytes / bandwidth, FLOPs / peak)",
        table=Table(
            (
                Column("shape"),
                Column("intensity, baseline", "derived", ".0f"),
                Column("intensity, V2", "derived", ".0f"),
                Column("intensity, V2 combined", "derived", ".0f"),
                Column("V2's time over the baseline's", "derived", ".2f"),
            ),
            [_roofline_row(*case) for case in cases],
        ),
        charts=(_roofline_chart(),),
        shows="With grouped queries V2's attention takes the baseline's time; with MLA, or many tokens a step, it "
        "does not.",
    )


def _roofline_chart() -> Chart:
    grouped, mla = ordinary(8), latent()
    shown = {"32 on 8": grouped, "V2 of it": variant(grouped, "v2"), "MLA": mla, "V2 of MLA": variant(mla, "v2")}
    roof = Series("roofline", "derived", [_under_the_roof(10 ** (i / 20)) for i in range(61)])
    marks = (Series(name, "derived", [_under_the_roof(attention.intensity())]) for name, attention in shown.items())
    return Chart(
        title=f"Roofline of an {H100.name}",
        x="intensity (FLOPs a byte)",
        y="TFLOP/s within reach",
        x_log=True,
        y_log=True,
        series=(roof, *marks),
    )


def _under_the_roof(intensity: float) -> tuple[float, float]:
    """An intensity, and the TFLOP/s that the machine reaches there."""
    return intensity, min(H100.flops, intensity * H100.bandwidth) / 1e12


def _roofline_row(name: str, base: Attention, queries: int) -> tuple[Cell, ...]:
    second = variant(base, "v2")
    before, after = base.intensity(queries=queries), second.intensity(queries=queries)
    return name, before, after, second.intensity(queries=queries, combined=True), H100.slower(before, after)


def the_weights() -> Step:
    extra = extra_in_v2(LLAMA_3_8B, 8)
    total = sum(LLAMA_3_8B.parameters(ordinary(8)).values())
    lengths = (1_024, 32_768, 131_072)
    return Step(
        heading="The weights are read too",
        text=(
            f"V2's second Wq and Wlam are read at each step: {extra:,} parameters over 32 layers, "
            f"{100 * extra / total:.1f} % of Llama-3.1-8B's {total:,}. At batch 1 the weights are most of what a step "
            "reads; the longer the cache or the larger the batch, the less they count.",
            "`diffattn plan CONFIG --context 128K --batch 1,32` does this arithmetic for a model of yours, and says "
            "whether V2 is worth it.",
        ),
        formula="growth of the step's bytes = extra weights / (weights + cache)",
        table=Table(
            (Column("cached tokens, batch 1", form=","), Column("the step reads more by, %", "derived", ".1f")),
            [(n, 100 * weight_growth(n)) for n in lengths],
        ),
        shows="At batch 1 V2 is not free even where its attention is; a narrower feed-forward pays for it.",
    )


def weight_growth(cached: int) -> float:
    """Relative growth of the bytes of a decode step, Llama-3.1-8B made V2, batch 1, bfloat16."""
    cache = LLAMA_3_8B.layers * ordinary(8).cache_elements * cached
    return extra_in_v2(LLAMA_3_8B, 8) / (sum(LLAMA_3_8B.parameters(ordinary(8)).values()) + cache)


def exercises() -> tuple[Exercise, ...]:
    grouped = ordinary(8)
    most = math.floor(H100.ridge / variant(grouped, "v2").intensity())
    return (
        Exercise(
            "32 heads on 8 key/value heads, an H100. How many tokens may a speculative step verify before V2's "
            "attention is bound by arithmetic? And the baseline's?",
            f"V2's intensity is {variant(grouped, 'v2').intensity():.0f} a token, the ridge {H100.ridge:.0f}: {most} "
            f"tokens. The baseline's: {math.floor(H100.ridge / grouped.intensity())}.",
        ),
        Exercise(
            "Does a larger batch change whether V2's decode attention is free?",
            "No. Each sequence has its own cache, so FLOPs and bytes grow together and the intensity stays. (The "
            "weights, shared by the batch, count less.)",
        ),
        Exercise(
            "What does V2 cost with MLA on an H100 if the maps are combined before the product with the latent?",
            f"Intensity {variant(latent(), 'v2').intensity(combined=True):.0f} instead of "
            f"{variant(latent(), 'v2').intensity():.0f}: "
            f"{H100.slower(latent().intensity(), variant(latent(), 'v2').intensity(combined=True)):.2f} times the "
            f"baseline's time instead of {H100.slower(latent().intensity(), variant(latent(), 'v2').intensity()):.2f}.",
        ),
    )


PART = Part(
    number=9,
    title="Decode arithmetic",
    minutes=5,
    aim="say when V2's decode step takes the baseline's time, and when it does not.",
    steps=(flops_and_bytes, the_roofline, the_weights, a_measured_step),
    exercises=exercises,
)
