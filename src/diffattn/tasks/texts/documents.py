"""Multi-document question answering with the place of the document that answers varied (Liu et al., arXiv:2307.03172).

Documents are about invented people and things of one kind, so that nothing can be known but what they say; all of a
prompt's documents are of the kind that is asked about, which makes the others distractors on the same subject.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from diffattn.tasks.examples import TextExample
from diffattn.tasks.names import Fresh
from diffattn.tasks.texts.prompts import Draft, TextRequest, longest

__all__ = ["document_texts"]

_HEAD = (
    "Answer the question at the end by the documents below. Only some of them, perhaps a single one, have to do with "
    "it.\n\n"
)


@dataclass(frozen=True)
class _Kind:
    """Sentences about `{name}`; each has a blank, filled with an invented name or a year, and a question for it."""

    facts: tuple[tuple[str, str], ...]


_KINDS = (
    _Kind(
        (
            ("{name} was a painter who was born in {new}.", "In which town was the painter {name} born?"),
            ("Most of the paintings hang in the {new} Museum.", "Which museum has most paintings by {name}?"),
            ("The first exhibition was in {year}.", "In which year was the first exhibition of {name}?"),
        )
    ),
    _Kind(
        (
            ("{name} is a river that rises in the hills of {new}.", "In which hills does the river {name} rise?"),
            (
                "Its longest bridge was finished in {year}.",
                "In which year was the longest bridge over {name} finished?",
            ),
            ("It flows into the bay of {new}.", "Into which bay does the river {name} flow?"),
        )
    ),
    _Kind(
        (
            ("{name} is a company that was founded in {year}.", "In which year was the company {name} founded?"),
            ("Its founder, {new}, led it for a decade.", "Who founded the company {name}?"),
            ("It has its seat in {new}.", "In which town has the company {name} its seat?"),
        )
    ),
    _Kind(
        (
            ("{name} is a comet that was first seen by {new}.", "Who first saw the comet {name}?"),
            ("It was seen for the last time in {year}.", "In which year was the comet {name} seen for the last time?"),
            ("It is named after the village of {new}.", "After which village is the comet {name} named?"),
        )
    ),
)


@dataclass(frozen=True)
class _Document:
    name: str
    sentences: tuple[str, ...]
    answers: tuple[str, ...]


def document_texts(request: TextRequest) -> list[TextExample]:
    """As many documents as fit, numbered from 1, in the form `Document [1](Title: ...) ...`.

    The one that answers stands at the request's depth: with n documents, it is number 1 + `round(depth * (n - 1))`. The
    span is that of the sentence with the answer.

    Raises:
        UserError: the length is too small for one document.
    """
    return [_documents(request, rng, depth) for rng, depth in request.generators("documents")]


def _documents(request: TextRequest, rng: random.Random, depth: float) -> TextExample:
    fresh = Fresh(rng)
    kind = rng.choice(_KINDS)
    fact = rng.randrange(len(kind.facts))
    gold = _document(kind, rng, fresh)
    tail = f"\n\nQuestion: {kind.facts[fact][1].format(name=gold.name)}\nAnswer:"
    others: list[_Document] = []

    def draft(n: int) -> Draft:
        others.extend(_document(kind, rng, fresh) for _ in range(n - len(others)))
        place = round(depth * n)
        return _draft([*others[:place], gold, *others[place:n]], place, gold.sentences[fact], tail)

    n = longest(lambda n: request.count(draft(n).prompt), request.length)
    return request.example(draft(n), [gold.answers[fact]])


def _document(kind: _Kind, rng: random.Random, fresh: Fresh) -> _Document:
    name = fresh.name()
    answers = [fresh.name() if "{new}" in text else str(rng.randrange(1800, 2020)) for text, _ in kind.facts]
    texts = [text for text, _ in kind.facts]
    filled = [text.format(name=name, new=new, year=new) for text, new in zip(texts, answers, strict=True)]
    return _Document(name, tuple(filled), tuple(answers))


def _draft(documents: list[_Document], place: int, fact: str, tail: str) -> Draft:
    lines = [
        f"Document [{i}](Title: {document.name}) {' '.join(document.sentences)}"
        for i, document in enumerate(documents, 1)
    ]
    before = len(_HEAD) + sum(len(line) + 1 for line in lines[:place])
    start = before + lines[place].index(fact, lines[place].index(") "))
    depth = place / max(len(documents) - 1, 1)
    return Draft(_HEAD + "\n".join(lines) + tail, ((start, start + len(fact)),), depth)
