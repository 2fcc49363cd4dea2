"""Each backend's error against float64, beside that of ordinary attention on the same inputs.

    python -m benchmarks.accuracy

The error is the norm of the difference over the norm of `A1 |V| + |lam| A2 |V|`: never over a difference that may be
zero. For ordinary attention it is over that of `A1 |V|`. A gradient's error is over the sum of what each map
contributes.
"""

from __future__ import annotations

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("benchmarks")]  # operator.py is no standard module

import torch

from diffattn import diff_attention, softmax_attention

SHAPES = {
    "V2 prefill": {"heads": 8, "kv_heads": 2, "queries": 512, "keys": 512, "pair": False},
    "V1 prefill": {"heads": 4, "kv_heads": 1, "queries": 512, "keys": 512, "pair": True},
    "V2 chunk": {"heads": 8, "kv_heads": 2, "queries": 100, "keys": 512, "pair": False},
    "V2 decode": {"heads": 8, "kv_heads": 2, "queries": 1, "keys": 4096, "pair": False},
}
WIDTH = 64


def draw(heads: int, kv_heads: int, queries: int, keys: int, pair: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    width = 2 * WIDTH if pair else WIDTH
    shapes = [(1, heads, queries, WIDTH)] * 2 + [(1, kv_heads, keys, width)] * 2
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes] + [torch.rand(1, heads, queries).double()]


def error(got: torch.Tensor, exact: torch.Tensor, size: torch.Tensor | float) -> float:
    size = size.norm() if isinstance(size, torch.Tensor) else size
    return float((got.double() - exact).norm() / size)


def outputs(x: list[torch.Tensor], dtype: torch.dtype) -> dict[str, float]:
    low = [t.to(dtype) for t in x]
    q1, q2, k, v, lam = (t.double() for t in low)
    exact = diff_attention(q1, q2, k, v, lam, backend="reference")
    signal = diff_attention(q1, q2, k, v.abs(), 0.0, backend="reference")
    both = 2 * signal - diff_attention(q1, q2, k, v.abs(), lam, backend="reference")
    errors = {name: error(diff_attention(*low, backend=name), exact, both) for name in ("reference", "sdpa")}
    key = low[2][..., :WIDTH]
    exact_softmax = diff_attention(q1, q1, key.double(), v, 0.0, backend="reference")
    errors["softmax"] = error(softmax_attention(low[0], key, low[3]), exact_softmax, signal)
    return errors


def gradients(x: list[torch.Tensor], dtype: torch.dtype) -> float:
    """The largest error of sdpa's five gradients."""

    def run(tensors: list[torch.Tensor], lam: float | None, backend: str) -> list[torch.Tensor]:
        leaves = [t.detach().clone().requires_grad_() for t in tensors]
        used = leaves if lam is None else [*leaves[:4], leaves[4] * 0 + lam]
        out = diff_attention(*used, backend=backend)
        grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(out.dtype)
        return [g.double() for g in torch.autograd.grad(out, leaves, grad)]

    low = [t.to(dtype) for t in x]
    wide = [t.double() for t in low]
    exact, signal, got = run(wide, None, "reference"), run(wide, 0.0, "reference"), run(low, None, "sdpa")
    sizes = [float(s.norm() + (e - s).norm()) for e, s in zip(exact[:4], signal[:4], strict=True)]
    sizes.append(float(exact[4].norm()))
    return max(error(g, e, size) for g, e, size in zip(got, exact, sizes, strict=True))


def main() -> None:
    print(f"torch {torch.__version__}")
    print(f"{'':<14}{'dtype':<10}{'reference':>11}{'sdpa':>11}{'softmax':>11}{'sdpa gradients':>16}")
    for name, shape in SHAPES.items():
        for dtype in (torch.float32, torch.bfloat16):
            x = draw(**shape)
            errors, worst = outputs(x, dtype), gradients(x, dtype)
            row = "".join(f"{errors[key]:>11.1e}" for key in ("reference", "sdpa", "softmax"))
            print(f"{name:<14}{str(dtype).removeprefix('torch.'):<10}{row}{worst:>16.1e}")


if __name__ == "__main__":
    main()
