"""Peak memory and time of each measure on one long sequence, each in a process of its own.

    python -m benchmarks.measures
    python -m benchmarks.measures --length 8192 --attention v1 --only outliers gradient_norms

The model has about 50M parameters, random. Resident memory of the whole process, Python, torch and the model (200 MB)
included; `at rest` is that of a process which has the model and measures nothing. Attention logits are taken of each
128th query only, since on a CPU all of them would take hours; the size of a block does not depend on it.
"""

from __future__ import annotations

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("benchmarks")]  # operator.py is no standard module

import argparse
import subprocess
import time
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig

from diffattn.evaluation import (
    attention_mass,
    bfloat16_error,
    context_rms,
    gradient_norms,
    lambda_values,
    outliers,
)
from diffattn.evaluation.answer_spans import SpanQuestions
from diffattn.models import VARIANTS, DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.training.memory import PeakMemory

VOCABULARY, QUESTIONS, LIMIT = 8192, 4, 4.0
SIMPLE: dict[str, Any] = {
    "outliers": (outliers, outliers.OutliersConfig(every=128)),
    "context_rms": (context_rms, context_rms.ContextRmsConfig()),
    "lambda_values": (lambda_values, lambda_values.LambdaValuesConfig()),
    "gradient_norms": (gradient_norms, gradient_norms.GradientNormsConfig()),
    "bfloat16_error": (bfloat16_error, bfloat16_error.Bfloat16ErrorConfig()),
}
NAMES = ("at rest", "attention_mass", *SIMPLE)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=32_768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--window", type=int, help="keys that a query sees: the same memory in a fraction of the time")
    parser.add_argument("--attention", choices=VARIANTS, default="v2")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--here", choices=NAMES, help="run this measure in this process, and print its two numbers")
    return parser.parse_args()


def build(args: argparse.Namespace) -> DiffTransformerForCausalLM:
    baseline = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=args.layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=args.length,
    )
    window = {"layer_types": ["sliding_attention"] * args.layers, "sliding_window": args.window}
    overrides = window if args.window else {}
    torch.manual_seed(0)
    return DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(baseline, args.attention, **overrides))


def run(name: str, model: DiffTransformerForCausalLM, length: int) -> None:
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (1, length))
    if name == "attention_mass":
        queries = np.linspace(length // 2, length - 1, QUESTIONS).astype(int)[None]
        questions = SpanQuestions(tokens=tokens, queries=queries, sources=queries // 3)
        attention_mass.measure(model, questions, attention_mass.AttentionMassConfig())
    elif name in SIMPLE:
        module, config = SIMPLE[name]
        module.measure(model, tokens, config)


def here(args: argparse.Namespace) -> None:
    memory, model = PeakMemory(torch.device("cpu")), build(args)
    start = time.perf_counter()
    run(args.here, model, args.length)
    print(memory.bytes(), time.perf_counter() - start)


def main() -> None:
    args = parse()
    if args.here:
        here(args)
        return
    size = sum(parameter.numel() for parameter in build(args).parameters())
    print(
        f"torch {torch.__version__}, {args.attention}, {size / 1e6:.1f}M parameters, {args.length:,} tokens, ", end=""
    )
    print(f"{torch.get_num_threads()} threads")
    for name in args.only:
        given = ["--here", name, "--length", args.length, "--layers", args.layers, "--attention", args.attention]
        given += ["--window", args.window] if args.window else []
        command = [sys.executable, "-m", "benchmarks.measures", *map(str, given)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        peak, seconds = int(printed[-2]) / 1e9, float(printed[-1])
        print(f"{name:<16}{peak:>8.2f} GB{seconds:>9.0f} s{'' if peak < LIMIT else '   more than 4 GB'}", flush=True)


if __name__ == "__main__":
    main()
