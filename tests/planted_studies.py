"""Runs as a study keeps them, with numbers made by hand."""

from __future__ import annotations

import math

TOKENS = [2**n for n in range(6, 11)]


def text_run(variant, seed=0, *, test=2.0, curve=None, flops=100.0, diverged=None, **changes):
    """`curve`: the validation number of a number of tokens."""
    watched = [curve(tokens) for tokens in TOKENS] if curve else [test] * len(TOKENS)
    run = {
        "variant": variant,
        "seed": seed,
        "learning_rate": 1e-3,
        "max_grad_norm": 1.0,
        "flops_per_token": flops,
        "tokens": TOKENS[-1],
        "diverged_at": diverged,
        "curves": {"tokens": TOKENS, "watched": {"validation": watched}},
        "evaluation": {} if diverged else {"test": {"bits_per_byte": test}},
    }
    return {**run, **changes}


def log_linear(start, slope):
    """A loss that falls by `slope` with every doubling of the tokens."""
    return lambda tokens: start - slope * math.log2(tokens)


def needle_run(variant, condition="plain", seed=0, *, learned=True, shares=None, steps=100, **changes):
    """`shares`: by length the shares of `accuracy` and others."""
    retrieval = {
        str(length): {
            "rates": {
                **{what: {"share": share} for what, share in rates.items()},
                "by_depth": [{"accuracy": {"share": rates["accuracy"]}} for _ in range(5)],
            }
        }
        for length, rates in (shares or {}).items()
    }
    reached = [{"steps": steps if learned else None, "tokens": 10 * steps, "seconds": steps / 10}]
    run = {"variant": variant, "condition": condition, "seed": seed, "learned": learned, "retrieval": retrieval}
    about = {"parameters": 1000, "flops_per_token": 5.0, "steps": 300, "reached": reached, "diverged_at": None}
    curves = {"step": [1, 2], "accuracy": [0.1, 0.9]}
    return {**run, **about, "learning_rate": 1e-3, "curves": curves, "mass": {}, **changes}


def stability_run(variant, rate=1e-3, *, clip=1.0, seed=0, losses=(3.0, 2.0), lambdas=None, rms=None, diverged=None):
    """`lambdas`: of each logged step the largest of each layer."""
    steps = [5 * (n + 1) for n in range(len(losses))]
    curves = {"step": steps, "loss": list(losses), "lambda": None, "watched": {"context_rms": rms or []}}
    if lambdas:
        curves["lambda"] = {"min": [[0.0] * len(row) for row in lambdas], "max": lambdas}
    named = {"variant": variant, "learning_rate": rate, "max_grad_norm": clip, "seed": seed}
    return {**named, "diverged_at": diverged, "curves": curves}
