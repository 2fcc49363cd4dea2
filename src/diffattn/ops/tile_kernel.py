"""The CPU's fused kernel on the blocks of `tiles.py`, forward and backward.

Pieces of one block are joined by their log-sum-exps, and a backward call that is given the joined output and
log-sum-exp yields a piece's gradients exactly (Liu et al., Ring Attention, arXiv:2310.01889, appendix).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from diffattn.ops.masks import by_group, visible
from diffattn.ops.tiles import Block, Kind, Piece
from diffattn.ops.types import Sight

__all__ = ["Tile", "add_sink", "sink_gradient", "tile_backward", "tile_forward", "tiles_of"]

_kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_kernel_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Tile(NamedTuple):
    """One piece of a block, ready for the kernel.

    `q` is `[b, Hkv, G, t, W]`, `k` and `v` are `[b, Hkv, n, W]`, `seen` broadcasts to `[b, Hkv, G, t, n]`.
    """

    keys: slice
    q: Tensor
    k: Tensor
    v: Tensor
    seen: Tensor | None
    causal: bool


def tiles_of(block: Block, q: Tensor, k: Tensor, v: Tensor, sight: Sight) -> Iterator[Tile]:
    """The block's pieces; `q` `[B, Hkv, G, Tq, W]`, `k` and `v` `[B, Hkv, Tk, W]` are those of the whole call."""
    q = q[block.batch, :, :, block.queries]
    for piece in block.pieces:
        tile = Tile(
            piece.keys, q, k[block.batch, :, piece.keys], v[block.batch, :, piece.keys], None, piece.kind is Kind.CAUSAL
        )
        if piece.kind is not Kind.MASKED:
            yield tile
        elif masked := _masked(tile, block, piece, sight):
            yield masked


def _masked(tile: Tile, block: Block, piece: Piece, sight: Sight) -> Tile | None:
    """The tile cut to the keys that any query sees, with its mask; None where there are none."""
    seen = visible(sight.rows(block.batch), tile.q.device, block.queries, piece.keys)
    assert seen is not None
    seen = seen.expand(*seen.shape[:3], tile.k.shape[2])
    columns = seen.flatten(0, 2).any(0).nonzero()
    if not len(columns):
        return None
    first, last = int(columns[0]), int(columns[-1]) + 1
    keys, seen = slice(piece.keys.start + first, piece.keys.start + last), seen[..., first:last]
    q, k, v = tile.q, tile.k[:, :, first:last], tile.v[:, :, first:last]
    if seen.all():
        return Tile(keys, q, k, v, None, False)
    seen = by_group(seen, *q.shape[1:3])
    if not (sighted := seen.any(-1, keepdim=True)).all():
        q = q.masked_fill(~sighted, 0.0)
    if not (seen_in_row := seen.flatten(1, 3).any(1)).all():
        k, v = (x.masked_fill(~seen_in_row[:, None, :, None], 0.0) for x in (k, v))
    return Tile(keys, q, k, v, seen, False)


class _Call(NamedTuple):
    """One call of the kernel: the whole tile with its group folded into the queries, or one batch row.

    In a row the KV heads stand in for the batch, and K and V are laid over the group by a stride of 0: the more heads
    a call has, the more evenly the kernel shares causal blocks among threads.
    """

    at: slice | int
    folded: bool
    k: Tensor
    v: Tensor
    bias: Tensor | None

    def rows(self, x: Tensor) -> Tensor:
        """What the kernel takes of `[b, Hkv, G, t, W]` or `[b, Hkv, G, t]`."""
        return x.flatten(2, 3) if self.folded else x[self.at]


def _calls(tile: Tile, dtype: torch.dtype) -> Iterator[_Call]:
    batch, group = tile.q.shape[0], tile.q.shape[2]
    bias = None if tile.seen is None else torch.zeros(tile.seen.shape, dtype=dtype).masked_fill_(~tile.seen, -torch.inf)
    if not tile.causal and (bias is None or bias.shape[2:4] == (1, 1)):
        yield _Call(slice(None), True, tile.k, tile.v, None if bias is None else bias[:, :, 0])
        return
    for row in range(batch):
        k, v = (x[row].unsqueeze(1).expand(-1, group, -1, -1) for x in (tile.k, tile.v))
        yield _Call(row, False, k, v, None if bias is None else bias[row if bias.shape[0] > 1 else 0])


def tile_forward(tiles: list[Tile], out: Tensor, lse: Tensor, scale: float) -> None:
    """Writes a block's outputs `[b, Hkv, G, t, W]` and log-sum-exps `[b, Hkv, G, t]`; nothing where it has no tile."""
    if len(tiles) == 1:
        _forward(tiles[0], out, lse, scale)
    elif tiles:
        _join(tiles, out, lse, scale)


def _forward(tile: Tile, out: Tensor, lse: Tensor, scale: float) -> None:
    """Writes one tile's outputs `[b, Hkv, G, t, W]` and log-sum-exps `[b, Hkv, G, t]`."""
    for call in _calls(tile, lse.dtype):
        q = call.rows(tile.q)
        part, part_lse = _kernel(q, call.k, call.v, 0.0, tile.causal, attn_mask=call.bias, scale=scale)
        out[call.at] = part.view(out[call.at].shape)
        lse[call.at] = part_lse.view(lse[call.at].shape)


def add_sink(out: Tensor, lse: Tensor, sinks: Tensor) -> None:
    """Joins a block with one more key a head, whose score is `sinks` `[b, Hkv, G]` and whose value is 0.

    `tile_backward` takes the joined output and log-sum-exp as they are.
    """
    joined = torch.logaddexp(lse, sinks.unsqueeze(-1))
    out.mul_(torch.exp(lse - joined).unsqueeze(-1))
    lse.copy_(joined)


def sink_gradient(grad: Tensor, out: Tensor, lse: Tensor, sinks: Tensor) -> Tensor:
    """The gradient of `sinks` by one block, `[b, Hkv, G]`: minus the sink's weight times grad . out, summed."""
    # An output of 0 adds nothing: that of a row that sees nothing, where the gradient may be NaN.
    pull = (grad.to(lse.dtype) * out).masked_fill(out == 0, 0.0).sum(-1)
    return -(torch.exp(sinks.unsqueeze(-1) - lse) * pull).sum(-1)


def tile_backward(grad: Tensor, out: Tensor, lse: Tensor, tile: Tile, scale: float, sums: tuple[Tensor, ...]) -> None:
    """Adds one tile's gradients to `sums`: of its queries, its keys and its values."""
    dq, dk, dv = sums
    if tile.seen is not None:  # 0 * NaN: what comes back for a row that sees nothing must not spread
        grad = grad.masked_fill(~tile.seen.any(-1, keepdim=True), 0.0)
    for call in _calls(tile, lse.dtype):
        grad_rows, q_rows, out_rows, lse_rows = map(call.rows, (grad, tile.q, out, lse))
        dq_part, *shared = _kernel_backward(
            grad_rows, q_rows, call.k, call.v, out_rows, lse_rows, 0.0, tile.causal, attn_mask=call.bias, scale=scale
        )
        dq[call.at] += dq_part.reshape(dq[call.at].shape)
        for total, part in zip((dk, dv), shared, strict=True):
            total[call.at] += part if call.folded else part.sum(1, dtype=total.dtype)


def _join(tiles: list[Tile], out: Tensor, lse: Tensor, scale: float) -> None:
    """Outputs over disjoint keys, each weighted by its share of the softmax, in the log-sum-exps' dtype.

    Every query sees some key in each tile: masked pieces stand alone.
    """
    parts = [(torch.empty_like(out), torch.empty_like(lse)) for _ in tiles]
    for tile, part in zip(tiles, parts, strict=True):
        _forward(tile, *part, scale)
    torch.logsumexp(torch.stack([part_lse for _, part_lse in parts]), 0, out=lse)
    total = torch.zeros(out.shape, dtype=lse.dtype)
    for part_out, part_lse in parts:
        total.addcmul_(part_out.to(lse.dtype), torch.exp(part_lse - lse).unsqueeze(-1))
    out.copy_(total)
