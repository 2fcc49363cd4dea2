"""What has been published or measured about differential attention: each with its source and a grade of trust."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EVIDENCE", "GRADES", "MEASURED_LOSS", "Evidence", "Retrieval", "nearest_retrieval"]

#: How far a statement can be trusted.
GRADES = {
    "measured here": "measured by this project, with the command and the results in its docs/results",
    "independent": "published by others than the method's authors",
    "authors only": "published by the method's authors, not seen confirmed",
    "derived": "arithmetic or the noise model, under the assumptions stated",
}

_V1 = "Ye et al., Differential Transformer, arXiv:2410.05258"
_V2 = "Differential Transformer V2, Microsoft, January 2026 (a post with code)"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One statement: what is said, how it is graded (see `GRADES`), and where it stands."""

    text: str
    grade: str
    source: str

    def to_dict(self) -> dict[str, str]:
        return {"text": self.text, "grade": self.grade, "source": self.source}


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """A published comparison of retrieval: share of right answers at a context, Transformer and differential V1.

    Attributes:
        context: in tokens.
        task: needles, and how many are asked for.
        softmax, differential: accuracy from 0 to 1.
        model: what was compared.
    """

    context: int
    task: str
    softmax: float
    differential: float
    model: str
    grade: str = "authors only"
    source: str = _V1


_SMALL = "3B models, V1"
_LONG = "3B models trained to 64K, V1"
_NEEDLES_64K = zip(
    (8192, 16384, 24576, 32768, 40960, 49152, 57344, 65536),
    (0.95, 0.84, 0.78, 0.64, 0.50, 0.75, 0.78, 0.52),
    (1.00, 0.94, 0.87, 0.83, 0.83, 0.92, 0.84, 0.86),
    strict=True,
)
_RETRIEVAL = (
    Retrieval(context=4096, task="1 needle, 1 asked", softmax=1.00, differential=1.00, model=_SMALL),
    Retrieval(context=4096, task="2 needles, 2 asked", softmax=0.85, differential=0.92, model=_SMALL),
    Retrieval(context=4096, task="4 needles, 2 asked", softmax=0.62, differential=0.84, model=_SMALL),
    Retrieval(context=4096, task="6 needles, 2 asked", softmax=0.55, differential=0.85, model=_SMALL),
    *(
        Retrieval(context=context, task="8 needles, 1 asked", softmax=plain, differential=diff, model=_LONG)
        for context, plain, diff in _NEEDLES_64K
    ),
)

#: V2 minus softmax on WikiText-2, bits a byte of the test text, as docs/results/wikitext-2-small has it.
MEASURED_LOSS = (-0.023, -0.031, -0.015)


def nearest_retrieval(context: int) -> list[Retrieval]:
    """The published results at the context nearest to this one; there are none beyond 65,536 tokens."""
    nearest = min(_RETRIEVAL, key=lambda entry: abs(math.log(entry.context / context))).context
    return [entry for entry in _RETRIEVAL if entry.context == nearest]


#: What a verdict rests on, by name.
EVIDENCE = {
    "loss measured": Evidence(
        text="V2 minus softmax {:.3f} bits a byte (95% interval {:.3f} to {:.3f}): 3M parameters each, WikiText-2, "
        "2 seeds.".format(*MEASURED_LOSS),
        grade="measured here",
        source="docs/results/wikitext-2-small",
    ),
    "loss claimed": Evidence(
        text="V2's loss lies 0.02 to 0.03 nats below a Transformer's; no scores or weights were published.",
        grade="authors only",
        source=_V2,
    ),
    "small effects": Evidence(
        text="V1 at 880M: perplexity 11.25 to 11.15. In BlaGPT V1 gained nothing, V2 went from 3.2296 to 3.2274 "
        "with 6 % slower steps.",
        grade="independent",
        source="arXiv:2504.00927; BlaGPT",
    ),
    "attention": Evidence(
        text="Share of attention on the answer .03 to .09 with softmax, .27 to .40 with V1; on noise .49 to .54 "
        "and .01 to .02.",
        grade="authors only",
        source=_V1,
    ),
    "hallucination": Evidence(
        text="Summaries judged free of hallucination: XSum .44 to .53, CNN/DM .32 to .41, MultiNews .42 to .61; "
        "answers: Qasper .28 to .39, HotpotQA .36 to .46, 2Wiki .29 to .36 (V1).",
        grade="authors only",
        source=_V1,
    ),
    "fine-tuning control": Evidence(
        text="What a differential branch brought to a pretrained model was what fine-tuning its attention brings: "
        "run the same training without the branch.",
        grade="independent",
        source="a control study of DEX (Kong et al., arXiv:2505.16333)",
    ),
    "gated": Evidence(
        text="Gated attention, a cheaper way, in a 15B mixture: RULER at 128K after YaRN 31.65 to 58.82.",
        grade="authors only",
        source="Qiu et al., arXiv:2505.06708",
    ),
    "instability": Evidence(
        text="V1's loss spiked at 7B in a public report.",
        grade="independent",
        source="unilm issue 1718",
    ),
    "stability": Evidence(
        text="V2 has no head norm and, its authors say, fewer spikes at learning rates of 6e-4 to 1e-3.",
        grade="authors only",
        source=_V2,
    ),
    "engines": Evidence(
        text="vLLM removed its differential backend in 0.11 and SGLang has none: V2 is served as one ordinary "
        "attention call with twice the query heads.",
        grade="independent",
        source="vLLM's and SGLang's source",
    ),
}
