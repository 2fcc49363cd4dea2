"""Tokens' vectors made alike in size and disturbed: a haystack in which no two occurrences of a token are the same."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

__all__ = ["noisy_embeddings"]


def noisy_embeddings(
    model: PreTrainedModel,
    tokens: Tensor,
    *,
    sigma: float = 0.0,
    normalised: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """What to give a model as `inputs_embeds` instead of `input_ids`.

    Args:
        model: any of Transformers that embeds tokens.
        tokens: int64 `[B, T]`.
        sigma: standard deviation of the normal noise added to every channel of every occurrence; with `normalised`
            it is therefore in units of a vector's own root mean square.
        normalised: scale each token's vector to a root mean square of 1, so that no training can lift it out of the
            noise. Gradients flow through the scaling.
        generator: where the noise comes from; None for torch's own. It may be on another device than the model: a
            generator on the CPU then gives the same noise everywhere.

    Returns:
        `[B, T, width]` in the dtype of the embedding.

    Raises:
        ValueError: sigma is negative or not finite.
    """
    if not 0 <= sigma < float("inf"):
        raise ValueError(f"sigma: expected a finite number, 0 or more, got {sigma}")
    vectors: Tensor = model.get_input_embeddings()(tokens)
    if normalised:
        # Without the epsilon of an RMSNorm, which fresh and tiny vectors would feel.
        vectors = F.normalize(vectors, dim=-1) * vectors.shape[-1] ** 0.5
    if sigma:
        device = vectors.device if generator is None else generator.device
        noise = torch.randn(vectors.shape, generator=generator, device=device, dtype=torch.float32)
        vectors = vectors + sigma * noise.to(vectors)
    return vectors
