from __future__ import annotations

import json
import math

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from diffattn.errors import UserError
from diffattn.evaluation.answers import AnswersConfig, measure, measure_grid
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.tasks import TextExample

WORDS = ["<pad>", "<eos>", "stop", "where", "what", "none", "paris", "rome", "12", "123", "oslo", "7"]
NEXT = {"where": "paris", "paris": "12", "12": "<eos>", "what": "none", "none": "123", "stop": "<eos>", "oslo": "7"}


def tokenizer():
    words = Tokenizer(WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


@pytest.fixture(params=["llama", "v2"])
def parrot(request):
    """A model whose next word is that of NEXT, whatever stood before: its attention and its mlp give nothing."""
    fields = {
        "vocab_size": len(WORDS),
        "hidden_size": 16,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 20,
        "bos_token_id": None,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    body = LlamaConfig(**fields)
    if request.param == "llama":
        model = LlamaForCausalLM(body)
    else:
        model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(body, "v2"))
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(len(WORDS), 16))
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            model.model.layers[0].get_submodule(name).weight.zero_()
        model.lm_head.weight.zero_()
        for word, then in NEXT.items():
            model.lm_head.weight[WORDS.index(then), WORDS.index(word)] = 1
    return model


def example(prompt, answers, **fields):
    return TextExample(prompt=prompt, answers=answers, spans=(), length=9, **{"max_new_tokens": 3, **fields})


EXAMPLES = [
    example("stop where", ("paris", "rome"), depth=0.0),  # paris 12: half of it
    example("what where", ("PARIS",), depth=0.1, false_answers=("1", "2")),
    example("rome stop stop where", ("paris",), depth=0.9, false_answers=("rome", "12")),
    example("what", ("12",), depth=0.9),  # none 123: refused, and 12 is not in 123
    example("stop what", ("none",), answerable=False, max_new_tokens=1),
    example("oslo what", ("none",), answerable=False, false_answers=("123",)),
    example("oslo", ("none",), answerable=False),
]


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_every_rate_by_hand(parrot, batch_size):
    config = AnswersConfig(batch_size=batch_size, depths=(0.0, 1.0))
    result = measure(parrot.train(), EXAMPLES, config, tokenizer=tokenizer())
    assert [text.split() for text in result.continuations][:5] == [["paris", "12"]] * 3 + [["none", "123"], ["none"]]
    rates = result.rates
    assert (rates.accuracy.share, rates.accuracy.questions) == ((0.5 + 1 + 1 + 0) / 4, 4)
    assert [at.accuracy.share for at in rates.by_depth] == [0.75, 0.5]
    assert (rates.refusal.share, rates.refusal.questions) == (1 / 4, 4)
    assert (rates.fabrication.share, rates.fabrication.questions) == (pytest.approx(2 / 3), 3)
    assert (rates.false_citation.share, rates.false_citation.questions) == (pytest.approx(2 / 3), 3)
    assert (result.longest, parrot.training) == (4, True)
    assert json.loads(json.dumps(result.to_dict()))["rates"]["accuracy"]["share"] == 0.625


def test_the_grid(parrot):
    data = {30: EXAMPLES[2:4], 4: EXAMPLES[:2]}
    grid = measure_grid(parrot, data, AnswersConfig(depths=(0.0, 1.0)), tokenizer=tokenizer())
    assert grid.lengths == (4, 30)
    assert [[cell.share for cell in row] for row in grid.cells] == [[0.75, None], [None, 0.5]]
    assert grid.rates[0].refusal is None


def test_the_word_for_no_answer_may_be_given(parrot):
    rates = measure(parrot, EXAMPLES[:2], AnswersConfig(none_text="Paris"), tokenizer=tokenizer()).rates
    assert rates.refusal.share == 1


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_model_whose_logits_are_no_numbers_diverged(parrot, batch_size):
    with torch.no_grad():
        parrot.model.embed_tokens.weight[WORDS.index("oslo")] = math.nan
    config = AnswersConfig(batch_size=batch_size, depths=(0.0, 1.0))
    assert not measure(parrot, EXAMPLES[:2], config, tokenizer=tokenizer()).rates.diverged
    rates = measure(parrot, EXAMPLES, config, tokenizer=tokenizer()).rates
    assert rates.diverged
    assert [rates.accuracy.share, rates.fabrication.share, rates.by_depth[0].accuracy.share] == [None] * 3


def test_what_cannot_be_measured(parrot):
    long = example("stop " * 18, ("paris",))
    with pytest.raises(UserError, match="a prompt with its new tokens of 21 tokens is longer than the model's 20"):
        measure(parrot, [EXAMPLES[0], long], AnswersConfig(), tokenizer=tokenizer())
    with pytest.raises(ValueError, match="data: expected one example or more"):
        measure(parrot, [], AnswersConfig(), tokenizer=tokenizer())
    with pytest.raises(ValueError, match="none_text must not be empty"):
        AnswersConfig(none_text=" ")
