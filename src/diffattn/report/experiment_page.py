"""The web page about an experiment: its answer, what was expected beforehand, and all that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from diffattn.report.drawing import Drawing
from diffattn.report.experiment_charts import experiment_drawings
from diffattn.report.facts import facts
from diffattn.report.page import render_page
from diffattn.report.wording import MISSING, finite, quantity

__all__ = ["render_experiment"]

Results = dict[str, Any]

#: How an outcome is marked beside its word.
_SIGNS = {"supported": "✓", "contradicted": "✗", "not resolved": "?"}
_UNMEASURED = "not measured"
_LONG = 14


def render_experiment(results: Results, drawings: Sequence[Drawing] | None = None) -> str:
    """The page about `results` (what `diffattn experiment` stores as results.json when it ends) as text.

    `drawings`: those of the results, where they were made before. Whatever is missing is left out; a number that is
    missing or not finite is a dash.
    """
    protocol = results.get("protocol") or {}
    kind = " ".join(("diffattn experiment", str(results.get("experiment") or "")))
    return render_page(
        "experiment.html.j2",
        kind=kind.strip(),
        title=str(results.get("title") or kind.strip()),
        verdict=_sentences(results, "verdict"),
        written=_written(protocol, results),
        hypotheses=_hypotheses(protocol, results),
        rules=[(name, protocol[key]) for key, name in _RULES.items() if protocol.get(key)],
        drawings=experiment_drawings(results) if drawings is None else drawings,
        tables=[_table(table, place) for place, table in enumerate(results.get("tables") or (), 1)],
        failures=_sentences(results, "failures"),
        limits=_sentences(results, "limits"),
        facts=facts(results),
        command=results.get("command"),
    )


_RULES = {"stopping_rule": "Stopping rule", "analysis": "Analysis"}


def _sentences(results: Results, key: str) -> list[str]:
    return [str(sentence) for sentence in results.get(key) or () if sentence]


def _written(protocol: Results, results: Results) -> str:
    """When the hypotheses were written; that it was before the run is said only where the times show it."""
    written = protocol.get("written")
    if not written:
        return ""
    first, end, seconds = _time(written), _time(results.get("created")), finite(results.get("seconds"))
    if first is None or end is None or seconds is None:
        return f"Written {written}."
    if first > end:
        return f"Written {written}, after the run."
    # Times are whole seconds, so the run may have begun one later than they say.
    began = end - timedelta(seconds=seconds - 1)
    return f"Written {written}{', before the run' if first <= began else ''}."


def _time(text: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _hypotheses(protocol: Results, results: Results) -> list[dict[str, str]]:
    """Each hypothesis with its outcome, in the order in which they were written; then outcomes without one."""
    outcomes = {str(entry.get("hypothesis")): entry for entry in results.get("outcomes") or ()}
    found = []
    for entry in protocol.get("hypotheses") or ():
        name = str(entry.get("name"))
        found.append(_hypothesis(name, str(entry.get("text") or ""), outcomes.pop(name, {})))
    return [*found, *(_hypothesis(name, "Not among those written beforehand.", one) for name, one in outcomes.items())]


def _hypothesis(name: str, text: str, outcome: Results) -> dict[str, str]:
    word = str(outcome.get("outcome") or _UNMEASURED)
    return {
        "name": name,
        "text": text,
        "outcome": word,
        "sign": _SIGNS.get(word, MISSING),
        "class": word.replace(" ", "-") if word in _SIGNS else "unknown",
        "sentence": str(outcome.get("sentence") or ""),
    }


def _table(table: Results, place: int) -> Results:
    head = [str(title) for title in table.get("head") or ()]
    rows = [[_cell(cell) for cell in row] for row in table.get("rows") or ()]
    width = max(map(len, [head, *rows]))
    return {
        "id": f"table-{place}",
        "title": str(table.get("title") or table.get("name") or f"Table {place}"),
        "head": head + [""] * (width - len(head)),
        "rows": [row + [MISSING] * (width - len(row)) for row in rows],
        "long": len(rows) > _LONG,
        "note": str(table.get("note") or ""),
    }


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return MISSING if finite(value) is None else quantity(value)
    return MISSING if value is None else str(value)
