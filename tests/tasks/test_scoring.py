from __future__ import annotations

import pytest

from diffattn.tasks.scoring import holds, score_continuation


@pytest.mark.parametrize(
    ("continuation", "answer", "expected"),
    [
        ("It is 12.", "12", True),
        ("It is 123.", "12", False),
        ("It is 412", "12", False),
        ("x12", "12", False),
        ("12", " 12\n", True),
        ("in LONDON, as said", "London", True),
        ("from [A.7]", "[A.7]", True),
        ("from [Ax7]", "[A.7]", False),
        ("", "12", False),
        ("nonetheless", "none", False),
        ("at São Paulo!", "são paulo", True),
        ("a.b", "a?b", False),
    ],
)
def test_an_answer_stands_as_words_of_its_own(continuation, answer, expected):
    assert holds(continuation, answer) is expected


@pytest.mark.parametrize(
    ("continuation", "answers", "false_answers", "answerable", "expected"),
    [
        ("7, 8 and 9", ["7", "9", "5"], [], True, {"found": 2 / 3}),
        ("7 and 5", ["7"], ["5", "6"], True, {"found": 1.0, "false_citation": 1.0}),
        ("7", ["7"], ["5", "6"], True, {"found": 1.0, "false_citation": 0.0}),
        ("There is none.", ["NONE"], [], False, {"fabrication": 0.0}),
        ("It is 5", ["NONE"], ["5"], False, {"fabrication": 1.0, "false_citation": 1.0}),
        ("It is 4", ["NONE"], ["5"], False, {"fabrication": 1.0, "false_citation": 0.0}),
    ],
)
def test_each_kind_of_question_has_its_measures(continuation, answers, false_answers, answerable, expected):
    given = {"answers": answers, "false_answers": false_answers, "answerable": answerable}
    assert score_continuation(continuation, **given) == pytest.approx(expected)
