"""One training on a generated retrieval task with its measures: the work of the needle study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from transformers import LlamaConfig, PreTrainedModel

from diffattn.evaluation import answer_maps, attention_mass, dead_pairs, retrieval, switch_off
from diffattn.evaluation.effects import Sample
from diffattn.experiments.studies.needle_conditions import Condition
from diffattn.experiments.studies.rounding import rounded
from diffattn.experiments.studies.variants import variant_config
from diffattn.models import DiffTransformerConfig, count_parameters
from diffattn.models.counting import body_of
from diffattn.planning.flops import training_flops
from diffattn.tasks import TokenExamples
from diffattn.tasks.facts import FactsConfig, make_facts, vocabulary_size
from diffattn.training.on_task import train_on_task
from diffattn.training.task_settings import TaskTraining

__all__ = ["WORK", "NeedleModel", "arguments_of", "run"]

WORK = "diffattn.experiments.studies.needle_job:run"
_LOOKED_AT = 16  # sequences
_DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, kw_only=True)
class NeedleModel:
    """The baseline's size; heads are even, so that V1 can halve them.

    Attributes:
        initial_std: of the matrices at the start; about 1/sqrt(width) learns the task several times faster than 0.02.
    """

    hidden_size: int = 128
    layers: int = 2
    heads: int = 4
    intermediate_size: int = 256
    initial_std: float = 0.08

    def baseline(self, vocab_size: int, positions: int) -> LlamaConfig:
        """The configuration of ordinary attention."""
        return LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.heads,
            max_position_embeddings=positions,
            initializer_range=self.initial_std,
        )


def arguments_of(
    variant: str, condition: Condition, model: NeedleModel, training: TaskTraining, tests: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of `run`; `tests` has `lengths`, `sequences` of each, `seed`, and `look`, into heads."""
    own = replace(
        training,
        lengths=condition.lengths or training.lengths,
        max_steps=round(condition.steps * training.max_steps),
        embedding_noise=condition.noise,
        normalised_embeddings=condition.noise > 0,
    )
    return {
        "variant": variant,
        "condition": condition.name,
        "facts": dict(condition.facts),
        "rotary": condition.rotary,
        "model": asdict(model),
        "training": own.to_dict(),
        "tests": dict(tests),
    }


def run(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train one variant on one condition's task and ask it questions at every length.

    Returns:
        `variant`, `condition`, `seed`, `learning_rate`, `parameters`, `flops_per_token` (training, at the last length),
        what `train_on_task` gives, `learned` (whether the threshold was reached at the last length), and where the
        training did not diverge `retrieval` by length; where heads were looked into `mass` by length, `maps`, and of
        differential models `dead_pairs` and `switch_off`.
    """
    settings = TaskTraining(**{**arguments["training"], **_tuples(arguments["training"])})
    tests, facts = arguments["tests"], arguments["facts"]
    longest = max(*settings.lengths, *tests["lengths"])
    config = _config(arguments, settings, longest)
    trained = train_on_task(config, lambda length, count, seed: draw(facts, length, count, seed), settings)
    found: dict[str, Any] = {"retrieval": {}, "mass": {}}
    if trained.result["diverged_at"] is None:
        examples = {n: draw(facts, n, tests["sequences"], tests["seed"] + n) for n in tests["lengths"]}
        found["retrieval"] = _retrieval(trained.model, examples, settings)
        if tests["look"]:
            found |= _look(trained.model, examples)
    about = _about(arguments, config, settings)
    return rounded({**about, **trained.result, "learned": trained.learned, **found}, 6)


def draw(facts: Mapping[str, Any], length: int, count: int, seed: int) -> TokenExamples:
    """Sequences of `length` tokens in all, their questions among them."""
    questions = facts.get("questions", FactsConfig.questions)
    return make_facts(FactsConfig(length=length - questions, **facts), count, seed)


def _tuples(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(stored[name]) for name in ("lengths", "betas")}


def _config(arguments: Mapping[str, Any], settings: TaskTraining, longest: int) -> DiffTransformerConfig:
    size = vocabulary_size(FactsConfig(length=settings.lengths[0], **arguments["facts"]))
    baseline = NeedleModel(**arguments["model"]).baseline(size, longest)
    return variant_config(baseline, arguments["variant"], settings.lengths[-1], rotary=arguments["rotary"])


def _about(arguments: Mapping[str, Any], config: DiffTransformerConfig, settings: TaskTraining) -> dict[str, Any]:
    return {
        "variant": arguments["variant"],
        "condition": arguments["condition"],
        "seed": settings.seed,
        "learning_rate": settings.learning_rate,
        "parameters": count_parameters(config).total,
        "flops_per_token": training_flops(body_of(config), settings.lengths[-1]),
    }


def _retrieval(model: PreTrainedModel, examples: Mapping[int, TokenExamples], settings: TaskTraining) -> dict[str, Any]:
    config = retrieval.RetrievalConfig(
        depths=_DEPTHS,
        normalised_embeddings=settings.normalised_embeddings,
        embedding_noise=settings.embedding_noise,
    )
    return {str(length): retrieval.measure(model, part, config).to_dict() for length, part in examples.items()}


def _look(model: PreTrainedModel, examples: Mapping[int, TokenExamples]) -> dict[str, Any]:
    """What heads attend to at the first and last length, and what differential ones lose without the subtraction."""
    shortest = min(examples)
    few = {length: _first(examples[length], _LOOKED_AT) for length in (shortest, max(examples))}
    config = attention_mass.AttentionMassConfig()
    found: dict[str, Any] = {
        "mass": {str(length): attention_mass.measure(model, part, config).to_dict() for length, part in few.items()},
        "maps": answer_maps.measure(model, few[shortest]).to_dict(),
    }
    if model.config.maps == 2:
        pairs = dead_pairs.measure(model, few[shortest].tokens, dead_pairs.DeadPairsConfig())
        switched = switch_off.measure(model, Sample(examples=few[shortest]), switch_off.SwitchOffConfig())
        found |= {"dead_pairs": pairs.to_dict(), "switch_off": switched.to_dict()}
    return found


def _first(examples: TokenExamples, count: int) -> TokenExamples:
    return TokenExamples(**{name: value[:count] for name, value in vars(examples).items()})
