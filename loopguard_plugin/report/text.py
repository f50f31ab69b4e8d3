"""The report for a terminal: what fired and where, then one line a run. Plain text, or rich tables where asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..printable import printable
from .rows import Action
from .tally import Finding, RunKey, RunTally, Tally

HEADINGS = ("action", "detector", "tool", "count", "times", "first at", "session", "run")
_RIGHT = ("count", "times")
_LONGEST = 60


def cells(finding: Finding) -> tuple[str, ...]:
    """One finding as the cells of a table row, in the order of :data:`HEADINGS`."""
    counts = str(finding.first_count)
    if finding.last_count != finding.first_count:
        counts += f"..{finding.last_count}"
    what = map(plain, (finding.action, finding.detector, finding.tool, counts, str(finding.times)))
    return *what, whole(finding.place), plain(finding.session_key), plain(finding.run_id or "-")


def table(findings: Sequence[Finding]) -> Iterator[str]:
    """The findings as aligned plain text."""
    rows = [HEADINGS, *map(cells, findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        padded = (
            cell.rjust(width) if heading in _RIGHT else cell.ljust(width)
            for cell, width, heading in zip(row, widths, HEADINGS, strict=True)
        )
        yield "  ".join(padded).rstrip()


def verdicts(tally: Tally) -> Iterator[str]:
    """One line a run, the worst first. Runs that called no tool are left out."""
    for key, run in tally.verdicts():
        yield f"{_name(key)}: {_verdict(run)}"


def _name(key: RunKey) -> str:
    session, run = key
    return plain(session) if run is None else f"{plain(session)} {plain(run)}"


def _verdict(run: RunTally) -> str:
    calls = _number(run.calls, "call")
    if run.strongest is None:
        return f"fine, {calls}"
    found = "" if run.detector == run.code else f"{run.detector}, "  # the two always-on guards are their own code
    what = f"{plain(run.tool)}, {found}count {run.count}, first at {whole(run.place)}"
    if run.strongest is Action.END_TURN:
        ended = "turn ended" if run.ends == 1 else f"{run.ends:,} turns ended"
        return f"{ended}, {calls}: {run.code} ({what}){after_end(run.further)}"
    if run.strongest is Action.BLOCK:
        return f"blocked and recovered, {calls}: {_number(run.blocks, 'call')} blocked ({what})"
    return f"noted, {calls}: {_number(run.notes, 'note')} ({what})"


def after_end(further: int) -> str:
    """How many calls came although their turn had ended; empty where none did."""
    return f", {further:,} more {'call' if further == 1 else 'calls'} after the end" if further else ""


def summary(tally: Tally, files: int) -> str:
    """The last line: how much was played, and how much fired."""
    quiet = sum(not run.calls for run in tally.runs.values())
    calls = sum(run.calls for run in tally.runs.values())
    without = f" ({quiet} without a call)" if quiet else ""
    fired = ", ".join(
        _number(tally.total(action), word)
        for action, word in ((Action.NOTE, "note"), (Action.BLOCK, "blocked call"), (Action.END_TURN, "end of turn"))
    )
    played = f"{_number(files, 'file')}, {_number(len(tally.runs), 'run')}{without}, {_number(calls, 'call')}"
    return f"{played}: {fired}{after_end(tally.further)}"


def amount(count: int) -> str:
    """A count of characters as people read it: 812, 4.1k, 2.6M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _number(count: int, word: str) -> str:
    plural = "ends of turns" if word == "end of turn" else f"{word}s"
    return f"{count:,} {word if count == 1 else plural}"


def plain(text: str) -> str:
    """Text from a transcript, safe on a terminal: one line, no control characters, not too long."""
    return whole(text if len(text) <= _LONGEST else f"{text[:20]}…{text[-(_LONGEST - 21) :]}")


def whole(text: str) -> str:
    """The same at its full length: a place that is to be copied."""
    return printable(text)
