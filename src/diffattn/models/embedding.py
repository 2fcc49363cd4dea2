"""Tokens' embeddings, normalised and with noise: the input of a noisy haystack."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from transformers import PreTrainedModel

__all__ = ["embed", "with_noise"]

_TINY = 1e-30  # a vector of zeros stays one


def embed(
    model: PreTrainedModel,
    tokens: Tensor,
    *,
    normalised: bool = False,
    sigma: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """What a model takes as `inputs_embeds` instead of these tokens; gradients reach the embeddings.

    Args:
        model: on any device, with an input embedding.
        tokens: int64 `[B, T]`.
        normalised: divide each vector by the root mean square of its channels, which becomes 1 (its length becomes
            sqrt(width)), so that `sigma` means the same for every token and every model.
        sigma: standard deviation of independent normal noise on every channel, after the normalisation.
        generator: the noise is drawn from it, on its own device, in float32; None for torch's own.

    Returns:
        `[B, T, width]` in the embedding's dtype; the normalisation and the noise are in float32 or wider.

    Raises:
        ValueError: a `sigma` that is negative or not finite.
    """
    if not 0 <= sigma < math.inf:
        raise ValueError(f"sigma: expected a finite number, 0 or more, got {sigma}")
    embeddings: Tensor = model.get_input_embeddings()(tokens)
    dtype = embeddings.dtype
    vectors = embeddings.to(torch.promote_types(dtype, torch.float32))
    if normalised:
        vectors = vectors * vectors.square().mean(-1, keepdim=True).clamp(min=_TINY).rsqrt()
    return (with_noise(vectors, sigma, generator) if sigma > 0 else vectors).to(dtype)


def with_noise(
    vectors: Tensor, sigma: float, generator: torch.Generator | None = None, *, relative: bool = False
) -> Tensor:
    """Vectors plus independent normal noise of standard deviation `sigma` on every channel, in their dtype.

    Args:
        vectors: `[..., width]`.
        sigma: a number, or with `relative` a share of each vector's own root mean square.
        generator: drawn from on its own device, in float32; None for torch's own.
    """
    wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    drawn_on = wide.device if generator is None else generator.device
    noise = sigma * torch.randn(wide.shape, generator=generator, device=drawn_on).to(wide)
    if relative:
        noise = noise * wide.square().mean(-1, keepdim=True).sqrt()
    return (wide + noise).to(vectors.dtype)
