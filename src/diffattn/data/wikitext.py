"""WikiText-2, word level, through Hugging Face `datasets`, restored to the original files byte for byte."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from diffattn.data.progress import delayed_progress
from diffattn.data.text_files import documents_of
from diffattn.errors import UserError

__all__ = ["read_splits", "text_of_rows"]

_REPOSITORY, _CONFIGURATION = "Salesforce/wikitext", "wikitext-2-v1"


def read_splits() -> dict[str, list[str]]:
    """Load WikiText-2 from the Hub or from `datasets`' cache; one article is one document.

    Source: S. Merity, C. Xiong, J. Bradbury, R. Socher, "Pointer Sentinel Mixture Models", 2016.

    Raises:
        UserError: it is neither reachable nor cached, or `datasets` is not installed.
    """
    dataset = _load()
    return {split: documents_of(text_of_rows(dataset[split]["text"])) for split in ("train", "validation", "test")}


def text_of_rows(rows: Iterable[str]) -> str:
    """Join the Hub's rows, one a line; there a blank line, " \\n" in the files, is the empty string."""
    return "".join(row or " \n" for row in rows)


def _load() -> Any:
    try:
        import datasets
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise UserError("wikitext-2 needs Hugging Face datasets: pip install 'diffattn[experiments]'") from error
    # ConnectionError and FileNotFoundError are OSErrors; the bases are those of the HTTP client, whichever it is.
    unreachable = (OSError, *HfHubHTTPError.__bases__, datasets.exceptions.DatasetsError)
    try:
        with _quiet_hub(), delayed_progress("Asking the Hugging Face Hub for wikitext-2", None):
            return datasets.load_dataset(_REPOSITORY, _CONFIGURATION)
    except unreachable as error:
        raise _unavailable(error) from error
    except ValueError as error:
        # How `datasets` says, without network, that only other configurations of the set are cached.
        if "Couldn't find cache" not in str(error):
            raise
        raise _unavailable(error) from error


def _unavailable(error: Exception) -> UserError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return UserError(
        f"wikitext-2 cannot be loaded ({reason}): connect to the network (one download is then cached), "
        "or give --data a folder with train, valid and test as .txt or .txt.gz"
    )


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Keep the Hub's client from printing two lines for each of its retries."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
