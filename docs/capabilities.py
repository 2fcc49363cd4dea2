"""The table of `docs/backends.md` that says which backend serves which call, made by `diffattn.explain_backends`.

python docs/capabilities.py            prints the table
python docs/capabilities.py --write    writes it into docs/backends.md, between the `capabilities` markers
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from diffattn import BackendReport, explain_backends

PAGE = Path(__file__).parent / "backends.md"
BEGIN, END = "<!-- capabilities -->", "<!-- /capabilities -->"
# A cost or reason longer than this, in characters, stands below the table, and its number in the table.
LONGEST_IN_A_CELL = 24
B, H, Hkv, T, D = 2, 4, 2, 6, 8


class Call(NamedTuple):
    """One row: q1, q2, k, v, lam, and the keyword arguments of `diff_attention`."""

    name: str
    tensors: tuple[Any, ...]
    arguments: dict[str, Any]


def call(
    name: str,
    *,
    Hn: int = H,
    Tq: int = T,
    pair: bool = False,
    Dv: int = D,
    dtype: torch.dtype = torch.float32,
    lam: Tensor | float = 0.5,
    **arguments: Any,
) -> Call:
    """A call on `T` keys; `pair`: a key for each map."""
    generator = torch.Generator().manual_seed(0)
    shapes = (B, H, Tq, D), (B, Hn, Tq, D), (B, Hkv, T, 2 * D if pair else D), (B, Hkv, T, Dv)
    tensors = (torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)
    return Call(name, (*tensors, lam), arguments)


def drawn(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


PADDING = torch.arange(T) >= torch.tensor([[0], [2]])
DOCUMENTS = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 2]])
PACKED: dict[str, Any] = {"segment_ids": (DOCUMENTS, DOCUMENTS)}
LENGTHS: dict[str, Any] = {"k_lengths": torch.tensor([T, T - 2])}
BY_HEAD_AND_QUERY: dict[str, Any] = {"mask": drawn(B, H, T, T) > 0.4}

CALLS = (
    call("V2, causal", causal=True),
    call("V1 (a key for each map)", pair=True, Dv=2 * D),
    call("grouped noise heads", Hn=2),
    call("cross attention", Tq=4, causal=False),
    call("fewer queries than keys", Tq=4),
    call("decoding, one query", Tq=1),
    call("causal window", window=3),
    call("two-sided window", causal=False, window=(2, 1)),
    call("packed documents (`segment_ids`)", **PACKED),
    call("key padding", mask=PADDING),
    call("mask by head and query", causal=False, **BY_HEAD_AND_QUERY),
    call("`k_lengths`", **LENGTHS),
    call("all restrictions together", causal=True, window=4, **BY_HEAD_AND_QUERY, **LENGTHS, **PACKED),
    call("values of another width", Dv=2 * D + 3),
    call("dropout", dropout_p=0.1),
    call("float64", dtype=torch.float64),
    call("bfloat16", dtype=torch.bfloat16),
    call("float16", dtype=torch.float16),
    call("`lam` per token and head", lam=drawn(B, H, T)),
)


def explain(row: Call) -> BackendReport:
    return explain_backends(*row.tensors, **row.arguments)


def table() -> str:
    """The table in Markdown, a row a call, and its notes."""
    reports = [explain(row) for row in CALLS]
    names, notes = list(reports[0].reasons), list[str]()
    lines = [["call", *(f"`{name}`" for name in names), "`auto` takes"], ["---"] * (len(names) + 2)]
    for row, report in zip(CALLS, reports, strict=True):
        lines.append([row.name, *(cell(report, name, notes) for name in names), f"`{report.auto}`"])
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    below = "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))
    return f"{rows}\n\n{below}" if notes else rows


def cell(report: BackendReport, name: str, notes: list[str]) -> str:
    """What a backend says of a call; a long text becomes its number in `notes`, to which a new one is added."""
    reasons, cost = report.reasons[name], report.costs.get(name)
    if reasons:
        return "no: " + "; ".join(short(reason, notes) for reason in reasons)
    return f"yes, {short(cost, notes)}" if cost else "yes"


def short(text: str, notes: list[str]) -> str:
    text = " ".join(text.replace("|", "\\|").split())
    if len(text) <= LONGEST_IN_A_CELL:
        return text
    if text not in notes:
        notes.append(text)
    return f"note {notes.index(text) + 1}"


def with_table(page: str) -> str:
    """The page with the table made now between its markers."""
    made = f"{BEGIN}\n\n{table()}\n\n{END}"
    new, found = re.subn(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: made, page, flags=re.DOTALL)
    if found != 1:
        raise SystemExit(f"{PAGE.name}: expected one part between {BEGIN} and {END}, found {found}")
    return new


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Which backend serves which call, as a Markdown table.")
    parser.add_argument("--write", action="store_true", help="write it into docs/backends.md instead of printing it")
    if parser.parse_args(arguments).write:
        PAGE.write_text(with_table(PAGE.read_text()))
    else:
        print(table())


if __name__ == "__main__":
    main()
