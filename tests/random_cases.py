"""Random calls of the operator and what must hold of each: one generator for the tests and for the run of a million.

A case is drawn by `choose`, a function that picks one of a sequence, the simplest first: hypothesis', or a seeded
generator's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from diffattn.ops import diff_attention, tiles
from oracle import loop_attention_and_size, rules

Choose = Callable[[Sequence[Any]], Any]
DTYPES = (torch.float64, torch.float64, torch.float32, torch.bfloat16, torch.float16)
LAYOUTS = ("plain", "plain", "length first", "expanded batch", "expanded heads", "sliced", "gaps", "turned")


@dataclass
class Case:
    """The tensors q1, q2, k, v, lam, the keyword arguments, and how the planner cuts the call."""

    tensors: list[Any]
    arguments: dict[str, Any]
    block: int
    shortest_document: int
    poisoned: bool = False
    differentiated: bool = True
    said: dict[str, Any] = field(default_factory=dict)


def draw_case(choose: Choose) -> Case:
    B, Hkv, D = choose((1, 1, 1, 2, 3)), choose((1, 1, 1, 2, 3)), choose((1, 2, 3, 4, 8))
    Hn = Hkv * choose((1, 1, 2))
    H = Hn * choose((1, 1, 2, 3) if Hn < 3 else (1, 2))
    Tq, Tk = choose((1, 1, 2, 3, 4, 7)), choose((1, 2, 3, 4, 5, 7))
    width, Dv = D * choose((1, 2)), choose((D, D, D, 1, 3, 2 * D))
    generator = torch.Generator().manual_seed(choose(range(2**16)))
    dtype = choose(DTYPES)
    shapes = ((B, H, Tq, D), (B, Hn, Tq, D), (B, Hkv, Tk, width), (B, Hkv, Tk, Dv))
    layouts = [choose(LAYOUTS) for _ in shapes]
    tensors: list[Any] = [
        lay(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype), layout)
        for shape, layout in zip(shapes, layouts, strict=True)
    ]
    tensors.append(draw_lam(choose, generator, (B, H, Tq)))
    arguments = draw_sight(choose, generator, (B, H, Tq, Tk))
    arguments["scale"] = choose((None, None, None, 0.3, 2.0))
    cuts = choose((1, 2, 3, 256)), choose((1, 32))
    poisoned, differentiated = choose((False, False, True)), choose((True, False, False, False, False))
    case = Case(tensors, arguments, *cuts, poisoned=poisoned, differentiated=differentiated)
    case.said = {"shapes": shapes, "dtype": dtype, "layouts": layouts, "arguments": arguments, "lam": tensors[4]}
    return case


def lay(x: Tensor, layout: str) -> Tensor:
    """The same shape in another memory layout; an expanded one repeats its first row or head."""
    if layout == "length first":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "expanded batch":
        return x[:1].expand(x.shape)
    if layout == "expanded heads":
        return x[:, :1].expand(x.shape)
    if layout == "sliced":
        return torch.cat((x, x), dim=2)[:, :, 1 : 1 + x.shape[2]].copy_(x)
    if layout == "gaps":
        return torch.stack((x, x), dim=-1)[..., 0]
    if layout == "turned":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    return x


def draw_lam(choose: Choose, generator: torch.Generator, full: tuple[int, int, int]) -> Tensor | float:
    kind = choose(("number", "0-d", "3-d", "3-d", "3-d"))
    if kind == "number":
        return choose((0, 0.8, 1, -1.5, 3.7))
    shape = () if kind == "0-d" else tuple(choose((1, size)) for size in full)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(choose((torch.float64, torch.float32)))


def draw_sight(choose: Choose, generator: torch.Generator, full: tuple[int, int, int, int]) -> dict[str, Any]:
    B, _, Tq, Tk = full
    causal = choose((True, True, False))
    sight: dict[str, Any] = {"causal": causal}
    if choose((False, False, True)):
        sight["window"] = choose((1, 2, 3, 9)) if causal else (choose((0, 1, 4)), choose((0, 2, 5)))
    if choose((False, False, True)):
        sight["k_lengths"] = torch.tensor([choose(range(Tk + 1)) for _ in range(B)])
    kind = choose(("none", "none", "padding", "holes", "4-d"))
    if kind == "padding":
        first = torch.tensor([[choose(range(Tk + 1))] for _ in range(B)])
        sight["mask"] = torch.arange(Tk) >= first if choose((True, False)) else torch.arange(Tk) < first
    elif kind != "none":
        shape = (B, Tk) if kind == "holes" else tuple(choose((1, size)) for size in full)
        sight["mask"] = torch.rand(shape, generator=generator) > choose((0.2, 0.7))
    if choose((False, False, True)):
        sight["segment_ids"] = draw_segments(choose, generator, (B, Tq, Tk))
    return sight


def draw_segments(choose: Choose, generator: torch.Generator, full: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    B, Tq, Tk = full
    keys = torch.randint(0, 3, (B, Tk), generator=generator)
    keys = keys.sort(dim=1).values if choose((True, True, False)) else keys
    if Tq <= Tk and choose((True, False)):
        return keys[:, Tk - Tq :], keys
    return torch.randint(0, 3, (B, Tq), generator=generator).sort(dim=1).values, keys


def poison(case: Case, may_see: Callable[[int, int, int, int], bool]) -> None:
    """NaN and infinity in the keys and values at which no query of the batch row may look."""
    q1, _, k, v, _ = case.tensors
    (B, H, Tq, _), Tk = q1.shape, k.shape[2]
    case.tensors[2], case.tensors[3] = k.clone(), v.clone()
    for b in range(B):
        for j in range(Tk):
            if not any(may_see(b, h, i, j) for h in range(H) for i in range(Tq)):
                case.tensors[2][b, :, j], case.tensors[3][b, :, j] = float("nan"), float("inf")


def blind_rows(out: Tensor, may_see: Callable[[int, int, int, int], bool], keys: int) -> Tensor:
    """Bool `[B, H, Tq]`: the queries that see nothing."""
    B, H, Tq = out.shape[:3]
    rows = [any(may_see(b, h, i, j) for j in range(keys)) for b in range(B) for h in range(H) for i in range(Tq)]
    return ~torch.tensor(rows).view(B, H, Tq)


def check_case(case: Case, backends: Sequence[str] = ("reference", "sdpa")) -> None:
    """Outputs against the loops, gradients against those of the reference in float64.

    Raises:
        AssertionError: what differs, by how much, and the case.
    """
    sight = {name: value for name, value in case.arguments.items() if name != "scale"}
    may_see = rules(case.tensors[0].shape[2], case.tensors[2].shape[2], **sight)
    if case.poisoned:
        poison(case, may_see)
    exact, size = loop_attention_and_size(*case.tensors, may_see, case.arguments["scale"])
    grad = torch.randn(exact.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grad = grad.to(case.tensors[0].dtype)
    if case.poisoned and not isinstance(case.tensors[4], Tensor):  # lam's own gradient takes up what comes back
        grad[blind_rows(exact, may_see, case.tensors[2].shape[2])] = float("nan")
    exact_grads: tuple[Tensor, ...] = ()
    bounds: tuple[float, ...] = ()
    if case.differentiated:
        wide = [t.double() if isinstance(t, Tensor) else t for t in case.tensors]
        exact_grads, bounds = run(case, wide, grad.double(), "reference")[1], gradient_bounds(case, grad)
    before = tiles.BLOCK, tiles.SHORTEST_DOCUMENT
    tiles.BLOCK, tiles.SHORTEST_DOCUMENT = case.block, case.shortest_document
    try:
        for backend in backends:
            out, grads = run(case, case.tensors, grad, backend)
            assert out.dtype == case.tensors[0].dtype
            hold(case, f"{backend} output", out, exact, output_bound(case, backend, exact, size))
            for name, got, want, bound in zip(("q1", "q2", "k", "v", "lam"), grads, exact_grads, bounds, strict=False):
                hold(case, f"{backend} gradient of {name}", got, want, bound)
    finally:
        tiles.BLOCK, tiles.SHORTEST_DOCUMENT = before


def run(case: Case, tensors: Sequence[Any], grad: Tensor, backend: str) -> tuple[Tensor, tuple[Tensor, ...]]:
    if not case.differentiated:
        return diff_attention(*tensors, **case.arguments, backend=backend), ()
    leaves = [t.detach().requires_grad_() if isinstance(t, Tensor) else t for t in tensors]
    out = diff_attention(*leaves, **case.arguments, backend=backend)
    return out.detach(), torch.autograd.grad(out, [t for t in leaves if isinstance(t, Tensor)], grad)


def hold(case: Case, what: str, got: Tensor, want: Tensor, bound: Tensor | float) -> None:
    error = (got.double() - want).abs()
    assert (error <= bound).all(), f"{what}: off by up to {error.max():.2e}\n{case.said}, block {case.block}"


def output_bound(case: Case, backend: str, exact: Tensor, size: Tensor) -> Tensor:
    """Half a unit in the last place of the result, and the float32 (float64) arithmetic before it.

    64 roundings of the wide dtype are enough for scores of this size and torch's exponential (20 units in the last
    place). `sdpa` in a narrow dtype rounds each map's weights and each map's product too: a unit of the sizes.
    """
    dtype = case.tensors[0].dtype
    narrow, wide = torch.finfo(dtype), torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32)
    bound = 64 * wide.eps * size + narrow.eps * exact.abs() + 16 * narrow.tiny * narrow.eps * (1 + size)
    return bound + 2 * narrow.eps * size if backend == "sdpa" else bound


def gradient_bounds(case: Case, grad: Tensor) -> tuple[float, ...]:
    """Roundings times the largest sum that stands behind an entry, for q1, q2, k, v, lam.

    With M the largest |dP| + |delta| of both maps, |dq| sums scale M |k| over weights that sum to 1, |dk| scale M |q|
    and |dv| |dO| over the queries of the group.
    """
    q1, q2, k, v, lam = case.tensors
    dtype, (batch, heads, queries, width) = q1.dtype, q1.shape
    scale = case.arguments["scale"] or width**-0.5
    q, key, value, up = max(largest(q1), largest(q2)), largest(k), largest(v), largest(grad)
    weight = 1 + (largest(lam) if isinstance(lam, Tensor) else abs(lam))
    spread, rows = 2 * up * value * v.shape[3] * weight, queries * heads * batch
    sums = (spread * scale * key, spread * scale * key * heads, spread * scale * q * rows, weight * up * rows)
    roundings = (8 if dtype in (torch.bfloat16, torch.float16) else 64) * torch.finfo(dtype).eps
    of_lam = max(roundings, 64 * torch.finfo(lam.dtype).eps) if isinstance(lam, Tensor) else 0.0
    bounds = [roundings * max(total, 1e-3) for total in sums]
    return (*bounds, of_lam * max(up * value * v.shape[3] * rows, 1e-3))


def largest(x: Tensor) -> float:
    x = x.double()
    return float(x.nan_to_num(0.0, 0.0, 0.0).abs().max())
