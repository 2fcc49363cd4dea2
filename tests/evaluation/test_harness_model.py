from __future__ import annotations

import pytest

from diffattn.data import Corpus, prepare
from diffattn.errors import UserError
from diffattn.evaluation import PerplexityConfig, perplexity
from questions import build

pytest.importorskip("lm_eval", reason="lm_eval is not installed: pip install 'diffattn[eval]'")

VARIANTS = ("softmax", "v1", "v2")


def wrapped(model, data, batch_size=3):
    from diffattn.evaluation.harness_model import HarnessModel

    return HarnessModel(model, data.tokenizer, batch_size, progress=False)


def requests(kind, *arguments):
    from lm_eval.api.instance import Instance

    return [
        Instance(request_type=kind, doc={}, arguments=one, idx=0, metadata=("a task", index, 1))
        for index, one in enumerate(arguments)
    ]


@pytest.mark.parametrize("variant", VARIANTS)
def test_generation_does_not_depend_on_the_batch(variant, model, data):
    texts = ["the dog", "a", "the cat sat on the mat and the dog sat"]
    asked = [(text, {"until": [], "do_sample": False, "max_gen_toks": 6}) for text in texts]
    built = build(model, variant)
    alone = wrapped(built, data, 1).generate_until(requests("generate_until", *asked))
    assert wrapped(built, data, 3).generate_until(requests("generate_until", *asked)) == alone
    assert len(set(alone)) > 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_likelihoods_are_those_of_our_own_measure(variant, model, data, tmp_path):
    """A text of exactly three contexts: the harness's windows are then ours."""
    built = build(model, variant)
    context = built.config.max_position_embeddings
    tokens = data.tokenizer("the mat sat on a cat\n" * 60, add_special_tokens=False)["input_ids"][: 3 * context]
    text = data.tokenizer.decode(tokens)
    assert data.tokenizer(text, add_special_tokens=False)["input_ids"] == tokens
    documents = {"train": [text], "validation": [text], "test": [text]}
    own = prepare(Corpus("own", documents), vocab_size=280, folder=tmp_path, progress=False, tokenizer=data.tokenizer)
    config = PerplexityConfig(context=context, max_tokens=3 * context)
    expected = perplexity.measure(built, own, config)
    assert expected.tokens == 3 * context
    (rolling,) = wrapped(built, data).loglikelihood_rolling(requests("loglikelihood_rolling", (text,)))
    assert rolling == pytest.approx(-expected.nll, rel=1e-5)
    start = data.tokenizer.decode(tokens[:context])
    ((one, _),) = wrapped(built, data).loglikelihood(requests("loglikelihood", ("", start)))
    assert one == pytest.approx(-expected_first(built, own, context), rel=1e-5)


def expected_first(model, own, context):
    return perplexity.measure(model, own, PerplexityConfig(context=context, max_tokens=context)).nll


def test_what_is_cut_is_counted(model, data):
    model.config.max_position_embeddings = 16
    lm = wrapped(model, data)
    long, short = "the dog sat on the mat and " * 3, "the dog"
    lm.loglikelihood(requests("loglikelihood", (long, " sat"), (short, " sat")))
    assert lm.cut["a task"] == 1
    settings = {"until": [], "max_gen_toks": 4}
    lm.generate_until(requests("generate_until", (long, settings), (short, settings)))
    assert lm.cut["a task"] == 2
    with pytest.raises(UserError, match="a task generates up to 16 tokens, and the model has no more than 16"):
        lm.generate_until(requests("generate_until", (short, {"max_gen_toks": 16})))


@pytest.mark.parametrize(("words", "cut"), [(15, 0), (16, 1)])
def test_a_context_is_used_to_its_last_token(words, cut, model, data):
    """A start token and the words; the last one is only predicted."""
    model.config.max_position_embeddings = 16
    lm = wrapped(model, data)
    context = " the" * words
    assert len(data.tokenizer(context)["input_ids"]) == 1 + words
    lm.loglikelihood(requests("loglikelihood", (context, " the")))
    assert lm.cut["a task"] == cut
