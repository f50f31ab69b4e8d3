"""Where does the time of a call go? A sampling profile of the core, by function and by line.

``python -m benchmarks.where [text|markup|blob|rows|tool] [size in bytes]``. Samples by processor time, so it hardly
slows what it looks at; a profiler that traces every call would make the small functions look worst.

``--opcodes`` counts instead: Python frames and bytecodes of a cycle, by function. The numbers are exact and the same
on every machine (of one version of Python); what C code does in between is not in them.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from . import ours
from .measure import Contender, pin, table
from .workload import Form, Shape, runs_of_calls

EVERY = 0.001
Where = tuple[str, str | int]
Tracer = Callable[[FrameType, str, object], Any]


class Profile:
    """Samples of a contender: alone and with all that a function calls, by function and by line."""

    def __init__(self) -> None:
        self.alone: Counter[Where] = Counter()
        self.within: Counter[Where] = Counter()
        self.lines: Counter[Where] = Counter()
        self.samples = 0

    def take(self, _signal: int, frame: FrameType | None) -> None:
        """One sample; the handler of SIGPROF."""
        if frame is None:
            return
        self.samples += 1
        self.alone[_function(frame)] += 1
        self.lines[(_file(frame), frame.f_lineno)] += 1
        callers = set()
        while frame is not None:
            callers.add(_function(frame))
            frame = frame.f_back
        self.within.update(callers)


def _file(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return f"{path.parent.name}/{path.name}"


def _function(frame: FrameType) -> Where:
    return _file(frame), frame.f_code.co_qualname


def sampled(contender: Contender, seconds: float = 4.0) -> tuple[Profile, float]:
    """A profile, and the mean microseconds of a cycle while it was taken."""
    pin()
    profile = Profile()
    signal.signal(signal.SIGPROF, profile.take)
    spent = 0.0
    cycles = 0
    while spent < seconds:
        timed = contender.prepare()
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
        start = time.process_time()
        timed()
        spent += time.process_time() - start
        signal.setitimer(signal.ITIMER_PROF, 0)
        cycles += contender.per
    return profile, spent / cycles * 1e6


def counted(contender: Contender) -> tuple[Counter[Where], Counter[Where]]:
    """Frames and bytecodes of one pass over the contender's cycles, by function; its own loop is left out."""
    frames: Counter[Where] = Counter()
    opcodes: Counter[Where] = Counter()
    timed = contender.prepare()
    own = getattr(timed, "__code__", None)

    def trace(frame: FrameType, event: str, _: object) -> Tracer | None:
        if event == "call":
            if frame.f_code is own:
                return None
            frames[_function(frame)] += 1
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            opcodes[_function(frame)] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        timed()
    finally:
        sys.settrace(before)
    return frames, opcodes


def opcodes_report(shape: Shape | None = None, most: int = 16) -> str:
    """The table of frames and bytecodes; a cycle is a start and a settlement."""
    contender = ours.core(ours.timelines(runs_of_calls(shape or Shape(), 2)))
    frames, opcodes = counted(contender)
    total = opcodes.total()
    shown = opcodes.most_common(most)
    places = [(f"{place[0]} {place[1]}", frames[place], count) for place, count in shown]
    places.append(
        (
            f"{len(opcodes) - len(shown)} others",
            frames.total() - sum(p[1] for p in places),
            total - sum(p[2] for p in places),
        )
    )
    places.append(("all", frames.total(), total))
    lines = [
        (name, f"{calls / contender.per:.2f}", f"{count / contender.per:.0f}", f"{count / total:.0%}")
        for name, calls, count in places
    ]
    return table(("function", "frames a cycle", "bytecodes a cycle", "share"), lines)


def report(shape: Shape | None = None, most: int = 35) -> str:
    """The tables; microseconds of a cycle."""
    profile, mean = sampled(ours.core(ours.timelines(runs_of_calls(shape or Shape(), 5))))
    share = mean / max(1, profile.samples)
    functions = [
        (f"{place[0]} {place[1]}", f"{count * share:.2f}", f"{profile.within[place] * share:.2f}")
        for place, count in profile.alone.most_common(most)
    ]
    lines = [(f"{place[0]}:{place[1]}", f"{count * share:.2f}") for place, count in profile.lines.most_common(most)]
    return "\n\n".join(
        (
            f"{mean:.2f} µs a cycle, {profile.samples} samples",
            table(("function", "alone", "with what it calls"), functions),
            table(("line", "alone"), lines),
        )
    )


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--opcodes"]
    form = Form(given[0]) if given else Form.TEXT
    size = int(given[1]) if len(given) > 1 else 512
    shape = Shape(size=size, form=form, calls=200 if size < 10_000 else 24)
    print(opcodes_report(shape) if "--opcodes" in sys.argv else report(shape))
