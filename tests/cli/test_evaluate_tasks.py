"""`diffattn evaluate --tasks`: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json

import pytest
import torch
from test_commands import call, complaint
from transformers import LlamaConfig

from diffattn.data import load_corpus, prepare
from diffattn.evaluation import harness
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.training import loading, pretrained
from questions import answering, plant

needs_harness = pytest.mark.skipif(
    harness.find_spec("lm_eval") is None, reason="lm_eval is not installed: pip install 'diffattn[eval]'"
)


@pytest.fixture
def saved(corpus_folder, tmp_path, monkeypatch):
    for module in (loading, pretrained):
        monkeypatch.setattr(module, "choose_device", lambda: torch.device("cpu"))
    data = prepare(load_corpus(corpus_folder), vocab_size=300, folder=tmp_path / "data", progress=False)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    base = LlamaConfig(vocab_size=data.vocab_size, num_key_value_heads=2, max_position_embeddings=96, **sizes)
    DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(base, "v2")).save_pretrained(tmp_path / "model")
    data.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@needs_harness
def test_the_table_and_the_json(saved, monkeypatch, capsys):
    plant(monkeypatch, prompt="word {index}")
    load = pretrained._model
    replies = {f"word {index}": "it is 100" for index in range(4)}
    monkeypatch.setattr(
        pretrained, "_model", lambda *given: answering(load(*given), pretrained._tokenizer(*given), replies)
    )
    asked = ["evaluate", saved, "--tasks", "needle, diffattn_absent", "--examples", "4", "--length", "64"]
    assert call(*asked) == 0
    captured = capsys.readouterr()
    rows = [line.split() for line in captured.out.splitlines()]
    # One of four: the variance with n - 1 is 1/4, over n = 4.
    assert ["diffattn_needle", "4", "found", "0.2500", "0.2500"] in rows
    assert ["diffattn_absent", "4", "false_citation_64", "0.0000", "all", "alike"] in rows
    assert captured.err.strip() == ""
    assert call(*asked, "--json", "-", "--limit", "1") == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert "not known" in captured.err
    assert found["run"] == str(saved)
    assert found["results"]["diffattn_needle"]["found,none"] == 1.0
    assert found["results"]["diffattn_needle"]["found_stderr,none"] == "N/A"
    assert found["config"]["limit"] == 1


@needs_harness
def test_what_cannot_be_asked(saved, corpus_folder, capsys):
    assert "context holds 96" in complaint(capsys, "evaluate", saved, "--tasks", "needle", "--length", "1K")
    assert "give one with --data" in complaint(capsys, "evaluate", saved, "--tasks", "niah_single_2")
    # With the text, the next thing that is wrong: the length.
    asked = ["evaluate", saved, "--tasks", "niah_single_2", "--length", "600", "--data", corpus_folder]
    assert "context holds 96" in complaint(capsys, *asked)


def test_options_of_the_other_way(tmp_path, capsys):
    for option, value in (("--limit", 3), ("--num-fewshot", 1), ("--seed", 1), ("--length", "64"), ("--examples", 2)):
        assert f"{option} goes with --tasks only" in complaint(capsys, "evaluate", tmp_path, option, value)
    for option, value in (("--split", "test"), ("--context", 8), ("--max-tokens", 9)):
        said = complaint(capsys, "evaluate", tmp_path, "--tasks", "needle", option, value)
        assert f"{option} goes without --tasks only" in said


def test_without_the_harness(saved, capsys, monkeypatch):
    monkeypatch.setattr(harness, "find_spec", {}.get)
    assert "pip install 'diffattn[eval]'" in complaint(capsys, "evaluate", saved, "--tasks", "needle")


def test_bad_options(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(harness, "check_installed", lambda: None)
    asked = ["evaluate", tmp_path, "--tasks"]
    assert "tasks must name one or more" in complaint(capsys, *asked, " , ")
    assert "--length: expected whole numbers" in complaint(capsys, *asked, "needle", "--length", "long")
    assert "limit must be at least 1" in complaint(capsys, *asked, "needle", "--limit", "0")
    assert "examples must be at least 1" in complaint(capsys, *asked, "needle", "--examples", "0")
    assert "no model" in complaint(capsys, *asked, "needle")
