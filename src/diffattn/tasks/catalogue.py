"""The tasks by name, with their common sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from diffattn.tasks.facts import FactsConfig, make_facts, vocabulary_size
from diffattn.tasks.orders import ORDERS
from diffattn.tasks.task import Task, TokenForm
from diffattn.tasks.texts.classification import classification_texts
from diffattn.tasks.texts.documents import document_texts
from diffattn.tasks.texts.hallucination import absent_texts, citation_texts
from diffattn.tasks.texts.needles import city_texts
from diffattn.tasks.texts.records import key_value_texts, recall_texts
from diffattn.tasks.texts.ruler import RULER_NEEDLES, ruler_texts, tracking_texts
from diffattn.tasks.tokens import classification, documents, presets, recall, tracking

__all__ = ["TASKS"]


def _facts(config: Callable[[int, float | None], FactsConfig]) -> TokenForm:
    return TokenForm(config, make_facts, vocabulary_size)


def _gold(count: int, depth: float | None) -> int | None:
    return None if depth is None else round(depth * (count - 1))


def _token_documents(length: int, depth: float | None) -> documents.DocumentsConfig:
    count = max(length // 16, 1)
    facts = FactsConfig(length=16, keys=max(32, 2 * count), questions=1)
    return documents.DocumentsConfig(documents=count, gold=_gold(count, depth), titles=max(32, count), facts=facts)


def _token_shots(length: int, order: str) -> classification.ShotsConfig:
    each = max(length // 8, 1)
    return classification.ShotsConfig(each=each, members=max(32, 2 * each), order=order)


def _needles(placed: int, asked: int) -> Task:
    return Task(
        name="needle" if placed == 1 else f"needles_{placed}_{asked}",
        summary=f"{placed} magic numbers of cities hidden in a text, {asked} asked for",
        texts=partial(city_texts, placed=placed, asked=asked),
        tokens=_facts(lambda length, depth: presets.needles(length, placed, asked if depth is None else 1, depth)),
        haystacks=("filler", "text", "distractors"),
    )


def _ruler(name: str) -> Task:
    kind = RULER_NEEDLES[name]
    same = name.replace("single_1", "single")
    config = partial(_ruler_tokens, same) if same in presets.RULER_TOKENS else None
    return Task(
        name=name,
        summary=f"RULER: keys are {kind.keys}, values {kind.values}, {kind.placed * kind.each} hidden in "
        f"{kind.haystack}, {kind.asked * kind.each} asked for",
        texts=partial(ruler_texts, name=name),
        tokens=_facts(config) if config else None,
        haystacks=(kind.haystack,),
    )


def _ruler_tokens(name: str, length: int, depth: float | None) -> FactsConfig:
    depth = None if name == "niah_multiquery" else depth
    return presets.ruler(name, length, depth, keys=length if name == "niah_multikey_3" else 16)


def _many_shot(order: str) -> Task:
    form = TokenForm(
        lambda length, _: _token_shots(length, order),
        classification.make_shots,
        classification.shots_vocabulary_size,
    )
    return Task(
        name=f"many_shot_{order}",
        summary=f"classification in context, the examples' order {order}",
        texts=partial(classification_texts, order=order),
        tokens=form,
        takes_depth=False,
    )


_ALL = [
    *(_needles(placed, asked) for placed, asked in ((1, 1), (2, 2), (4, 2), (6, 2), (40, 2))),
    Task(
        name="key_values",
        summary="the value of a key in a JSON object of UUIDs",
        texts=key_value_texts,
        tokens=_facts(lambda length, depth: presets.key_values(length, _gold(length, depth))),
    ),
    Task(
        name="documents",
        summary="a question that one of many documents answers",
        texts=document_texts,
        tokens=TokenForm(_token_documents, documents.make_documents, documents.documents_vocabulary_size),
    ),
    Task(
        name="absent",
        summary="a magic number that the text does not hold in half of the cases; there the answer is NONE",
        texts=absent_texts,
        tokens=_facts(lambda length, depth: FactsConfig(length=length, depth=depth, absent=0.5)),
        haystacks=("filler", "text", "distractors"),
    ),
    Task(
        name="citation",
        summary="a count and the id of its source, among sources of other years",
        texts=citation_texts,
        tokens=_facts(lambda length, depth: FactsConfig(length=length, facts=4, depth=depth, near_duplicates=3)),
        haystacks=("filler", "text", "distractors"),
    ),
    Task(
        name="recall",
        summary="several keys of one list asked for (multi-query associative recall); as tokens without a depth",
        texts=recall_texts,
        tokens=TokenForm(
            lambda length, _: recall.RecallConfig(length=length), recall.make_recall, recall.recall_vocabulary_size
        ),
    ),
    *map(_ruler, RULER_NEEDLES),
    Task(
        name="tracking",
        summary="RULER: all variables that hold a value, through four copies; as tokens two, and without a depth",
        texts=tracking_texts,
        tokens=TokenForm(
            lambda length, _: tracking.TrackingConfig(length=length),
            tracking.make_tracking,
            tracking.tracking_vocabulary_size,
        ),
        haystacks=("filler", "text", "distractors"),
    ),
    *map(_many_shot, ORDERS),
]

TASKS = {task.name: task for task in _ALL}
"""All tasks by name."""
