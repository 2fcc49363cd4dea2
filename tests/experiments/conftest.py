from __future__ import annotations

import pytest

from tiny import one_thread, write_corpus


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("tiny") / "words")
