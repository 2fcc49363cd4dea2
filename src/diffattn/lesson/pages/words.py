"""What stands around the parts: prerequisites, glossary, readings, recap, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "GLOSSARY",
    "INTRODUCTION",
    "NEXT",
    "ONE_PART",
    "PREREQUISITES",
    "READINGS",
    "RECAP",
    "Reading",
    "Term",
]


@dataclass(frozen=True)
class Term:
    """A term: what people say it is, and what it means."""

    name: str
    said: str
    meant: str


@dataclass(frozen=True)
class Reading:
    title: str
    source: str
    why: str
    links: tuple[str, ...]


INTRODUCTION = (
    "Attention is a softmax over all that a query sees. Softmax cannot say 'nothing here', so whatever is irrelevant "
    "takes a share. Differential attention has two softmax maps and subtracts one from the other. This lesson measures "
    "what that does, where it helps, where it hurts, and what it costs.",
    "Numbers are labelled. Measured: drawn, run or timed here, by plain Python, and in parts 10 to 12 also taken from "
    "small models that this project trained; +- gives a 95 % interval. Derived: from a closed form or a count. Where "
    "the two stand side by side, compare them.",
)

ONE_PART = "One part at a time: `diffattn lesson 1`; its exercises: `diffattn lesson 1 --exercise`."

PREREQUISITES = (
    "Python: lists, functions, comprehensions.",
    "Attention as in a Transformer: queries, keys, values, heads, the softmax of scaled products.",
    "From statistics: normal distribution, variance, correlation, what a 95 % interval is.",
)

RECAP = (
    "Softmax weights are positive and sum to 1, so what is irrelevant always takes a share: the noise floor.",
    "Signal-to-noise per position does not depend on the length; noise mass, the output's signal-to-noise and the "
    "chance of the match to be the largest do. Say margin, noise and length: fourfold length costs 1.39 of margin.",
    "Differential attention is (A1 - lambda A2) V. What both maps share cancels, what one of them has alone stays.",
    "It wins as far as the two maps' noise is correlated: at best 1 / erf(s sqrt(1 - rho)) times softmax. Then it also "
    "finds more needles and invents fewer; sharper scores find no more.",
    "It loses with a large fixed lambda under independent noise, at short lengths, and where the second map holds the "
    "match.",
    "V1: half the heads, values of double width, one lambda a layer with a depth schedule, a norm for each head, which "
    "hides how lambda and context grow.",
    "V2: twice the queries on the baseline's keys and values, lambda by token and head from a sigmoid, no norm, for "
    "the context stays below 2; adjacent pairs.",
    "V1 adds 6d parameters a layer, V2 about a quarter to two fifths of the attention's. Both keep the baseline's "
    "cache. V2 doubles the arithmetic on the same bytes: free where memory is the limit, not with MLA, many tokens a "
    "step, or on a processor bound by arithmetic.",
    "Small effects need paired seeds, an interval, a correction for the number of questions, and the size below which "
    "nothing would have been seen.",
    "Measure first whether the model has the problem; then compare with softmax of the same size, at its own best "
    "temperature, and with gated attention. Under 16K it rarely pays.",
)

NEXT = (
    "Native sparse attention (DeepSeek, 2025, arXiv:2502.11089): instead of subtracting what is irrelevant, do not "
    "look at it. Keys are read as compressed blocks, as a few selected blocks and as a local window, and the choice "
    "is trained with the model."
)

GLOSSARY = (
    Term(
        "differential attention",
        "Attention that cancels noise.",
        "The difference of two softmax maps times V. It cancels what both maps share, match or noise.",
    ),
    Term(
        "noise floor",
        "The few percent that attention wastes.",
        "All weight that softmax gives to keys other than the match. Its odds grow with N-1; near 1 it is nearly all.",
    ),
    Term(
        "lambda",
        "The strength of the cancelling; more is better.",
        "The factor on the second map. A row sums to 1 - lambda. The best one depends on correlation and length.",
    ),
    Term(
        "DIFF V1",
        "The version with custom kernels and half the cache.",
        "Half the heads with values of double width, a lambda for each layer, a head norm. The cache is the "
        "baseline's, and one ordinary call can serve it.",
    ),
    Term(
        "DIFF V2",
        "The version that costs nothing.",
        "Second queries on the baseline's keys and values, a sigmoid lambda by token and head, no norm. Its decode is "
        "free where memory is the limit; its weights grow.",
    ),
    Term(
        "head norm",
        "A detail of V1.",
        "RMSNorm over each head's 2d channels. V1 lost its gain without it; V2's bounded lambda by token takes its "
        "place.",
    ),
    Term(
        "signal-to-noise",
        "It falls as the context grows.",
        "Per position, weight of the match over the mean absolute weight of another key, it is flat. The output's "
        "falls.",
    ),
    Term(
        "lost in the middle",
        "Models cannot read the middle of a long context.",
        "A measured dip in accuracy when the answer stands in the middle. It has other causes besides the noise "
        "floor, such as positions and training data.",
    ),
    Term(
        "arithmetic intensity",
        "How heavy a computation is.",
        "FLOPs for each byte that is read. Below a machine's ridge memory takes the time, above it arithmetic.",
    ),
)

READINGS = (
    Reading(
        "Differential Transformer",
        "Ye et al., ICLR 2025, arXiv:2410.05258",
        "V1: the operator, the head norm, the experiments.",
        ("https://arxiv.org/abs/2410.05258",),
    ),
    Reading(
        "Differential Transformer V2",
        "Ye et al., Microsoft, 20 January 2026, a post with code; there is no paper",
        "V2: why each piece of V1 went. Mind that its ablations have no numbers.",
        (
            "https://huggingface.co/blog/microsoft/diff-attn-v2",
            "https://github.com/microsoft/unilm/tree/master/Diff-Transformer/Diff-Transformer-V2",
        ),
    ),
    Reading(
        "Grouped Differential Attention",
        "Motif, arXiv:2510.06949",
        "Fewer noise maps than signal maps.",
        ("https://arxiv.org/abs/2510.06949",),
    ),
    Reading(
        "Understanding Differential Transformer Unchains Pretrained Self-Attentions (DEX)",
        "Kong et al., arXiv:2505.16333",
        "Adding it to a pretrained model.",
        ("https://arxiv.org/abs/2505.16333",),
    ),
    Reading(
        "Shared DIFF Transformer",
        "arXiv:2501.17900",
        "Both maps from one matrix and low-rank updates.",
        ("https://arxiv.org/abs/2501.17900",),
    ),
    Reading(
        "Attention Is All You Need",
        "Vaswani et al., 2017, arXiv:1706.03762",
        "The baseline.",
        ("https://arxiv.org/abs/1706.03762",),
    ),
    Reading(
        "Lost in the Middle",
        "Liu et al., 2023, arXiv:2307.03172",
        "The symptom that long contexts show.",
        ("https://arxiv.org/abs/2307.03172",),
    ),
)
