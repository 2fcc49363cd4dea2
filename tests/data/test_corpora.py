from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from diffattn.data import Corpus, load_corpus
from diffattn.data.corpora import count_words
from diffattn.data.stdlib import read_splits, split_of
from diffattn.errors import UserError

WIKITEXT = Path(__file__).resolve().parents[3] / "shared" / "data" / "wikitext-2"
needs_wikitext = pytest.mark.skipif(not WIKITEXT.is_dir(), reason="WikiText-2 is not beside this repository")
NOTICE = {
    "train": (10_797_148, 2_088_628, "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f"),
    "validation": (1_121_681, 217_646, "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"),
    "test": (1_256_449, 245_569, "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"),
}
LINES = {"train": 36_718, "validation": 3_760, "test": 4_358}


def corpus(**changes: list[str]) -> Corpus:
    return Corpus("small", {"train": ["one two\n"], "validation": ["three"], "test": ["four"]} | changes)


def test_summary_counts_what_is_there() -> None:
    summary = corpus(test=["äö x\n", "y"]).summary()
    assert summary["name"] == "small"
    assert summary["splits"]["test"] == {
        "documents": 2,
        "bytes": 8,
        "words": 4,
        "sha256": hashlib.sha256("äö x\ny".encode()).hexdigest(),
    }


def test_hash_sees_every_change_and_nothing_else() -> None:
    same = Corpus("another name", dict(reversed(corpus().splits.items())))
    assert same.sha256 == corpus().sha256
    others = [
        corpus(train=["one two"]),
        corpus(train=["one two\n", ""]),
        corpus(train=["one ", "two\n"]),
        corpus(validation=["four"], test=["three"]),
    ]
    assert len({corpus().sha256, *(other.sha256 for other in others)}) == 5


@pytest.mark.parametrize("empty", [[], [""], [" \n", "\t"]])
def test_split_without_text_is_refused(empty: list[str]) -> None:
    with pytest.raises(UserError, match="validation split of the corpus small holds no text"):
        corpus(validation=empty)


def test_missing_split_is_refused() -> None:
    with pytest.raises(UserError, match="test split"):
        Corpus("small", {"train": ["a"], "validation": ["b"]})


def test_stdlib_is_the_same_twice_and_large() -> None:
    first, second = load_corpus("stdlib"), load_corpus("stdlib")
    assert first.sha256 == second.sha256
    sizes = {split: counts["bytes"] for split, counts in first.summary()["splits"].items()}
    total = sum(sizes.values())
    assert total > 5_000_000
    assert 0.8 < sizes["train"] / total < 0.97
    assert min(sizes.values()) > 100_000


def library(root: Path) -> Path:
    for name in ("test/a", "json/tests/a", "idlelib/idle_test/a", "site-packages/a", "__pycache__/a", "config-3/a"):
        (root / name).parent.mkdir(parents=True)
        (root / f"{name}.py").write_text("left out")
    for index in range(200):
        (root / f"module{index}.py").write_text(f"# {index}\n")
    (root / "_sysconfigdata_x.py").write_text("left out")
    (root / "json" / "decoder.py").write_text("# nested\n")
    (root / "notes.txt").write_text("left out")
    (root / "empty.py").write_text("\n")
    (root / "latin.py").write_bytes(b"# \xe9\n")
    return root


def test_stdlib_leaves_out_tests_and_what_is_not_text(tmp_path: Path) -> None:
    splits = read_splits(library(tmp_path))
    texts = {f"module{index}.py": f"# {index}\n" for index in range(200)} | {"json/decoder.py": "# nested\n"}
    for split, documents in splits.items():
        assert documents == [texts[name] for name in sorted(texts) if split_of(name) == split]


def test_stdlib_split_depends_on_the_relative_name_alone(tmp_path: Path) -> None:
    first = read_splits(library(tmp_path / "one"))
    second = read_splits(library(tmp_path / "deeper" / "two"))
    assert first == second
    assert "# nested\n" in first[split_of("json/decoder.py")]
    # Pinned: a change of the hash would make old results incomparable.
    assert [split_of(name) for name in ("abc.py", "ast.py", "json/decoder.py")] == ["train", "test", "validation"]


def test_stdlib_without_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give --data a text file"):
        read_splits(tmp_path)


@needs_wikitext
def test_wikitext_is_what_its_notice_says() -> None:
    loaded = load_corpus(str(WIKITEXT))
    assert loaded.name == "wikitext-2"
    for split, (size, words, digest) in NOTICE.items():
        counts = loaded.summary()["splits"][split]
        assert (counts["bytes"], counts["words"], counts["sha256"]) == (size, words, digest)
        assert sum(document.count("\n") for document in loaded.splits[split]) == LINES[split]
        assert counts["words"] - LINES[split] == sum(len(document.split()) for document in loaded.splits[split])
        assert counts["documents"] > 50


def test_a_newline_is_a_word() -> None:
    assert count_words(" = Title = \n \n the end") == 7
