"""Whether a model's weights are numbers: one that diverged may still give some.

On the CPU torch's own attention gives zeros for a query that is NaN, so a model's loss can be finite where its weights
are not.
"""

from __future__ import annotations

import torch
from torch import nn

from diffattn.errors import UserError

__all__ = ["check_weights"]


def check_weights(model: nn.Module) -> None:
    """Refuse a model that diverged.

    Raises:
        UserError: some of its parameters are NaN or infinite.
    """
    sizes = {name: p.numel() - int(torch.isfinite(p).sum()) for name, p in model.named_parameters()}
    broken = {name: size for name, size in sizes.items() if size}
    if broken:
        raise UserError(
            f"the model diverged: {sum(broken.values()):,} of its weights are NaN or infinite, the first of them in "
            f"{next(iter(broken))}; no measure of it would mean anything"
        )
