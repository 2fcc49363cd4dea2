"""The smallest corpus, preset and comparison that still have every part: shared by several rooms' tests."""

from __future__ import annotations

import random
from contextlib import contextmanager
from pathlib import Path

import torch

from diffattn.experiments.presets import Preset
from diffattn.experiments.request import CompareRequest
from diffattn.training import TrainingSettings

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
]
SETTINGS = TrainingSettings(tokens=16 * 2 * 40, context=16, batch_size=2, learning_rate=1e-2, save_every=4, log_every=4)


def write_corpus(folder: Path) -> Path:
    """Lines in which each word decides the next, so that there is something to learn in seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(0)
    for name, lines in (("train", 200), ("valid", 30), ("test", 30)):
        starts = [chance.randrange(len(WORDS)) for _ in range(lines)]
        text = "".join(" ".join(WORDS[(s + 3 * i) % len(WORDS)] for i in range(8)) + "\n" for s in starts)
        (folder / f"{name}.txt").write_text(text)
    return folder


def preset(**changes) -> Preset:
    settings = TrainingSettings(**{**SETTINGS.to_dict(), **changes})
    return Preset(
        name="tiny",
        summary="for tests",
        hidden_size=16,
        layers=2,
        heads=4,
        kv_heads=2,
        intermediate_size=40,
        vocab_size=300,
        settings=settings,
        evaluation_tokens=300,
    )


def request(corpus: Path, **changes) -> CompareRequest:
    fields = {"preset": preset(), "data": str(corpus), "speed_rounds": 2}
    return CompareRequest(**{**fields, **changes})


@contextmanager
def one_thread():
    """For models this small a second thread costs more than it brings."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
