from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from diffattn.data import Corpus, PreparedData, TokenBlocks, packing, prepare
from diffattn.data.encoding import _batches
from diffattn.errors import UserError

CORPUS = Corpus(
    "small",
    {
        "train": ["alpha beta gamma " * 50, "beta <|endoftext|> beta\n" * 20, "x" * 300],
        "validation": ["alpha beta\n" * 30],
        "test": ["zyzzyva zyzzyva\n" * 200, "alpha"],
    },
)


@pytest.fixture
def data(tmp_path: Path) -> PreparedData:
    return prepare(CORPUS, vocab_size=300, folder=tmp_path)


def test_stream_is_the_documents_each_after_its_separator(data: PreparedData) -> None:
    for split, documents in CORPUS.splits.items():
        stream = data.tokens(split)
        assert isinstance(stream, np.memmap)
        assert stream.dtype == np.uint16
        starts = np.flatnonzero(stream == 0)
        assert starts[0] == 0
        parts = [part[1:].tolist() for part in np.split(np.asarray(stream), starts[1:])]
        assert [data.tokenizer.decode(part) for part in parts] == documents
        assert data.corpus["splits"][split]["tokens"] == len(stream)


def test_read_only(data: PreparedData) -> None:
    with pytest.raises(ValueError, match="read-only"):
        data.tokens("train")[0] = 1


def test_summary_is_the_corpus_summary(data: PreparedData) -> None:
    tokens_removed = json.loads(json.dumps(data.corpus))
    for counts in tokens_removed["splits"].values():
        del counts["tokens"]
    assert tokens_removed == CORPUS.summary()


def test_tokenizer_learns_from_train_alone(data: PreparedData, tmp_path: Path) -> None:
    words = {data.tokenizer.decode([token]).strip() for token in range(data.vocab_size)}
    assert {"alpha", "beta"} <= words
    # Far more frequent than any word of train, but only in test: nothing longer than a pair of it is a token.
    assert not any(len(word) > 1 and word in "zyzzyva" for word in words)
    other = Corpus("other", CORPUS.splits | {"test": ["alpha"]})
    again = prepare(other, vocab_size=300, folder=tmp_path)
    assert again.tokenizer.get_vocab() == data.tokenizer.get_vocab()


def test_small_corpus_gives_a_smaller_vocabulary(tmp_path: Path) -> None:
    data = prepare(CORPUS, vocab_size=100_000, folder=tmp_path)
    assert data.vocab_size == len(data.tokenizer) < 1000
    assert data.tokens("train").max() < data.vocab_size


def test_wide_tokens_where_the_vocabulary_needs_them() -> None:
    assert packing._dtype(65_536) is np.uint16
    assert packing._dtype(65_537) is np.uint32


def test_taken_as_it_is_where_complete(data: PreparedData, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(packing, "_build", lambda *_: pytest.fail("built again"))
    renamed = replace(CORPUS, name="renamed")
    again = prepare(renamed, vocab_size=300, folder=tmp_path)
    assert again.folder == data.folder
    assert again.corpus == data.corpus | {"name": "renamed"}


def damage_tokens(folder: Path) -> None:
    (folder / "test.bin").write_bytes((folder / "test.bin").read_bytes()[:-2])


def damage_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def damage_manifest(folder: Path) -> None:
    (folder / "data.json").write_text("{")


def forge_manifest(folder: Path) -> None:
    (folder / "data.json").write_text('{"files": {}}')


def remove_all(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize("damage", [damage_tokens, damage_tokenizer, damage_manifest, forge_manifest, remove_all])
def test_half_written_is_made_again(data: PreparedData, tmp_path: Path, damage) -> None:
    before = {split: data.tokens(split).tolist() for split in CORPUS.splits}
    damage(data.folder)
    again = prepare(CORPUS, vocab_size=300, folder=tmp_path)
    assert {split: again.tokens(split).tolist() for split in CORPUS.splits} == before


def test_interruption_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(packing, "_write_manifest", interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare(CORPUS, vocab_size=300, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_process_that_was_faster_is_believed(data: PreparedData, tmp_path: Path) -> None:
    before = (data.folder / "data.json").stat().st_mtime_ns
    packing._build(CORPUS, 300, None, data.folder, False)
    assert (data.folder / "data.json").stat().st_mtime_ns == before
    assert list(tmp_path.iterdir()) == [data.folder]


def test_a_models_own_tokenizer_is_kept(data: PreparedData, tmp_path: Path) -> None:
    other = Corpus("other", CORPUS.splits | {"train": ["zyzzyva\n" * 99]})
    again = prepare(other, vocab_size=300, folder=tmp_path, tokenizer=data.tokenizer)
    assert again.tokenizer.get_vocab() == data.tokenizer.get_vocab()
    assert np.array_equal(again.tokens("test"), data.tokens("test"))
    assert again.folder not in (data.folder, prepare(other, vocab_size=300, folder=tmp_path).folder)


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be written .*: give another"):
        prepare(CORPUS, vocab_size=300, folder=tmp_path / "file")


def test_unknown_split(data: PreparedData) -> None:
    with pytest.raises(UserError, match="use train, validation or test"):
        data.tokens("dev")


def test_batches_hold_about_a_million_characters_and_mark_first_pieces() -> None:
    documents = ["line of text\n" * 300_000, "short", "short"]
    batches = list(_batches(documents))
    assert "".join(text for batch in batches for text, _ in batch) == "".join(documents)
    assert sum(first for batch in batches for _, first in batch) == 3
    assert max(sum(len(text) for text, _ in batch) for batch in batches) < 1_200_000


def test_long_documents_are_encoded_as_if_whole(tmp_path: Path) -> None:
    document = " one line of an article , with words \n \n = = Part = = \n" * 3000
    corpus = Corpus("long", CORPUS.splits | {"test": [document]})
    data = prepare(corpus, vocab_size=300, folder=tmp_path)
    assert data.tokens("test").tolist() == data.tokenizer(document)["input_ids"]


def test_blocks_tile_the_stream(data: PreparedData) -> None:
    stream = data.tokens("train")
    blocks = TokenBlocks(stream, 7)
    assert len(blocks) == len(stream) // 7
    joined = torch.cat([blocks[index]["input_ids"] for index in range(len(blocks))])
    assert joined.dtype == torch.int64
    assert joined.tolist() == stream[: len(blocks) * 7].tolist()
    assert torch.equal(blocks[-1]["labels"], blocks[len(blocks) - 1]["input_ids"])
    with pytest.raises(IndexError):
        blocks[len(blocks)]


def test_stream_shorter_than_a_context() -> None:
    stream = np.arange(10, dtype=np.uint16)
    assert len(TokenBlocks(stream, 10)) == 1
    with pytest.raises(UserError, match=r"10 tokens, less than one context of 11: give more text"):
        TokenBlocks(stream, 11)
    with pytest.raises(ValueError, match="at least 1"):
        TokenBlocks(stream, 0)
