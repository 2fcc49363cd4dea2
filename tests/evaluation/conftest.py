from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from diffattn.data import Corpus, PreparedData, prepare

DOCUMENTS = {
    "train": ["the cat sat on the mat\nand the dog\n" * 20, "a second text\n"],
    "validation": ["the dog sat\n" * 20],
    "test": ["the cat\nsat äöü on", "the mat  and\n\n the dog\n" * 15, "zyzzyva\n"],
}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    folder: Path = tmp_path_factory.mktemp("prepared")
    return prepare(Corpus("cats", DOCUMENTS), vocab_size=280, folder=folder, progress=False)


@pytest.fixture
def model(data: PreparedData) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=data.vocab_size,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=0.3,
        attention_dropout=0.5,
    )
    return LlamaForCausalLM(config)
