"""What all attention layers share: projections, rotary embedding, and the way from hidden states to hidden states."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from diffattn.nn.head_norm import HeadNorm
from diffattn.nn.log_n import check_log_n_length, scale_by_log_n
from diffattn.nn.rotary import RotaryEmbedding, apply_rotary

__all__ = ["AttentionLayer", "Projected"]


class Projected(NamedTuple):
    """What one layer's projections give.

    Attributes:
        q: query maps `[B, maps * heads, T, D]`; where a head has two, the signal map, then the noise map.
        k: `[B, Hkv, T, D]`, or `[B, Hkv, T, 2D]` with the key of each map.
        v: `[B, Hkv, T, Dv]`.
        extra: what `combine` needs beside the maps' outputs: lambda, a gate, or None.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    extra: Any


class AttentionLayer(nn.Module):
    """Base of the layers: a subclass sets its widths and says how its maps become one output.

    Args:
        hidden_size: width of input and output.
        num_heads: OUTPUT heads H, as in the official code of both versions.
        num_kv_heads: key/value heads Hkv, dividing `num_heads`; default `num_heads`.
        map_dim: width D of one softmax map, even; the subclass has a default.
        bias: whether the projections have one.
        output_bias: the same for `o_proj` alone; default `bias`.
        qk_norm: RMSNorm of each query and key vector before the rotation (as in Qwen3).
        norm_eps: of every norm in the layer.
        rope_base: of the rotary embedding, or None for no positions.
        log_n_length: queries are multiplied by log(n) / log(log_n_length), n the keys that they see (with causal);
            None leaves them as they are.
        window: keys that a query sees, itself included; None for all (with causal).
        dropout: on the attention weights in training.
        device, dtype: of the parameters.

    Raises:
        ValueError: widths or head counts that do not fit.
    """

    MAPS = 1  # query maps of an output head
    KEYS = 1  # keys of a key/value head
    VALUE_WIDTH = 1  # width of a value, in map_dim

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    o_proj: nn.Linear
    q_norm: HeadNorm | None
    k_norm: HeadNorm | None

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        map_dim: int | None = None,
        *,
        bias: bool = False,
        output_bias: bool | None = None,
        qk_norm: bool = False,
        norm_eps: float = 1e-5,
        rope_base: float | None = 10000.0,
        log_n_length: int | None = None,
        window: int | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self._check_heads()
        self.map_dim = self._default_map_dim(hidden_size) if map_dim is None else map_dim
        if self.map_dim < 2 or self.map_dim % 2:
            raise ValueError(f"map_dim: expected an even width for rotary embedding, got {self.map_dim}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout: expected 0 <= dropout < 1, got {dropout}")
        check_log_n_length(log_n_length)
        self.log_n_length = log_n_length
        self.window = window
        self.dropout = dropout
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.q_proj = nn.Linear(hidden_size, self.MAPS * num_heads * self.map_dim, bias=bias, **made)
        self.k_proj = nn.Linear(hidden_size, self.KEYS * self.num_kv_heads * self.map_dim, bias=bias, **made)
        self.v_proj = nn.Linear(hidden_size, self.num_kv_heads * self.value_dim, bias=bias, **made)
        self.o_proj = nn.Linear(
            num_heads * self.value_dim, hidden_size, bias=bias if output_bias is None else output_bias, **made
        )
        self.q_norm = HeadNorm(self.map_dim, norm_eps, **made) if qk_norm else None
        self.k_norm = HeadNorm(self.map_dim, norm_eps, **made) if qk_norm else None
        self.rotary = None if rope_base is None else RotaryEmbedding(self.map_dim, rope_base)

    @property
    def value_dim(self) -> int:
        return self.VALUE_WIDTH * self.map_dim

    def _default_map_dim(self, hidden_size: int) -> int:
        width = self.num_heads * self.VALUE_WIDTH
        if hidden_size % width:
            raise ValueError(
                f"hidden_size: {hidden_size} is no multiple of {width} ({self.num_heads} heads of values "
                f"{self.VALUE_WIDTH} map_dim wide); choose other num_heads, or pass map_dim"
            )
        return hidden_size // width

    def _check_heads(self) -> None:
        if self.num_heads < 1 or self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_kv_heads: {self.num_kv_heads} must divide num_heads {self.num_heads}")

    def reset_parameters(self) -> None:
        """Fresh values for every parameter of the layer, for use after `to_empty`."""
        for child in self.children():
            reset = getattr(child, "reset_parameters", None)
            if callable(reset):
                reset()
        self.reset_own()

    def reset_own(self, init: Any = nn.init) -> None:
        """Fresh values for what the layer holds beside its projections and norms.

        Args:
            init: functions named as those of `torch.nn.init`, such as transformers', which leave loaded values alone.
        """

    def project(
        self, hidden: Tensor, rotary: tuple[Tensor, Tensor] | None = None, positions: Tensor | None = None
    ) -> Projected:
        """Queries, keys, values of `hidden` `[B, T, hidden_size]`, rotated by (cos, sin), `[B or 1, T, D]` each.

        `positions` `[B or 1, T]` are needed with `log_n_length` alone.
        """
        q, k = self.q_proj(hidden), self.k_proj(hidden)
        q, k = (x.unflatten(-1, (-1, self.map_dim)) for x in (q, k))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if rotary is not None:
            q, k = apply_rotary(q, *rotary), apply_rotary(k, *rotary)
        if self.log_n_length is not None:
            q = scale_by_log_n(q, positions, self.log_n_length, self.window)
        v = self.v_proj(hidden).unflatten(-1, (self.num_kv_heads, self.value_dim))
        k = k.unflatten(2, (self.num_kv_heads, self.KEYS)).flatten(3)
        return Projected(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), self.extra(hidden))

    def extra(self, hidden: Tensor) -> Any:
        """What the layer computes from `hidden` beside queries, keys and values."""
        return None

    @abstractmethod
    def attend(self, projected: Projected, **sight: Any) -> Tensor:
        """The heads' outputs `[B, H, T, Dv]`, maps already combined, by this package's operator."""

    @abstractmethod
    def combine(self, maps: Tensor, extra: Any) -> Tensor:
        """The heads' outputs `[..., H, Dv]` from each map's own `[..., H, maps, Dv]`, as any engine gives them."""

    def output(self, context: Tensor, extra: Any = None) -> Tensor:
        """Hidden states from the heads' outputs `[..., H, Dv]`."""
        return self.o_proj(context.flatten(-2))

    def forward(
        self,
        hidden: Tensor,
        *,
        positions: Tensor | None = None,
        causal: bool = True,
        mask: Tensor | None = None,
        k_lengths: Tensor | None = None,
        segment_ids: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Self-attention of `hidden` `[B, T, hidden_size]`.

        Args:
            positions: int `[B or 1, T]`; default 0, 1, ... With `log_n_length` a query sees position + 1 keys: let
                them start at 0 after left padding and in each packed document.
            causal, mask, k_lengths, segment_ids: as in `diffattn.diff_attention`.

        Returns:
            `[B, T, hidden_size]` in the dtype of the parameters.
        """
        if self.log_n_length is not None and not causal:
            raise ValueError(
                "causal: expected True with log_n_length, which counts the keys up to the query, got False"
            )
        if positions is None:
            positions = torch.arange(hidden.shape[1], device=hidden.device)[None]
        if (
            positions.ndim != 2
            or positions.shape[0] not in (1, hidden.shape[0])
            or positions.shape[1] != hidden.shape[1]
        ):
            wanted = f"[1 or {hidden.shape[0]}, {hidden.shape[1]}]"
            raise ValueError(f"positions: expected shape {wanted}, got {list(positions.shape)}")
        projected = self.project(hidden, self._cos_sin(positions, hidden), positions)
        context = self.attend(
            projected,
            causal=causal,
            window=self.window if causal else None,
            mask=mask,
            k_lengths=k_lengths,
            segment_ids=segment_ids,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.output(context.transpose(1, 2), projected.extra)

    def _cos_sin(self, positions: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor] | None:
        if self.rotary is None:
            return None
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        cos, sin = self.rotary(positions, wide)
        return cos.to(hidden.dtype), sin.to(hidden.dtype)

    def extra_repr(self) -> str:
        return f"heads={self.num_heads}, kv_heads={self.num_kv_heads}, map_dim={self.map_dim}"
