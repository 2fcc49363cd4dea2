"""What docs/ says is so: the table of backends is the one made now, and its calls are served as it says."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import statistics
from pathlib import Path

import pytest
import torch
from torch import Tensor

from diffattn import UnsupportedBackendError, diff_attention

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NOT_OF_SIGHT = {"scale", "dropout_p", "backend"}


def load():
    spec = importlib.util.spec_from_file_location("capabilities", DOCS / "capabilities.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


capabilities = load()
ROWS = pytest.mark.parametrize("row", capabilities.CALLS, ids=lambda row: row.name)


def test_the_table_is_the_one_made_now():
    page = capabilities.PAGE.read_text()
    assert page == capabilities.with_table(page), "out of date: run python docs/capabilities.py --write"


def test_the_script_prints_and_writes(tmp_path, monkeypatch, capsys):
    capabilities.main([])
    printed = capsys.readouterr().out.strip()
    monkeypatch.setattr(capabilities, "PAGE", tmp_path / "page.md")
    capabilities.PAGE.write_text(f"before\n{capabilities.BEGIN} old {capabilities.END}\nafter\n")
    capabilities.main(["--write"])
    written = capabilities.PAGE.read_text()
    assert written == f"before\n{capabilities.BEGIN}\n\n{printed}\n\n{capabilities.END}\nafter\n"
    capabilities.PAGE.write_text("no markers")
    with pytest.raises(SystemExit, match=r"page\.md: expected one part between .* found 0"):
        capabilities.main(["--write"])


def test_cells_say_costs_and_reasons_and_notes_are_shared():
    long = "builds something that takes many words to say"
    report = capabilities.BackendReport(reasons={"a": [], "b": [], "c": ["x|y", long]}, costs={"b": long}, auto="a")
    notes: list[str] = []
    cells = [capabilities.cell(report, name, notes) for name in report.reasons]
    assert cells == ["yes", "yes, note 1", r"no: x\|y; note 1"]
    assert notes == [long]


def test_names_differ_and_every_restriction_is_in_a_call():
    names = [row.name for row in capabilities.CALLS]
    assert len(set(names)) == len(names)
    parameters = inspect.signature(diff_attention).parameters.values()
    sight = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - NOT_OF_SIGHT
    assert {"causal", "mask"} < sight
    missing = sight - {name for row in capabilities.CALLS for name in row.arguments}
    assert not missing, f"no call of docs/capabilities.py has {sorted(missing)}"


@ROWS
def test_what_the_table_says_is_so(row):
    report = capabilities.explain(row)
    assert report.auto == next(name for name, reasons in report.reasons.items() if not reasons)
    if not row.arguments.get("dropout_p"):
        exact, bound = exact_and_bound(row)
    for name, reasons in report.reasons.items():
        if reasons:
            with pytest.raises(UnsupportedBackendError):
                diff_attention(*row.tensors, **row.arguments, backend=name)
            continue
        out = diff_attention(*row.tensors, **row.arguments, backend=name)
        assert out.dtype == row.tensors[0].dtype
        if row.arguments.get("dropout_p"):
            assert dropped(row, out, name)
        else:
            assert ((out.double() - exact).abs() <= bound).all(), name


def exact_and_bound(row) -> tuple[Tensor, Tensor]:
    """The reference in float64, and what roundings may add to it, as shares of `A1 |V| + |lam| A2 |V|`.

    64 in float32 (float64 for float64 inputs); in the inputs' dtype the weights, each map's product and the result.
    """
    *tensors, lam = row.tensors
    q1, q2, k, v = (x.double() for x in tensors)
    lam = torch.as_tensor(lam).double()
    exact = diff_attention(q1, q2, k, v, lam, **row.arguments, backend="reference")
    size = diff_attention(q1, q2, k, v.abs(), -lam.abs(), **row.arguments, backend="reference")
    dtype = tensors[0].dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return exact, (64 * torch.finfo(wide).eps + 3 * torch.finfo(dtype).eps) * size


def dropped(row, out: Tensor, backend: str) -> bool:
    """Whether the output is finite and another than without dropout."""
    whole = diff_attention(*row.tensors, **{**row.arguments, "dropout_p": 0.0}, backend=backend)
    return bool(out.isfinite().all()) and out.shape == whole.shape and not torch.equal(out, whole)


def test_links_lead_somewhere():
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    assert links
    for page, link in links:
        path, _, heading = link.partition("#")
        if path.startswith("https://"):
            continue
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not heading or heading in headings(target), f"{page.name}: {link}"


def headings(page: Path) -> set[str]:
    """The names that Markdown gives to a page's headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_what_the_results_say_of_noise_is_in_their_files():
    text = (DOCS / "results" / "README.md").read_text()
    drawn = json.loads((DOCS / "results" / "noise" / "drawn" / "results.json").read_text())
    at = {(row["sweep"], row["x"], row["method"]): row["measures"]["signal_to_noise"] for row in drawn["rows"]}
    failing = at["failing", 4.0, "softmax"]
    assert f"({failing['closed_form']:,.0f} against {failing['value']:,.0f} at a strength of 4)" in text
    inside = [row["measures"]["signal_to_noise"]["inside"] for row in drawn["rows"] if row["holds"]]
    assert f"({sum(map(bool, inside))} settings)" in text
    for variant, heads in (("v2", 16), ("v1", 8)):
        results = json.loads((DOCS / "results" / "noise" / variant / "results.json").read_text())
        rows = [row for row in results["heads"] if row["length"] == 256]
        assert len(rows) == heads
        assert f".{100 * statistics.median(row['correlation'] for row in rows):.0f}" in text
        assert f"{sum(row['gain'] < 1 for row in rows)} of V{variant[1]}'s {heads}" in text
