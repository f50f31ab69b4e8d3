"""The table of findings through rich (extra ``cli``): colours, and columns that fold on a narrow terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .rows import Action
from .tally import Finding
from .text import HEADINGS, cells

_STYLES = {Action.NOTE: "yellow", Action.BLOCK: "red", Action.END_TURN: "bold red"}


def show(findings: Sequence[Finding]) -> None:
    """Print the findings on standard output. rich minds the width of the terminal and ``NO_COLOR``."""
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in ("count", "times") else "left", overflow="fold")
    for finding in findings:
        action, *others = cells(finding)
        table.add_row(Text(action, style=_STYLES[finding.action]), *map(Text, others))
    Console().print(table)
