"""Which tokens are seen when: a matter of seed and settings, never of the model."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import Dataset

from diffattn.data import TokenBlocks
from diffattn.training.settings import TrainingSettings

__all__ = ["OrderedBlocks", "block_order"]


def block_order(blocks: int, count: int, seed: int) -> np.ndarray:
    """Indices int64 `[count]` of the blocks to see: each epoch is a fresh permutation of all `blocks`."""
    random = np.random.default_rng(seed)
    epochs = -(-count // blocks)
    return np.concatenate([random.permutation(blocks) for _ in range(epochs)])[:count]


class OrderedBlocks(Dataset[dict[str, torch.Tensor]]):
    """Exactly the blocks that a training sees, in their order; read one after the other, it is one epoch.

    Args:
        blocks: the train split in blocks of one context.
        settings: seed, steps and batch size of the training.
    """

    def __init__(self, blocks: TokenBlocks, settings: TrainingSettings) -> None:
        self.blocks = blocks
        count = settings.steps * settings.batch_size * settings.gradient_accumulation
        self.order = block_order(len(blocks), count, settings.seed)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self.blocks[int(self.order[index])]
