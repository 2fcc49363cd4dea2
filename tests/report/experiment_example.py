"""A results file of an experiment with made-up numbers: every kind of chart, eight variants, a run that diverged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["LENGTHS", "VARIANTS", "accuracy", "make_experiment"]

Results = dict[str, Any]

VARIANTS = (
    *("softmax", "gated", "softmax, log-n scaled", "softmax, learned sink"),
    *("softmax, wider", "V1", "V1 without norm", "V2"),
)
LENGTHS = (256, 512, 1024, 2048)
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
KEYS, ANSWER = 256, 96
DIVERGED = VARIANTS.index("V1 without norm")


def make_experiment() -> Results:
    """Deterministic; as an experiment stores it, so with None where a number was not finite."""
    return {
        "schema": 1,
        "kind": "experiment",
        "experiment": "needle",
        "title": "Retrieval of one fact at up to eight times the trained length",
        "created": "2026-01-02T03:04:05Z",
        "command": "diffattn experiment needle --seeds 3 --out runs/needle",
        "versions": {"python": "3.12.1", "torch": "2.13.0", "diffattn": "0.1.0"},
        "machine": {"cpu": "Some CPU", "cores": 2, "memory_bytes": 8 << 30},
        "preset": "quick",
        "seeds": [0, 1, 2],
        "variants": list(VARIANTS),
        "seconds": 4325.0,
        "protocol": _protocol(),
        "verdict": [
            "At 2,048 tokens V2 finds the fact 7.8 points more often than softmax (95% interval 2.1 to 13.5).",
            "At 512 and 1,024 tokens the difference is not resolved below 4.1 points.",
            "V1 without norm diverged at one of three seeds and is left out of claims about length.",
        ],
        "outcomes": _outcomes(),
        "tables": [_accuracies(), _steps()],
        "charts": [_over_length(), _training(), _depths(), _attention()],
        "limits": ["Two layers, width 128: nothing here speaks of models of 7B parameters."],
        "failures": ["V1 without norm, seed 2: the loss was NaN from step 130 on."],
        "runs": [],
        "settings": {"learning_rates": [0.001, 0.003], "context": 256, "best": {"softmax": 0.003, "V2": 0.001}},
        "baseline_config": {"hidden_size": 128, "num_hidden_layers": 2},
        "corpus": {"name": "haystack of facts", "vocab_size": 320},
    }


def accuracy(variant: int, length: int, depth: float = 0.5) -> float:
    """Made up; no two alike."""
    return 0.98 - 0.02 * variant - 0.09 * math.log2(length / 256) * (1 - 0.05 * variant) - 0.1 * depth * (1 - depth)


def _protocol() -> Results:
    return {
        "written": "2026-01-02T01:51:00Z",
        "hypotheses": [
            {"name": "reach", "text": "At 2,048 tokens V2 is more accurate than softmax, at equal parameters."},
            {"name": "slower", "text": "V2 needs more steps to 95% than softmax."},
            {"name": "norm", "text": "V1 without norm is as accurate as V1."},
            {"name": "scale", "text": "The gain grows with size."},
        ],
        "stopping_rule": "Three seeds, 400 steps each, then no more.",
        "analysis": "Paired t interval over seeds; Holm's correction over the lengths.",
    }


def _outcomes() -> list[Results]:
    return [
        {
            "hypothesis": "reach",
            "outcome": "supported",
            "sentence": "The difference is 7.8 points, interval 2.1 to 13.5.",
        },
        {"hypothesis": "slower", "outcome": "contradicted", "sentence": "V2 needed 240 steps, softmax 310."},
        {"hypothesis": "norm", "outcome": "not resolved", "sentence": "Not resolved below 9 points."},
        {"hypothesis": "scale", "outcome": "not measured", "sentence": "One size was trained."},
    ]


def _accuracies() -> Results:
    rows = [
        [name, f"{length:,}", str(seed), f"{accuracy(index, length) + 0.01 * seed:.3f}"]
        for index, name in enumerate(VARIANTS)
        for length in LENGTHS
        for seed in range(3)
    ]
    rows[6 * 12 + 2][3] = None
    head = ["Variant", "Length, tokens", "Seed", "Accuracy"]
    return {"name": "accuracy", "title": "Accuracy by length", "head": head, "rows": rows, "note": "Of 512 questions."}


def _steps() -> Results:
    head = ["Variant", "Parameters", "Steps to 95%", "Learning rate chosen", "Accuracy, 95% interval", "Diverged"]
    rows = [
        [name, f"{400_000 + 1000 * index:,}", str(200 + 20 * index), "0.003", "0.951 (0.940 to 0.962)", "0 of 3"]
        for index, name in enumerate(VARIANTS)
    ]
    rows[DIVERGED][2:] = [None, "0.001", float("nan"), "1 of 3"]
    return {"name": "steps", "title": "Steps to an accuracy of 95%", "head": head, "rows": rows, "note": ""}


def _over_length() -> Results:
    curves = []
    for index, name in enumerate(VARIANTS):
        points: list[list[float | None]] = [
            [length, value := accuracy(index, length), value - 0.02, value + 0.02] for length in LENGTHS
        ]
        curves.append({"name": name, "variant": index, "points": points})
    curves[DIVERGED]["points"][2][1:] = [None, None, None]
    return {
        "kind": "curves",
        "name": "accuracy-over-length",
        "title": "Accuracy over length",
        "caption": "Means over seeds with 95% intervals. Dotted: the trained length.",
        "alt": "Accuracy over length: softmax falls from 0.95 to 0.68, V2 from 0.81 to 0.64.",
        "x": {"label": "tokens", "log": True, "lengths": True, "marks": [[256, "trained"]]},
        "y": {"label": "accuracy", "log": False, "from_zero": True, "level": 0.0625},
        "curves": curves,
    }


def _training() -> Results:
    steps = np.arange(1, 201) * 2
    curves = []
    for index, name in enumerate(VARIANTS):
        loss = (5 - 0.15 * index) * steps**-0.35 + 0.02 * np.sin(steps / 7 + index)
        line = [[float(step), float(value)] for step, value in zip(steps, loss, strict=True)]
        band = [[step, value - 0.05, value + 0.05] for step, value in line]
        curves.append({"name": name, "variant": index, "points": [], "line": line, "band": band})
    for row in curves[DIVERGED]["line"][64:]:
        row[1] = None
    for row in curves[DIVERGED]["band"][64:]:
        row[1:] = [None, None]
    return {
        "kind": "curves",
        "name": "loss",
        "title": "Training loss",
        "caption": "Lines are means over seeds, bands their lowest to highest.",
        "alt": "",
        "x": {"label": "steps"},
        "y": {"label": "loss, nats a token", "log": True},
        "curves": curves,
    }


def _depths() -> Results:
    panels: list[Results] = [
        {
            "title": name,
            "values": [[accuracy(index, length, depth) for length in LENGTHS] for depth in DEPTHS],
        }
        for index, name in enumerate(VARIANTS)
    ]
    panels[DIVERGED]["values"][4][3] = None
    return {
        "kind": "heat",
        "name": "depth-by-length",
        "title": "Accuracy by depth and length",
        "caption": "Depth is where the fact stands: 0 at the beginning.",
        "alt": "Accuracy by depth and length: every variant is most accurate at 256 tokens and at both ends.",
        "rows": {"label": "depth", "values": list(DEPTHS)},
        "columns": {"label": "tokens", "values": list(LENGTHS)},
        "panels": panels,
        "low": 0,
        "high": 1,
        "unit": "accuracy",
    }


def _attention() -> Results:
    noise = np.random.default_rng(0)
    scores = 1.2 * noise.standard_normal((2, KEYS))
    scores[0, ANSWER] += 6.5
    scores[1] = 0.8 * scores[1] + 0.6 * scores[0] * (np.arange(KEYS) != ANSWER)
    first, second = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    titles = ("first map", "second map", "signed map")
    maps = (first, second, first - 0.8 * second)
    return {
        "kind": "maps",
        "name": "maps",
        "title": "Attention of the answer's query in V2, layer 2, head 1",
        "caption": "Blue stands above zero, red below.",
        "alt": "",
        "panels": [
            {"title": title, "values": values.tolist(), "answer": ANSWER}
            for title, values in zip(titles, maps, strict=True)
        ],
    }
