"""The self-contained web page about a results file, and the table that the terminal shows too."""

from __future__ import annotations

from diffattn.report.html import render, write_report
from diffattn.report.table import COLUMNS, Cell, Column, rows

__all__ = ["COLUMNS", "Cell", "Column", "render", "rows", "write_report"]
