"""Each study at the tiniest size that still has every part."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from diffattn.experiments.presets import Preset
from diffattn.experiments.studies.arms import with_constant_rate
from diffattn.experiments.studies.needle_job import NeedleModel
from diffattn.experiments.studies.study import STUDIES, StudyRequest
from diffattn.training.task_settings import TaskTraining
from tiny import preset

STEPS = 8


def size(**changes) -> Preset:
    return replace(with_constant_rate(preset(tokens=16 * 2 * STEPS)), layers=1, **changes)


def task(**changes) -> TaskTraining:
    fields = {"learning_rate": 3e-3, "max_steps": 6, "tokens_per_step": 64, "lengths": (32,), "window": 2}
    return TaskTraining(**{**fields, "threshold": 0.01, "warmup_steps": 1, "log_every": 2, **changes})


#: A rate at which every model's loss is soon not finite.
BREAKING = 1e30
TEXT = {"size": size(), "rates": (1e-2,), "validation_tokens": 100, "speed_rounds": 2, "measures": ()}
CHANGES = {
    "language": {
        **TEXT,
        "variants": ("softmax", "wide", "v2"),
        "seeds": 2,
        "rates": (1e-2, BREAKING),
        "tuning_share": 1.0,
        "measures": ("outliers", "context_rms", "dead_pairs"),
    },
    "lambda": {**TEXT, "seeds": 1},
    "scale": {**TEXT, "seeds": 2, "smaller": (size(name="small", hidden_size=8, intermediate_size=16),)},
    "stability": {"size": size(), "rates": (1e-2, BREAKING), "clips": (0.0,), "variants": ("softmax", "v1")},
    "needle": {
        "model": NeedleModel(hidden_size=16, layers=1, heads=2, intermediate_size=16, initial_std=0.2),
        "training": task(),
        "variants": ("softmax", "v2"),
        "conditions": ("plain", "floor", "absent"),
        "seeds": 1,
        "rates": (3e-3,),
        "lengths": (32, 64),
        "sequences": 4,
    },
}


def study_request(study: str, corpus: Path, **changes) -> StudyRequest:
    default = import_module(STUDIES[study]).PRESETS["default"]
    asked = replace(default, name="tiny", **{**CHANGES[study], **changes})
    return StudyRequest(study=study, preset=asked, **({} if study == "needle" else {"data": str(corpus)}))
