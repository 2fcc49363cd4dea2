from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from diffattn.data import load_corpus
from diffattn.data.text_files import documents_of
from diffattn.errors import UserError

TEXTS = {"train": "first line\nsecond\n", "valid": "third\r\n", "test": "vierte Zeile: ä\n"}


def folder(path: Path, suffix: str = ".txt") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in TEXTS.items():
        encoded = text.encode()
        (path / f"{name}{suffix}").write_bytes(gzip.compress(encoded) if suffix.endswith("gz") else encoded)
    return path


def refused(source: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_corpus(str(source))
    message = str(caught.value)
    assert "\n" not in message
    assert ": " in message
    return message


def test_gzip_and_plain_are_the_same_corpus(tmp_path: Path) -> None:
    plain, packed = (load_corpus(str(folder(tmp_path / s / "mine", s))) for s in (".txt", ".txt.gz"))
    assert plain == packed
    assert plain.sha256 == packed.sha256
    assert plain.splits == {"train": [TEXTS["train"]], "validation": [TEXTS["valid"]], "test": [TEXTS["test"]]}
    assert plain.name == "mine"


def test_a_folder_may_say_validation(tmp_path: Path) -> None:
    (folder(tmp_path) / "valid.txt").rename(tmp_path / "validation.txt")
    assert load_corpus(tmp_path).splits["validation"] == [TEXTS["valid"]]


def test_one_file_is_cut_in_order_and_nothing_is_lost(tmp_path: Path) -> None:
    lines = [f"line {index:03} of the file\n" for index in range(200)]
    (tmp_path / "book.txt").write_text("".join(lines))
    loaded = load_corpus(str(tmp_path / "book.txt"))
    assert loaded.name == "book"
    assert ["".join(documents).splitlines(keepends=True) for documents in loaded.splits.values()] == [
        lines[:180],
        lines[180:190],
        lines[190:],
    ]


def test_one_packed_file_of_many_documents_is_cut_between_them(tmp_path: Path) -> None:
    documents = [f"document {index:03}\nits end\n" for index in range(100)]
    (tmp_path / "tales.txt.gz").write_bytes(gzip.compress("<|endoftext|>".join(documents).encode()))
    loaded = load_corpus(str(tmp_path / "tales.txt.gz"))
    assert loaded.name == "tales"
    assert {split: len(parts) for split, parts in loaded.splits.items()} == {
        "train": 90,
        "validation": 5,
        "test": 5,
    }
    assert loaded.splits["test"][-1] == "document 099\nits end"


def test_wikitext_articles_are_documents_but_sections_are_not() -> None:
    articles = [" \n = One = \n \n text = 1 \n = = Section = = \n", " = Two = \n more \n"]
    assert documents_of("".join(articles)) == articles
    assert documents_of("x = 1\n = = Section = = \n") == ["x = 1\n = = Section = = \n"]


def test_nothing_there(tmp_path: Path) -> None:
    message = refused(tmp_path / "nowhere")
    assert "there is no corpus" in message
    assert "wikitext-2" in message
    refused(tmp_path / ("x" * 5000))


def test_folder_that_lacks_splits(tmp_path: Path) -> None:
    (folder(tmp_path) / "valid.txt").unlink()
    assert "lacks valid: it must hold" in refused(tmp_path)
    (tmp_path / "test.txt").unlink()
    assert "lacks valid and test" in refused(tmp_path)


def test_folder_with_a_split_twice(tmp_path: Path) -> None:
    folder(folder(tmp_path), ".txt.gz")
    assert "train.txt and train.txt.gz" in refused(tmp_path)


@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_empty_file(tmp_path: Path, content: bytes) -> None:
    (folder(tmp_path) / "test.txt").write_bytes(content)
    assert "test.txt is empty" in refused(tmp_path)
    (tmp_path / "alone.txt").write_bytes(content)
    assert "alone.txt is empty" in refused(tmp_path / "alone.txt")


def test_file_too_small_to_split(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one line only")
    assert "too small to split" in refused(tmp_path / "a.txt")


def test_files_that_are_not_text(tmp_path: Path) -> None:
    for name, content in {"latin.txt": b"caf\xe9 " * 9, "binary.txt": b"a\0b\n" * 9}.items():
        (tmp_path / name).write_bytes(content)
    assert "is not UTF-8 text (byte 3)" in refused(tmp_path / "latin.txt")
    assert "is a binary file" in refused(tmp_path / "binary.txt")


@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: packed[2:], lambda packed: packed[:30]])
def test_broken_gzip(tmp_path: Path, damage) -> None:
    packed = gzip.compress(os.urandom(500).hex().encode())
    (tmp_path / "a.txt.gz").write_bytes(damage(packed))
    assert "not a complete gzip file" in refused(tmp_path / "a.txt.gz")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    (tmp_path / "a.txt").chmod(0)
    assert "cannot be read (Permission denied)" in refused(tmp_path / "a.txt")
