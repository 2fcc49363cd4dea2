"""The task files and what they name, without the harness itself."""

from __future__ import annotations

import re

import pytest
import yaml
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from diffattn.errors import UserError
from diffattn.tasks import TASKS, Haystack, make_texts
from diffattn.tasks.harness import FOLDER, PREFIX, documents


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A folder with a tokenizer of one token a character."""
    backend = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Split(pattern="", behavior="isolated")
    folder = tmp_path_factory.mktemp("tokenizer")
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?").save_pretrained(folder)
    return str(folder)


def test_every_text_task_has_its_file():
    named = {}
    for path in FOLDER.glob("*.yaml"):
        fields = yaml.safe_load(path.read_text())
        assert fields["include"] == "_base_yaml"
        named[fields["task"]] = fields["dataset_kwargs"]["text_task"]
    assert named == {PREFIX + name: name for name, task in TASKS.items() if task.texts}


def test_what_the_files_name_exists():
    names = re.findall(r"!function (\S+)\.(\w+)", (FOLDER / "_base_yaml").read_text())
    assert ("diffattn.tasks.harness.documents", "make") in names
    for module, function in names:
        code = (FOLDER / f"{module.rpartition('.')[2]}.py").read_text()
        assert re.search(rf"^(def|class) {function}\(", code, re.MULTILINE)


def test_documents_are_the_tasks_examples(tokenizer):
    made = documents.make(
        text_task="needle", max_seq_lengths=[400, 300], depths=[0, 1], examples=3, seed=5, tokenizer=tokenizer
    )
    rows = made["test"].to_list()
    assert [row["asked_length"] for row in rows] == [400] * 6 + [300] * 6
    for length, depth, start in ((400, 0, 0), (400, 1, 3), (300, 0, 6), (300, 1, 9)):
        expected = make_texts("needle", len, length=length, depth=depth, examples=3, seed=5)
        for row, example in zip(rows[start : start + 3], expected, strict=True):
            assert row["prompt"] == example.prompt
            assert row["answers"] == list(example.answers)
            assert row["length"] == len(example.prompt) <= length
            assert row["max_new_tokens"] >= example.max_new_tokens
    assert len({row["max_new_tokens"] for row in rows[:6]}) == 1


def test_a_text_to_hide_in(tokenizer, tmp_path):
    text = "Storks are birds. Owls are too, öfter als man denkt. " * 40
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    given = {"max_seq_lengths": [500], "examples": 1, "pretrained": tokenizer}
    for name in ("needle", "niah_single_2"):
        (row,) = documents.make(text_task=name, haystack_text=str(tmp_path / "text.txt"), **given)["test"].to_list()
        (expected,) = make_texts(name, len, length=500, examples=1, seed=0, haystack=Haystack("text", text))
        assert row["prompt"] == expected.prompt
        assert "Storks are birds." in row["prompt"]
    # A task without a haystack of text keeps its own.
    (own,) = documents.make(text_task="niah_single_1", haystack_text=str(tmp_path / "text.txt"), **given)["test"]
    assert "Storks" not in own["prompt"]
    with pytest.raises(UserError, match="niah_single_2 hides its needles in a text: give one with --data"):
        documents.make(text_task="niah_single_2", **given)


def test_a_tokenizer_is_needed():
    with pytest.raises(UserError, match="--model_args pretrained=MODEL"):
        documents.make(text_task="needle")


def test_scores_are_given_for_each_length_too():
    doc = {"answers": ["7", "8"], "false_answers": ["9"], "answerable": True, "asked_length": 512}
    expected = {"found": 0.5, "false_citation": 1.0, "found_512": 0.5, "false_citation_512": 1.0}
    assert documents.score(doc, ["7 or 9"]) == expected
