from __future__ import annotations

import logging
from pathlib import Path

import datasets
import pytest
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

from diffattn.data import load_corpus
from diffattn.data.text_files import read_text
from diffattn.data.wikitext import text_of_rows
from diffattn.errors import UserError

WIKITEXT = Path(__file__).resolve().parents[3] / "shared" / "data" / "wikitext-2"
CLIENT_ERROR = HfHubHTTPError.__bases__[0]
FAILURES = [
    ConnectionError("Couldn't reach 'Salesforce/wikitext' on the Hub\nand more"),
    CLIENT_ERROR("name not known"),
    OfflineModeIsEnabled("Offline mode is enabled."),
    LocalEntryNotFoundError("not on disk"),
    datasets.exceptions.DatasetNotFoundError("not on the Hub"),
    datasets.exceptions.DatasetGenerationError("generation failed"),
    ValueError("Couldn't find cache for Salesforce/wikitext for config 'wikitext-2-v1'"),
    TimeoutError(),
]


def serve(monkeypatch: pytest.MonkeyPatch, answer) -> None:
    def load_dataset(*arguments: str) -> object:
        assert arguments == ("Salesforce/wikitext", "wikitext-2-v1")
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_without_network_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    serve(monkeypatch, failure)
    level = logging.getLogger("huggingface_hub").level
    with pytest.raises(UserError, match="connect to the network") as caught:
        load_corpus("wikitext-2")
    assert "\n" not in str(caught.value)
    assert logging.getLogger("huggingface_hub").level == level


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, ValueError("a fault of ours"))
    with pytest.raises(ValueError, match="a fault of ours"):
        load_corpus("wikitext-2")


def test_rows_become_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ["", " = A = \n", "", " text \n", " = B = \n"]
    serve(monkeypatch, {split: {"text": rows} for split in ("train", "validation", "test")})
    loaded = load_corpus("wikitext-2")
    assert loaded.name == "wikitext-2"
    assert loaded.splits["validation"] == [" \n = A = \n \n text \n", " = B = \n"]


@pytest.mark.skipif(not WIKITEXT.is_dir(), reason="WikiText-2 is not beside this repository")
def test_rows_of_the_hub_give_the_original_file() -> None:
    text = read_text(WIKITEXT / "test.txt.gz")
    lines = [f"{line}\n" for line in text.split("\n")[:-1]]
    assert text_of_rows("" if line.isspace() else line for line in lines) == text
