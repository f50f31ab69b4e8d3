"""``loopguard explain``: why the guard said what it said at one event of a recording."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..printable import printable
from .commands import Commands
from .exits import Exit
from .given import settings_of
from .replay import FORMATS

if TYPE_CHECKING:
    from ..answers import Step
    from ..report.rows import Row
    from ..settings import Settings
    from ..transcripts import Placed, Source
    from .walk import Made, RunWalk, Walk


def add(commands: Commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "explain",
        help="say why the guard spoke at an event",
        description="Play a recording up to one event and say what the guard did there and why: what it counted, at "
        "which events, by which rule, and what would have reset the count.",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a file, also gzipped; - for standard input (default: that of --at)"
    )
    parser.add_argument(
        "--at",
        metavar="PLACE",
        type=place,
        required=True,
        help="FILE:LINE or :LINE, as reports print it; or the number of an event of the file, from 0, as the HTML page "
        "and, for one file, 'replay --json' have it",
    )
    parser.add_argument("--format", metavar="NAME", choices=FORMATS, default="auto", help="what the file is")
    parser.add_argument("--config", metavar="FILE", help="the gateway's JSON5 config file (default: all defaults)")
    parser.add_argument("--agent", metavar="ID", help="the agent whose settings count, where an event names none")
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True)
class At:
    """The place that ``--at`` names: the event of a file by its number, or those of a line, and the file if named."""

    event: int | None = None
    line: int | None = None
    file: str | None = None


def place(text: str) -> At:
    """What ``--at`` was given. Raises what argparse expects of a type."""
    if text.isdecimal():
        return At(event=int(text))
    file, colon, line = text.rpartition(":")
    if not colon or not line.isdecimal():
        raise argparse.ArgumentTypeError(f"expected the number of an event or FILE:LINE, got {text!r}")
    return At(line=int(line), file=file or None)


def run(arguments: argparse.Namespace) -> int:
    """Play up to the event, and tell."""
    from ..transcripts import Source, SourceError

    at: At = arguments.at
    file = arguments.file or at.file
    if file is None or (at.file is not None and not is_file(at.file, file)):
        why = "name a FILE, or FILE:LINE with --at" if file is None else f"--at names another file than {file}"
        print(f"loopguard explain: error: {why}", file=sys.stderr)
        return Exit.BAD_USAGE
    settings = settings_of(arguments.config)
    if settings is None:
        return Exit.BAD_USAGE
    try:
        with Source.open(file) as source:
            told = _played(source, settings, arguments)
    except SourceError as error:
        print(printable(f"{file}: {error}"), file=sys.stderr)
        return Exit.BAD_INPUT
    if told is None:
        return Exit.BAD_INPUT
    for line in told:
        print(printable(line))
    return Exit.OK


def is_file(printed: str, file: str) -> bool:
    """Whether a report that prints this name means this file, perhaps from another directory."""
    from ..report.text import whole
    from ..transcripts.source import STDIN

    if printed in (file, whole(file)) or (file == "-" and printed == STDIN):
        return True
    if os.path.exists(printed) and os.path.exists(file):
        return os.path.samefile(printed, file)
    return os.path.basename(printed) == os.path.basename(file)


def _played(source: Source, settings: Settings, arguments: argparse.Namespace) -> list[str] | None:
    """What there is to tell; None, said on stderr, where the recording has no such event.

    Of several events of one line, the first at which the guard spoke; where it spoke at none, the first.
    """
    from ..core.guard import Guard
    from ..transcripts import Placed, Talks, read
    from .walk import Walk

    at: At = arguments.at
    guard, walk = Guard(settings), Walk(settings)
    told: list[str] | None = None
    there: list[int] = []  # the events of the line
    i = chosen = 0
    for item in read(source, Talks((arguments.agent or "").strip() or None), arguments.format):
        if not isinstance(item, Placed):
            print(printable(f"{source.name}:{item.line}: {item.text}"), file=sys.stderr)
            continue
        step = guard.feed(item.event, 0.0)
        made = walk.take(i, item.event, step)
        if i == at.event:
            return list(explained_event(walk, i, item, step, made, source.name))
        if item.line == at.line:
            there.append(i)
            spoke = _spoke(i, item, step)
            if told is None or spoke:
                told, chosen = list(explained_event(walk, i, item, step, made, source.name)), i
            if spoke:
                break
        i += 1
    if told is None:
        what = f"there is no event {at.event}" if at.line is None else f"none of them stands at line {at.line}"
        print(f"{printable(source.name)}: has {i} events, numbered from 0; {what}", file=sys.stderr)
    elif len(there) > 1:
        others = ", ".join(str(one) for one in there if one != chosen)
        told.insert(1, f"other events of this line, up to here: {others}")
    return told


def _spoke(i: int, item: Placed, step: Step) -> bool:
    """Whether something fired at an event."""
    from ..report.rows import row
    from ..report.tally import FIRED

    answer = step.error if step.error is not None else step.answer
    return answer is not None and row(i, item.event, answer).action in FIRED


def explained_event(
    walk: Walk, i: int, item: Placed, step: Step, made: Made | None, name: str
) -> Iterator[str]:
    """What there is to tell of one event, line by line. ``made``: the call that it is about; ``name``: of the file."""
    from ..events import ToolCallSettled, ToolCallStarted
    from ..report.rows import row
    from ..report.text import plain

    event = item.event
    answer = step.error if step.error is not None else step.answer
    assert answer is not None
    line = row(i, event, answer)
    what = line.event
    if isinstance(event, (ToolCallStarted, ToolCallSettled)):
        what += f" of {plain(event.tool)}, call {plain(event.call_id)}"
    yield f"event {i} ({plain(name)}:{item.line}): {what}"
    yield f"session {plain(event.session_key)}, run {plain(event.run_id or '-')}"
    fired = f", {line.detector}, count {line.count}" if line.detector else ""
    yield f"the guard's answer: {line.action}{f' ({line.code})' if line.code else ''}{fired}"
    if line.message:
        yield f"  {line.message}"
    yield ""
    run = walk.run_of(event)
    if made is None:
        yield from _no_call(line)
    elif line.detector is None:
        yield from _quiet(walk, run, made, line)
    else:
        yield from _spoken(walk, run, made, line)


def _no_call(line: Row) -> Iterator[str]:
    """Compactions and user messages."""
    meaning = {
        "armed": "the context was compacted: the next calls of the run are watched (section 10 of the contract)",
        "ignored": "the context was compacted, but the guard after a compaction is off",
        "reset": "a user wrote: the counts of repeated tool errors of the session (section 4), of stale responses and "
        "of the calls of a turn (11.2) start anew",
    }
    yield f"why: {meaning[str(line.action)]}"


def _spoken(walk: Walk, run: RunWalk, made: Made, line: Row) -> Iterator[str]:
    """A note, a block or an end."""
    from ..answers import Detector
    from ..report.rows import Action
    from .reasons import latest_failure, streak
    from .rules import reset, rule

    detector = Detector(str(line.detector))
    warning = line.action is Action.NOTE
    guard = detector in (Detector.REPEATED_TOOL_ERROR, Detector.COMPACTION_LOOP_PERSISTED)
    subject = made
    if guard and run.ends and run.ends[-1][1].detector == detector:
        subject = _of_call(run, run.ends[-1][1].call_id) or made
    elif guard and not warning:  # the turn is to end, but not before what still runs has settled
        subject = latest_failure(run) or made
    elif not warning and run.blocks:
        subject = _of_call(run, run.blocks[-1][1].call_id) or made
    if subject is not made:
        yield f"why: not for this call, but for {subject.call.shown} (event {subject.at}) of the same response"
    else:
        yield "why:"
    message = walk.messages.get(line.session_key.strip())
    found, words = streak(run, subject, detector, line.count, warning=warning, message=message)
    for told in words:
        yield f"  {told}"
    if found != line.count:
        yield f"  ({line.count} is the guard's own count: it differs where events came late, twice or out of place)"
    if warning and made.started is not None and made.started != line.i:
        yield f"  judged when the call started, at event {made.started}; the note comes with its result"
    if line.code == "tool_loop_persisted" or (not guard and not warning and len(run.blocks) > 1):
        first, fact = run.blocks[0]
        yield f"  a batch of this run had been blocked before, at event {first} ({fact.detector}): the run survives one"
    yield f"rule: {rule(run, subject, detector, warning=warning)}"
    yield f"reset: {reset(run, subject, detector, warning=warning)}"


def _quiet(walk: Walk, run: RunWalk, made: Made, line: Row) -> Iterator[str]:
    """Nothing fired: how far the counts are."""
    from ..report.rows import Action
    from .reasons import counted, equal_outcomes, numbers, results

    if line.action is Action.IGNORED or made.vetoed:
        blocked = run.blocks[-1][0] if run.blocks else made.at
        yield f"why: this call had been blocked at event {blocked}; its settlement changes nothing"
        return
    yield "why: no rule matched"
    equal, vetoes = equal_outcomes(run, made)
    policy = run.limits.policy(made.call.tool)
    bounds = run.limits if policy is None else policy
    if not run.limits.rolling:
        yield "  the rolling detectors are off: tools.loopDetection.enabled is not true"
    same = [one for one in run.before(made) if one.call.key == made.call.key]
    history = run.limits.history_size
    yield f"  {counted(len(same), 'earlier call')} with these arguments among the last {history} of the run"
    if same:
        note = f"; a note comes at {bounds.warning}" if run.limits.rolling else ""
        yield f"    started at events {numbers(one.at for one in same)}{note}"
    if equal:
        streak = f"{len(equal) + len(vetoes)} without progress, results at events {results(equal)}"
        yield f"    of these {streak}{f'; a block comes at {bounds.critical}' if run.limits.rolling else ''}"
    if made.failed:
        from .reasons import failures

        for told in failures(run, made, walk.messages.get(line.session_key.strip()))[1]:
            yield f"  {told}"


def _of_call(run: RunWalk, call_id: str) -> Made | None:
    """The newest call of that id; of a batch that came as a list it need not have started."""
    return next((one for one in (*reversed(run.made), *run.listed) if one.call_id == call_id), None)
