"""`diffattn inspect`: a table, JSON with everything, one line for what it cannot do."""

from __future__ import annotations

import json
import math

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
        (["--measures", "nothing"], "there is no measure 'nothing': use all, or some of attention, needles, outliers"),
        (["--sequences", "0"], "--sequences must be at least 1, got 0"),
        (["--length", "2"], "--length must be at least 3, got 2"),
        (["--length", "-4"], "--length must be at least 3, got -4"),
        (["--length", "100000"], "the task takes 100,000 tokens and the model's context holds 2,048"),
        (["--length", "2048", "--split", "validation"], "which do not fill one sequence of 2,048"),
    ],
)
def test_what_it_cannot_do_is_one_line(saved, corpus_folder, capsys, options, said):
    asked = ["inspect", saved, "--data", corpus_folder, "--measures", "outliers", *options]
    assert said in complaint(capsys, *asked)


def spoil(saved, name):
    model = DiffTransformerForCausalLM.from_pretrained(saved)
    with torch.no_grad():
        model.get_parameter(name)[0, 0] = math.nan
    model.save_pretrained(saved)


def test_a_model_that_diverged_is_said_to_have(saved, corpus_folder, capsys):
    # A query that is NaN costs the loss nothing on the CPU: torch gives zeros for it.
    spoil(saved, "model.layers.1.self_attn.q_proj.weight")
    said = complaint(capsys, "inspect", saved, "--data", corpus_folder, "--measures", "quantised")
    assert "the model diverged: 1 of its weights are NaN or infinite, the first of them in model.layers.1" in said


def test_what_all_leaves_out_is_said_and_what_is_asked_for_by_name_is_an_error(saved, corpus_folder, capsys):
    config = DiffTransformerConfig.from_pretrained(saved)
    config.max_position_embeddings = 64
    config.save_pretrained(saved)
    asked = ["inspect", saved, "--data", corpus_folder, "--sequences", "1", "--length", "16"]
    assert "the task takes at least" in complaint(capsys, *asked, "--measures", "attention")
    assert call(*asked, "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["left_out"]) == ["attention", "needles"]
    assert "dead_pairs" in found["measured"]


def test_a_measure_that_the_model_has_nothing_for_is_said_to_be_left_out(saved, corpus_folder, tmp_path, capsys):
    softmax = DiffTransformerConfig.from_baseline(llama(), "softmax", vocab_size=300)
    DiffTransformerForCausalLM(softmax).save_pretrained(saved)
    asked = ["inspect", saved, "--data", corpus_folder, "--length", "16", "--measures", "outliers,lambda_values"]
    assert call(*asked) == 0
    assert "lambda_values left out: the model has no differential attention" in capsys.readouterr().out


def test_no_model_is_one_line(tmp_path, capsys):
    assert "there is no folder" in complaint(capsys, "inspect", tmp_path / "nothing")
