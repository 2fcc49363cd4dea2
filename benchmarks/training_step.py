"""One training step of each variant beside Transformers' own Llama of the same shape, in one process, alternately.

    python -m benchmarks.training_step
    python -m benchmarks.training_step --width 256 --layers 4 --heads 8 --kv-heads 4 --context 512 --rounds 20

A step is forward, loss and backward. Printed for each model: the median time, its ratio to Llama's step of the same
round (median and quartiles), and the ratio of their floating-point operations as torch counts them (attention as
Tq x Tk, causal or not). Llama stands twice, first and last: the ratio of the two shows the machine's noise.
"""

from __future__ import annotations

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("benchmarks")]  # operator.py is no standard module

import argparse
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

from diffattn.models import VARIANTS, DiffTransformerConfig, DiffTransformerForCausalLM


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = {"width": 128, "layers": 4, "heads": 4, "kv_heads": 2, "vocabulary": 4096, "context": 256, "batch": 8}
    for name, value in {**defaults, "rounds": 30}.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--bfloat16", action="store_true", help="under autocast")
    return parser.parse_args()


def build(args: argparse.Namespace) -> dict[str, torch.nn.Module]:
    baseline = LlamaConfig(
        vocab_size=args.vocabulary,
        hidden_size=args.width,
        intermediate_size=2 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        num_key_value_heads=args.kv_heads,
        max_position_embeddings=args.context,
        tie_word_embeddings=True,
    )
    models: dict[str, torch.nn.Module] = {"llama": LlamaForCausalLM(baseline)}
    for name in VARIANTS:
        models[name] = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(baseline, name))
    models["llama again"] = models["llama"]
    return models


def step(model: torch.nn.Module, ids: torch.Tensor, bfloat16: bool) -> float:
    model.train()
    model.zero_grad()
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    return time.perf_counter() - start


def operations(model: torch.nn.Module, ids: torch.Tensor) -> int:
    # Torch counts matrix products; the fused CPU kernel is none of them, the explicit one is made of them.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    return counter.get_total_flops()


def main() -> None:
    args = parse()
    torch.manual_seed(0)
    models = build(args)
    ids = torch.randint(0, args.vocabulary, (args.batch, args.context))
    flops = {name: operations(model, ids) for name, model in models.items()}
    samples: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(args.rounds):
        for name, model in models.items():
            samples[name].append(step(model, ids, args.bfloat16))
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {vars(args)}")
    print(f"{'model':<12}{'ms':>8}{'ratio':>8}{'quartiles':>16}{'FLOPs':>8}")
    for name, times in samples.items():
        ratios = [ours / theirs for ours, theirs in zip(times, samples["llama"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        share = flops[name] / flops["llama"]
        print(f"{name:<12}{1e3 * statistics.median(times):>8.1f}{middle:>8.3f}{low:>8.3f}{high:>8.3f}{share:>8.3f}")


if __name__ == "__main__":
    main()
