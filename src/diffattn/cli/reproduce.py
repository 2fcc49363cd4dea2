"""`diffattn reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffattn.cli.options import JsonFile, check_output, loading, report_console, resumable, write_report_json

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["command"]

_SHOWN = 20


def command(
    results: Annotated[Path, typer.Argument(help="A results.json of compare, experiment or noise.")],
    out: Annotated[
        Path | None, typer.Option(help="A folder for the new run.", show_default="reproduced beside the file's folder")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Runs of a study at a time.", show_default="one a core")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run what a results file holds again, and report every number that came out otherwise. Times, speeds and the
    machine are not compared. Another machine or another version rounds otherwise, and training makes much of it.

    \b
    Examples:
      diffattn reproduce runs/compare-quick-1a2b3c4d/results.json
      diffattn reproduce docs/results/stability/results.json --out runs/again --json differences.json
    """
    check_output(json_file)
    with loading():
        from diffattn.experiments.environment import command_line
        from diffattn.experiments.reproduce import reproduce
        from diffattn.experiments.studies.jobs import default_workers

    folder = out or results.absolute().parent.with_name(f"{results.absolute().parent.name}-reproduced")
    at_a_time = workers or default_workers()
    with resumable(command_line()):
        found = reproduce(results, folder, command=command_line(), workers=at_a_time)
    write_report_json(json_file, found)
    _show(report_console(json_file), found)


def _show(console: Console, found: dict[str, Any]) -> None:
    from diffattn.cli.tables import print_table

    for name in ("versions", "machine"):
        if name in found:
            before = found[name]["before"] or {}
            changed = {key: (before.get(key), now) for key, now in found[name]["now"].items()}
            words = [f"{key} {old} then, {new} now" for key, (old, new) in changed.items() if old != new]
            console.print(f"{name}: {'; '.join(words)}", markup=False)
    console.print(f"{found['numbers']:,} values compared, {found['differing']:,} differ", markup=False)
    if found["differing"]:
        console.print(f"largest relative difference {found['largest']:.3g}", markup=False)
        rows = [[e["at"], str(e["before"]), str(e["now"])] for e in found["differences"][:_SHOWN]]
        print_table(console, ["at", "before", "now"], rows)
