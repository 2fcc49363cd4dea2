"""The operator beside the attention calls that it must make, and its layers beside others' differential attention.

    python -m benchmarks.operator
    python -m benchmarks.operator --bfloat16 --length 4096 --heads 16 --kv-heads 4

Three uses: prefill (forward), a training step (forward and backward), decode (one query on a cache; filling it is not
timed). Everything runs alternately in one process. First table: `diff_attention` against ordinary attention by torch on
as many query heads (V2: 2H of width D; V1: queries [q1, 0] and [0, q2], or one call for each map and half of the
values), and against the same by `softmax_attention`. Second table: layers with their projections at one width, against
Llama's attention layer. timm's module (`pip install --no-deps timm`) has neither grouped heads nor a cache.

A ratio is the median over rounds of time over the first row's in the same round, with its quartiles.
"""

from __future__ import annotations

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("benchmarks")]  # operator.py is no standard module

import argparse
import importlib.util
import statistics
import time
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DiffLlamaConfig, DiffLlamaForCausalLM, LlamaConfig, LlamaForCausalLM

from diffattn import diff_attention, softmax_attention
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM

USES = ("prefill", "training step", "decode")
TIMM = importlib.util.find_spec("timm")
Calls = dict[str, Callable[[], object]]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = {"heads": 8, "kv_heads": 2, "map_dim": 64, "length": 2048, "cache": 16384, "rounds": 11}
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--bfloat16", action="store_true")
    return parser.parse_args()


def operator_calls(args: argparse.Namespace, use: str, variant: str) -> Calls:
    """Ours and what it must make, on the same tensors; the calls' results are held to ours before they are timed."""
    pair = variant == "V1"
    heads, kv_heads = (args.heads // 2, args.kv_heads // 2) if pair else (args.heads, args.kv_heads)
    queries, keys = (1, args.cache) if use == "decode" else (args.length, args.length)
    width, dtype = args.map_dim * (2 if pair else 1), torch.bfloat16 if args.bfloat16 else torch.float32
    q = torch.randn(1, queries, heads, 2, args.map_dim, dtype=dtype).permute(3, 0, 2, 1, 4)
    k, v = (torch.randn(1, keys, kv_heads, width, dtype=dtype).transpose(1, 2) for _ in range(2))
    lam = torch.rand(1, heads, queries)
    leaves = [x.detach().requires_grad_(use == "training step") for x in (q[0], q[1], k, v)]
    causal = queries > 1

    def joined(q1: Tensor, q2: Tensor) -> Tensor:
        if pair:
            q1, q2 = F.pad(q1, (0, args.map_dim)), F.pad(q2, (args.map_dim, 0))
        return torch.stack((q1, q2), dim=2).flatten(1, 2)

    scale = args.map_dim**-0.5
    wide = joined(*leaves[:2]).detach().requires_grad_(use == "training step")

    def torchs() -> Tensor:
        return F.scaled_dot_product_attention(wide, *leaves[2:], is_causal=causal, scale=scale, enable_gqa=True)

    def halves() -> list[Tensor]:
        parts = zip(leaves[:2], leaves[2].chunk(2, -1), strict=True)
        return [softmax_attention(q, k, v) for q, k in parts for v in leaves[3].chunk(2, -1)]

    calls: Calls = {
        "torch, one call": torchs,
        "softmax_attention, one call": lambda: softmax_attention(wide, *leaves[2:], causal=causal, scale=scale),
        "diff_attention": lambda: diff_attention(*leaves, lam, causal=causal),
    }
    if pair:
        calls["softmax_attention, value halves"] = halves
    maps = torchs().unflatten(1, (heads, 2)).float()
    combined = maps[:, :, 0] - lam.unsqueeze(-1) * maps[:, :, 1]
    torch.testing.assert_close(diff_attention(*leaves, lam, causal=causal), combined.to(dtype), rtol=2e-2, atol=2e-2)
    return {name: with_backward(call) if use == "training step" else call for name, call in calls.items()}


def with_backward(call: Callable[[], Any]) -> Callable[[], None]:
    def step() -> None:
        out = call()
        sum(part.sum() for part in (out if isinstance(out, list) else [out])).backward()

    return step


class FilledCache:
    """Stands for a cache that holds the keys and values of a prefix: nothing is written, so that reading is timed."""

    def __init__(self, k: Tensor, v: Tensor) -> None:
        self.held = (k, v)

    def update(self, *new: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return self.held


def layer_calls(args: argparse.Namespace, use: str) -> Calls:
    width, dtype = args.heads * args.map_dim, torch.bfloat16 if args.bfloat16 else torch.float32
    shape = {"hidden_size": width, "num_attention_heads": args.heads, "num_key_value_heads": args.kv_heads}
    shape |= {"intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 64, "head_dim": args.map_dim}
    baseline = LlamaConfig(**shape, attn_implementation="sdpa")
    models: dict[str, Any] = {"Llama, transformers": LlamaForCausalLM(baseline)}
    for variant in ("softmax", "gated", "v1", "v2"):
        config = DiffTransformerConfig.from_baseline(baseline, variant)
        models[f"{variant}, ours"] = DiffTransformerForCausalLM(config)
    models["DiffLlama, transformers"] = DiffLlamaForCausalLM(DiffLlamaConfig(**shape, attn_implementation="sdpa"))
    hidden = torch.randn(1, 1 if use == "decode" else args.length, width, dtype=dtype)
    calls = {name: layer_call(model.to(dtype), hidden, args.cache, use) for name, model in models.items()}
    if use != "decode" and (timms := timm_layer(width, args.heads // 2)):
        timms = timms.to(dtype)
        calls["DiffAttention, timm"] = step_of(lambda: timms(hidden, is_causal=True), use)
    return calls


def layer_call(model: nn.Module, hidden: Tensor, cached: int, use: str) -> Callable[[], object]:
    layer, config = model.model.layers[0].self_attn, model.config
    position = torch.arange(hidden.shape[1])[None] + (cached - 1 if use == "decode" else 0)
    arguments: dict[str, Any] = {"position_embeddings": model.model.rotary_emb(hidden, position)}
    arguments["attention_mask"] = None
    if use == "decode":
        shape = (1, config.num_key_value_heads, cached, config.head_dim)
        arguments["cache"] = FilledCache(*(torch.randn(shape, dtype=hidden.dtype) for _ in range(2)))
    return step_of(lambda: layer(hidden, **arguments)[0], use)


def step_of(call: Callable[[], Tensor], use: str) -> Callable[[], object]:
    if use == "training step":
        return with_backward(call)

    def forward() -> None:
        with torch.no_grad():
            call()

    return forward


def timm_layer(width: int, heads: int) -> Any:
    """timm's module without timm's own start-up, which needs torchvision."""
    if TIMM is None:
        return None
    for name, folder in (("timm", ""), ("timm.layers", "/layers")):
        package = types.ModuleType(name)
        package.__path__ = [path + folder for path in TIMM.submodule_search_locations or []]
        sys.modules.setdefault(name, package)
    from timm.layers.diff_attention import DiffAttention

    return DiffAttention(width, heads, proj_bias=False)


def measure(calls: Calls, rounds: int) -> None:
    for call in calls.values():
        call()
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            samples[name].append(time.perf_counter() - start)
    first = next(iter(samples.values()))
    for name, times in samples.items():
        low, middle, high = statistics.quantiles([ours / base for ours, base in zip(times, first, strict=True)], n=4)
        print(f"    {name:<34}{1e3 * statistics.median(times):>9.2f} ms{middle:>8.2f}  ({low:.2f} to {high:.2f})")


def main() -> None:
    args = parse()
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {vars(args)}")
    for use in USES:
        for variant in ("V2", "V1"):
            print(f"{use}, operator, {variant}")
            with torch.set_grad_enabled(use == "training step"):
                measure(operator_calls(args, use, variant), args.rounds)
    for use in USES:
        print(f"{use}, layer")
        measure(layer_calls(args, use), args.rounds)
    if TIMM is None:
        print("timm is not installed: pip install --no-deps timm")


if __name__ == "__main__":
    main()
