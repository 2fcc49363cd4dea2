from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from transformers import LlamaForCausalLM

from diffattn.data import PreparedData
from diffattn.errors import UserError
from diffattn.evaluation import perplexity
from diffattn.evaluation.perplexity import PerplexityConfig, measure


def config(**fields) -> PerplexityConfig:
    return PerplexityConfig(**({"context": 8, "batch_size": 3} | fields))


def single_token_nll(model: LlamaForCausalLM, tokens: list[int], context: int) -> Iterator[float]:
    """From the definition: token t is predicted from those of its window before it, one call a token, in float64."""
    double = LlamaForCausalLM(model.config).double().eval()
    double.load_state_dict(model.state_dict())
    for position in range(1, len(tokens)):
        start = (position - 1) // context * context
        logits = double(torch.tensor([tokens[start:position]])).logits[0, -1]
        yield float(torch.logsumexp(logits, 0) - logits[tokens[position]])


@pytest.mark.parametrize("context", [1, 8, 39, 64])
def test_against_a_loop_over_single_tokens(model: LlamaForCausalLM, data: PreparedData, context: int) -> None:
    tokens = data.tokens("test")[:40].tolist()
    with torch.no_grad():
        expected = sum(single_token_nll(model, tokens, context))
    result = measure(model, data, config(context=context, max_tokens=39))
    assert result.tokens == 39
    assert result.nll == pytest.approx(expected, rel=1e-6)
    assert result.loss == pytest.approx(expected / 39, rel=1e-6)
    assert result.perplexity_token == pytest.approx(math.exp(expected / 39), rel=1e-5)
    assert result.perplexity_word == pytest.approx(math.exp(expected / result.words), rel=1e-5)
    assert result.bits_per_byte == pytest.approx(expected / math.log(2) / result.bytes, rel=1e-6)


@pytest.mark.parametrize("length", [2, 8, 9, 10, 17, 33, 34])
@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_every_token_is_a_target_once(data: PreparedData, length: int, batch_size: int) -> None:
    stream = data.tokens("train")[:length]
    windows = list(perplexity._windows(stream, 8, batch_size))
    rows = [row.tolist() for batch in windows for row in batch]
    assert [token for row in rows for token in row[1:]] == stream[1:].tolist()
    assert all(row[0] == previous[-1] for previous, row in pairwise(rows))
    assert all(len(row) == 9 for row in rows[:-1])
    assert max(len(batch) for batch in windows) <= batch_size


def test_batch_size_changes_nothing(model: LlamaForCausalLM, data: PreparedData) -> None:
    results = [measure(model, data, config(batch_size=size)) for size in (1, 2, 5, 64)]
    for result in results[1:]:
        assert result.bits_per_byte == pytest.approx(results[0].bits_per_byte, rel=1e-6)
        assert (result.tokens, result.bytes, result.words) == (
            results[0].tokens,
            results[0].bytes,
            results[0].words,
        )


def test_context_changes_the_likelihood_but_not_the_text(model: LlamaForCausalLM, data: PreparedData) -> None:
    short, long = (measure(model, data, config(context=context)) for context in (4, 32))
    assert (short.tokens, short.bytes, short.words) == (long.tokens, long.bytes, long.words)
    assert short.nll != pytest.approx(long.nll, rel=1e-4)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_bytes_and_words_are_the_corpus_own(model, data: PreparedData, split: str, chunk: int, monkeypatch) -> None:
    monkeypatch.setattr(perplexity, "_TEXT_CHUNK", chunk)
    result = measure(model, data, config(split=split, batch_size=64))
    counts = data.corpus["splits"][split]
    assert (result.tokens, result.bytes, result.words) == (counts["tokens"] - 1, counts["bytes"], counts["words"])


def test_part_of_a_split_counts_its_own_text(model: LlamaForCausalLM, data: PreparedData) -> None:
    for count in range(1, 25):
        text = data.tokenizer.decode(data.tokens("test")[1 : count + 1].tolist())
        result = measure(model, data, config(max_tokens=count))
        assert result.tokens == count
        # Where a character is cut in two, its first bytes count; decoded, they are one replacement character.
        if "\ufffd" not in text:
            separated = text.replace("<|endoftext|>", " ")
            assert result.words == len(separated.split()) + separated.count("\n")
            assert result.bytes == len(text.replace("<|endoftext|>", "").encode())


def test_more_than_there_is_means_all(model: LlamaForCausalLM, data: PreparedData) -> None:
    assert measure(model, data, config(max_tokens=10**9)) == measure(model, data, config())


def test_dropout_is_off_and_every_mode_is_put_back(model: LlamaForCausalLM, data: PreparedData) -> None:
    model.train()
    model.model.layers[0].eval()
    before = [module.training for module in model.modules()]
    first, second = (measure(model, data, config()) for _ in range(2))
    assert first == second == measure(model.eval(), data, config())
    model.train()
    model.model.layers[0].eval()
    measure(model, data, config())
    assert [module.training for module in model.modules()] == before


def test_half_precision_is_summed_in_float(model: LlamaForCausalLM, data: PreparedData) -> None:
    exact = measure(model, data, config())
    assert measure(model.bfloat16(), data, config()).nll == pytest.approx(exact.nll, rel=2e-2)


def test_result_is_json(model: LlamaForCausalLM, data: PreparedData) -> None:
    result = measure(model, data, config(split="validation"), progress=True)
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert result.to_dict()["split"] == "validation"
    assert result.to_dict()["context"] == 8


def test_hopeless_model_has_infinite_perplexity() -> None:
    result = perplexity._result(config(), [(2, 1e6)], size=0, words=0)
    assert (result.perplexity_token, result.perplexity_word, result.bits_per_byte) == (math.inf,) * 3


def test_context_longer_than_the_model(model: LlamaForCausalLM, data: PreparedData) -> None:
    with pytest.raises(UserError, match=r"context of 65 tokens is longer than the model's 64: use at most 64"):
        measure(model, data, config(context=65))


def test_split_shorter_than_a_context(model: LlamaForCausalLM, data: PreparedData) -> None:
    model.config.max_position_embeddings = 10**6
    with pytest.raises(UserError, match="do not fill one context of 100000: give more text or a smaller context"):
        measure(model, data, config(context=100_000))


def test_model_of_a_smaller_vocabulary(model: LlamaForCausalLM, data: PreparedData) -> None:
    with pytest.raises(UserError, match="prepare it with the model's own tokenizer"):
        measure(model, replace(data, vocab_size=data.vocab_size + 1), config())


def test_unknown_split(model: LlamaForCausalLM, data: PreparedData) -> None:
    with pytest.raises(UserError, match="there is no split"):
        measure(model, data, config(split="dev"))


@pytest.mark.parametrize("fields", [{"context": 0}, {"batch_size": 0}, {"max_tokens": 0}])
def test_config_is_validated(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        config(**fields)


@pytest.mark.parametrize("windows", [1, 7, 100, 101, 1234])
def test_parts_are_the_text_in_order(windows: int) -> None:
    bounds = perplexity._bounds(windows)
    sizes = [end - start for start, end in pairwise(bounds)]
    assert (bounds[0], bounds[-1], len(sizes)) == (0, windows, min(windows, 100))
    assert max(sizes) - min(sizes) <= 1


def test_parts_add_up_and_are_what_each_part_gives_alone(model: LlamaForCausalLM, data: PreparedData) -> None:
    result = measure(model, data, config(max_tokens=43))
    assert (sum(result.part_tokens), result.part_tokens) == (43, [8, 8, 8, 8, 8, 3])
    assert sum(result.part_nll) == pytest.approx(result.nll)
    first = measure(model, data, config(max_tokens=8))
    assert first.part_nll == pytest.approx(result.part_nll[:1])
