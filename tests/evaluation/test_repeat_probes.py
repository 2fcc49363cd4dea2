from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from diffattn.errors import UserError
from diffattn.evaluation.repeat_probes import make_probes, repeat_start, shortest_length


@dataclass
class Stream:
    """A corpus of given tokens."""

    ids: np.ndarray
    bos: int | None = None

    @property
    def tokenizer(self):
        return SimpleNamespace(bos_token_id=self.bos)

    def tokens(self, split):
        assert split == "test"
        return self.ids


def text(length=500, vocabulary=40):
    return np.random.default_rng(0).integers(1, vocabulary, length).astype(np.uint16)


def contains(stream, part):
    return any((stream[i : i + len(part)] == part).all() for i in range(len(stream) - len(part) + 1))


@pytest.mark.parametrize("bos", [None, 99])
@pytest.mark.parametrize(("length", "span"), [(10, 4), (11, 4), (18, 8), (19, 8), (64, 8), (101, 5), (6, 2)])
def test_the_end_repeats_what_stands_before_the_answer(length, span, bos):
    depths = (0.0, 0.25, 0.5, 0.9, 1.0)
    probes = make_probes(Stream(text(), bos), "test", length, depths, 3, span, seed=1)
    assert probes.tokens.shape == (15, length)
    assert probes.tokens.dtype == np.int64
    assert probes.depths.tolist() == [depth for depth in depths for _ in range(3)]
    for tokens, answer in zip(probes.tokens.tolist(), probes.answers.tolist(), strict=True):
        assert tokens[answer - span : answer] == tokens[-span:]
        assert [i for i in range(length) if tokens[i : i + span] == tokens[-span:]] == [answer - span, length - span]
        assert answer - span >= 1
        assert answer < length - span
        context = tokens[:-span] if bos is None else tokens[1:-span]
        assert (tokens[0] == bos) == (bos is not None)
        assert contains(text(), np.array(context))


def test_depths_fill_the_room():
    length, span = 64, 8
    probes = make_probes(Stream(text()), "test", length, (0.0, 0.5, 1.0), 1, span, seed=0)
    assert probes.answers.tolist() == [1 + span, 1 + 23 + span, length - span - 1]
    assert shortest_length(span) == 18
    assert [repeat_start(18, span, depth) for depth in (0, 0.5, 1)] == [1, 1, 1]


def test_places_differ_and_follow_from_the_seed():
    def tokens(seed, length=30, depths=(0.0, 1.0)):
        return make_probes(Stream(text()), "test", length, depths, 6, 4, seed=seed).tokens

    assert (tokens(5) == tokens(5)).all()
    assert (tokens(5) != tokens(6)).any()
    assert (tokens(5)[6:] == tokens(5, depths=(1.0,))).all()
    assert (tokens(5)[:6, :20] != tokens(5)[6:, :20]).any()
    everywhere = make_probes(Stream(text()), "test", 497, (0.5,), 8, 4, seed=0)
    assert len({tuple(row[:20]) for row in everywhere.tokens.tolist()}) == 8  # there are no more than 8 places


def test_text_that_cannot_be_probed():
    with pytest.raises(UserError, match=r"500 tokens, too few for 4 probes of 505: give more text or a smaller length"):
        make_probes(Stream(text()), "test", 505, (0.5,), 4, 4, seed=0)
    assert make_probes(Stream(text()), "test", 501, (0.5,), 4, 4, seed=0).tokens.shape == (4, 501)
    with pytest.raises(UserError, match="stretches of 4 tokens are not unique within 30"):
        make_probes(Stream(np.tile(np.arange(1, 6), 100)), "test", 30, (0.5,), 4, 4, seed=0)
