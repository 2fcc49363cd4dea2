"""Results files with made-up numbers, in the form that `compare` stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from diffattn.experiments.verdict import compare_runs, sentences

Results = dict[str, Any]
BITS = {"softmax": 2.10, "gated": 2.095, "v1": 2.12, "v2": 2.07}
SIZES = {"softmax": 1_320_192, "gated": 1_320_256, "v1": 1_319_872, "v2": 1_321_216}
RATIOS = {"softmax": 1.0, "gated": 1.04, "v1": 1.31, "v2": 1.18}
LAYERS, LOGS = 3, 50


def make_results(variants: tuple[str, ...] = ("softmax", "v1", "v2"), seeds: tuple[int, ...] = (0, 1, 2)) -> Results:
    """A complete results file; deterministic."""
    results: Results = {
        "schema": 1,
        "kind": "compare",
        "created": "2026-01-02T03:04:05Z",
        "command": f"diffattn compare --seeds {len(seeds)} --out runs/a",
        "versions": {"python": "3.12.1", "torch": "2.13.0", "transformers": "5.24.0", "diffattn": "0.1.0"},
        "machine": {
            "platform": "Linux",
            "cpu": "Some CPU",
            "cores": 2,
            "memory_bytes": 8 << 30,
            "device": "cpu",
        },
        "preset": "quick",
        "seeds": list(seeds),
        "variants": list(variants),
        "baseline": "softmax",
        "match_parameters": True,
        "evaluation_tokens": 100_000,
        "settings": {
            "tokens": 1_000_000,
            "context": 256,
            "learning_rate": 0.001,
            "dtype": "float32",
            "seed": 0,
        },
        "baseline_config": {"hidden_size": 128, "num_hidden_layers": LAYERS, "vocab_size": 4096},
        "corpus": _corpus(),
        "runs": [_run(variant, seed) for variant in variants for seed in seeds],
        "speed": _speed(variants),
    }
    results["comparisons"] = compare_runs(results)
    results["verdict"] = sentences(results)
    return results


def _corpus() -> Results:
    splits = {
        name: {
            "documents": size,
            "bytes": 5000 * size,
            "words": 600 * size,
            "sha256": "ab" * 32,
            "tokens": 1500 * size,
        }
        for name, size in (("train", 900), ("validation", 50), ("test", 50))
    }
    bounds = {"validation": 905.1, "test": 914.4}
    return {
        "name": "stdlib",
        "sha256": "cd" * 32,
        "splits": splits,
        "vocab_size": 4096,
        "unigram_perplexity_word": bounds,
    }


def _run(variant: str, seed: int) -> Results:
    noise = np.random.default_rng([seed, len(variant), ord(variant[-1])])
    shared = np.random.default_rng(seed)
    bits = BITS[variant] + 0.02 * shared.standard_normal() + 0.003 * noise.standard_normal()
    training = {
        "tokens": 1_000_000,
        "steps": 500,
        "seconds": 60.0,
        "tokens_per_second": 16e3 / RATIOS[variant],
    }
    return {
        "variant": variant,
        "seed": seed,
        "parameters": {
            "total": SIZES[variant],
            "embedding": 524_288,
            "attention": 262_144,
            "intermediate_size": 344,
        },
        "training": training | {"peak_memory_bytes": 700 << 20},
        "evaluation": {split: _evaluation(bits + shift) for split, shift in (("validation", -0.02), ("test", 0.0))},
        "curves": _curves(variant, noise, shared),
    }


def _evaluation(bits: float) -> Results:
    nll = bits * np.log(2) * 250_000
    return {
        "tokens": 75_000,
        "bytes": 250_000,
        "words": 65_000,
        "nll": nll,
        "loss": nll / 75_000,
        "perplexity_token": float(np.exp(nll / 75_000)),
        "perplexity_word": float(np.exp(nll / 65_000)),
        "bits_per_byte": bits,
    }


def _curves(variant: str, noise: np.random.Generator, shared: np.random.Generator) -> Results:
    step = np.arange(1, LOGS + 1) * 10
    loss = 4.6 * step**-0.12 + 2.2 + BITS[variant] + 0.1 * shared.standard_normal(LOGS)
    mean = (0.2 if variant == "v1" else 0.45) + 0.1 * np.arange(LAYERS) + 0.02 * np.log(step)[:, None]
    lambdas = {"mean": mean.tolist(), "min": (mean - 0.1).tolist(), "max": (mean + 0.1).tolist()}
    return {
        "step": step.tolist(),
        "tokens": (step * 2000).tolist(),
        "loss": (loss + 0.01 * noise.standard_normal(LOGS)).tolist(),
        "gradient_norm": (8 / step**0.4 * np.exp(0.1 * noise.standard_normal(LOGS))).tolist(),
        "learning_rate": [1e-3] * LOGS,
        "tokens_per_second": [16e3] * LOGS,
        "lambda": lambdas if variant in ("v1", "v2") else None,
    }


def _speed(variants: tuple[str, ...]) -> Results:
    def entry(key: str, base: float, ratio: float) -> Results:
        samples = [base * ratio * factor for factor in (0.98, 1.0, 1.03, 1.01, 0.99)]
        return {key: samples, "ratio_median": ratio, "ratio_low": ratio * 0.98, "ratio_high": ratio * 1.02}

    return {
        "train_step": {v: entry("seconds", 0.2, RATIOS[v]) for v in variants},
        "decode": {v: entry("milliseconds_per_token", 3.0, RATIOS[v]) for v in variants},
    }


@pytest.fixture
def results() -> Results:
    return make_results()


@pytest.fixture(scope="session")
def make() -> Callable[..., Results]:
    return make_results
