"""The report on a terminal through rich (extra ``cli``): the sessions, the worst first, and what each detector did.

rich minds the terminal's width and ``NO_COLOR``. Where it is narrow, each session becomes a few lines instead of a row.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..printable import printable
from .rows import Action
from .tally import Finding, SessionTally, Sum, Tally
from .text import after_end, amount, plain, summary, verdicts, whole

_STYLES = {Action.NOTE: "yellow", Action.BLOCK: "red", Action.END_TURN: "bold red"}
_NARROW = 100  # columns below which a row would fold until nobody can read it
_MOST_FINE = 20  # verdicts of runs in which nothing fired


def show(tally: Tally, files: int, console: Console | None = None) -> None:
    """Print the whole report on standard output."""
    console = console or Console()
    worst = tally.worst()
    if worst:
        _show_sums(console, tally.by_detector())
        (_show_briefly if console.width < _NARROW else _show_sessions)(console, worst)
    fine = sum(run.strongest is None and run.calls > 0 for run in tally.runs.values())
    lines = list(verdicts(tally))
    shown = lines if fine <= _MOST_FINE else lines[: len(lines) - fine + _MOST_FINE]
    for line in shown:
        console.print(Text(printable(line)), soft_wrap=True)
    if len(shown) < len(lines):
        console.print(Text(f"… and {len(lines) - len(shown):,} more runs that are fine"))
    console.print(Text(summary(tally, files), style="bold"), soft_wrap=True)


def _show_sums(console: Console, sums: list[Sum]) -> None:
    """By detector and tool."""
    table = Table(box=None, pad_edge=False, title="By detector and tool", title_justify="left", title_style="bold")
    for heading in ("detector", "tool"):
        table.add_column(heading, overflow="fold")
    wide = console.width >= _NARROW
    for heading in ("notes", "blocks", "ends", *(("sessions", "highest") if wide else ())):
        table.add_column(heading, justify="right")
    for one in sums:
        counts = (one.notes, one.blocks, one.ends)
        styled = [
            Text(f"{count:,}" if count else "-", style=style if count else "dim")
            for count, style in zip(counts, _STYLES.values(), strict=True)
        ]
        rest = (Text(f"{len(one.sessions):,}"), Text(f"{one.highest:,}")) if wide else ()
        table.add_row(Text(one.detector), Text(plain(one.tool)), *styled, *rest)
    console.print(table)
    console.print()


def _show_sessions(console: Console, sessions: list[SessionTally]) -> None:
    table = Table(box=None, pad_edge=False, title="Sessions, the worst first", title_justify="left", title_style="bold")
    table.add_column("session", overflow="fold", max_width=40)
    for heading in ("calls", "notes", "blocks", "ends", "saved"):
        table.add_column(heading, justify="right")
    table.add_column("first finding", overflow="fold")
    for session in sessions:
        name, *numbers, first = _cells(session)
        table.add_row(Text(name), *map(Text, numbers), _styled(first, session.first))
    console.print(table)
    console.print(Text("saved: characters of results that the model would not have been given again", style="dim"))
    console.print()


def _show_briefly(console: Console, sessions: list[SessionTally]) -> None:
    """For a narrow terminal."""
    console.print(Text("Sessions, the worst first", style="bold"))
    for session in sessions:
        name, calls, notes, blocks, ends, saved, first = _cells(session)
        console.print(Text(name, style="bold"))
        told = f"{calls} calls, {notes} notes, {blocks} blocks, {ends} ends{after_end(session.further)}"
        console.print(Text(f"  {told}, {saved} characters saved"))
        console.print(_styled(f"  {first}", session.first))
    console.print()


def _cells(session: SessionTally) -> tuple[str, ...]:
    numbers = (session.calls, session.notes, session.blocks, session.ends)
    first = session.first
    what = "" if first is None else f"{first.detector} {first.first_count}, {plain(first.tool)}, {whole(first.place)}"
    return plain(session.session_key), *(f"{number:,}" for number in numbers), amount(session.saved), what


def _styled(text: str, finding: Finding | None) -> Text:
    return Text(text, style=_STYLES[finding.action] if finding is not None else "")
