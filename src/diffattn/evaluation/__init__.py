"""Measures, one a file, each with a `measure(model, data, config)`: import the module of the one you want."""

from diffattn.evaluation.attention_noise import AttentionNoiseConfig, AttentionNoiseResult
from diffattn.evaluation.decoding import DecodingConfig
from diffattn.evaluation.perplexity import PerplexityConfig, PerplexityResult
from diffattn.evaluation.training_step import TrainingStepConfig
from diffattn.evaluation.unigram import add_one_unigram

__all__ = [
    "AttentionNoiseConfig",
    "AttentionNoiseResult",
    "DecodingConfig",
    "PerplexityConfig",
    "PerplexityResult",
    "TrainingStepConfig",
    "add_one_unigram",
]
