"""`diffattn inspect`: a table, JSON with everything, one line for what it cannot do."""

from __future__ import annotations

import json

import pytest
import torch
from test_commands import call, complaint

from diffattn.data import load_corpus, prepare
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.training import loading, pretrained
from small_models import llama


@pytest.fixture
def saved(corpus_folder, tmp_path, monkeypatch):
    for module in (loading, pretrained):
        monkeypatch.setattr(module, "choose_device", lambda: torch.device("cpu"))
    data = prepare(load_corpus(corpus_folder), vocab_size=300, folder=tmp_path / "data", progress=False)
    config = DiffTransformerConfig.from_baseline(llama(), "v2", vocab_size=data.vocab_size)
    DiffTransformerForCausalLM(config).save_pretrained(tmp_path / "model")
    data.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_it_prints_a_table_and_writes_everything(saved, corpus_folder, capsys):
    asked = ["inspect", saved, "--data", corpus_folder, "--length", "32", "--sequences", "2"]
    assert call(*asked, "--measures", "outliers,lambda_values") == 0
    printed = capsys.readouterr().out
    assert "2 sequences of 32 tokens of words" in printed
    assert "attention logit, number 1 by size" in printed
    assert "mean of layer 3" in printed
    assert call(*asked, "--measures", "dead_pairs", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured"]["dead_pairs"]["pairs_count"] == 24
    assert (found["length"], found["sequences"], found["corpus"]) == (32, 2, "words")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--measures", "nothing"], "there is no measure 'nothing': use all, or some of attention, outliers"),
        (["--sequences", "0"], "--sequences must be at least 1, got 0"),
        (["--length", "100000"], "which do not fill one sequence of 100,000"),
        (["--length", "-4"], "which do not fill one sequence of -4"),
    ],
)
def test_what_it_cannot_do_is_one_line(saved, corpus_folder, capsys, options, said):
    asked = ["inspect", saved, "--data", corpus_folder, "--measures", "outliers", *options]
    assert said in complaint(capsys, *asked)


def test_no_model_is_one_line(tmp_path, capsys):
    assert "there is no folder" in complaint(capsys, "inspect", tmp_path / "nothing")
