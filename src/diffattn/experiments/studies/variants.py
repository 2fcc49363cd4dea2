"""The attentions that the studies compare, each with the controls that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transformers import PretrainedConfig

from diffattn.experiments.request import check_variants
from diffattn.models import DiffTransformerConfig
from diffattn.models.counting import match_intermediate_size

__all__ = ["STUDY_VARIANTS", "StudyVariant", "check_study_variants", "variant_config"]


@dataclass(frozen=True, kw_only=True)
class StudyVariant:
    """One attention of a study.

    Attributes:
        attention: as in `DiffTransformerConfig`.
        summary: in a few words.
        fields: of the configuration, beside the baseline's.
        as_large_as: the attention whose number of parameters it is given, through its feed-forward.
    """

    attention: str
    summary: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    as_large_as: str | None = None


#: Each but `wide` has the baseline's width and feed-forward, so V2 and gated have more parameters than softmax.
STUDY_VARIANTS = {
    "softmax": StudyVariant(attention="softmax", summary="ordinary attention, the baseline"),
    "gated": StudyVariant(attention="gated", summary="its heads' outputs through a sigmoid gate: the control for V2"),
    "logn": StudyVariant(attention="softmax", summary="logits times ln n / ln n0, n0 the length trained on"),
    "sink": StudyVariant(
        attention="softmax", summary="a learned sink in each head's denominator", fields={"attention_sink": True}
    ),
    "wide": StudyVariant(attention="softmax", summary="softmax with V2's number of parameters", as_large_as="v2"),
    "v1": StudyVariant(attention="v1", summary="DIFF V1"),
    "v1-no-norm": StudyVariant(attention="v1", summary="V1 without its head norm", fields={"head_norm": False}),
    "v2": StudyVariant(attention="v2", summary="DIFF V2"),
}


def check_study_variants(names: tuple[str, ...]) -> None:
    """As `check_variants`, for those of `STUDY_VARIANTS`."""
    check_variants(names, tuple(STUDY_VARIANTS))


def variant_config(baseline: PretrainedConfig, name: str, length: int, **fields: Any) -> DiffTransformerConfig:
    """The configuration of one variant.

    Args:
        baseline: an ordinary model's, as `DiffTransformerConfig.from_baseline` takes it.
        name: one of `STUDY_VARIANTS`.
        length: tokens of the sequences trained on, at which `logn` leaves the logits alone.
        fields: of the configuration, over the variant's own.
    """
    variant = STUDY_VARIANTS[name]
    own = {**variant.fields, **({"log_n_length": length} if name == "logn" else {}), **fields}
    config = DiffTransformerConfig.from_baseline(baseline, attention=variant.attention, **own)
    if variant.as_large_as:
        model = DiffTransformerConfig.from_baseline(baseline, attention=variant.as_large_as, **fields)
        config.intermediate_size = match_intermediate_size(config, model)
    return config
