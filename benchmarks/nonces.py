"""Is comparing hostile text linear in its size (SPEC 5.3, 5.1, 5.1b)?

Nested, broken, unbalanced and crossing markers, and output that is all digits: each at 64 KiB and at 1 MiB, which
is 16 times as long. Linear is a ratio of about 16; the square would be 256.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from loopguard_plugin.core.fingerprint import canonical, text_bytes
from loopguard_plugin.core.outcomes.volatile import without_volatile

from .measure import Contender, Timed, microseconds, table, take_turns, times

SMALL, LARGE = 64 * 1024, 1024 * 1024
SMALL_NAME, LARGE_NAME = "64 KiB", "1 MiB"


def opening(at: int) -> str:
    """An opening marker with an id of its own."""
    return f'<<<EXTERNAL_UNTRUSTED_CONTENT id="{at:016x}">>>'


def closing(at: int) -> str:
    """The closing marker that fits it."""
    return f'<<<END_EXTERNAL_UNTRUSTED_CONTENT id="{at:016x}">>>'


def _series(make: Callable[[int], str], size: int) -> str:
    count = size // len(make(0))
    return "".join(map(make, range(count)))


def _nested(size: int) -> str:
    count = size // (len(opening(0)) + len(closing(0)))
    return "".join(map(opening, range(count))) + "".join(map(closing, reversed(range(count))))


def _crossing(size: int) -> str:
    count = size // (len(opening(0)) + len(closing(0)))
    return "".join(map(opening, range(count))) + "".join(map(closing, range(count)))


def _mixed(size: int) -> str:
    noise = random.Random(5)
    return _series(lambda _: noise.choice((opening, closing))(noise.randrange(50)), size)


HOSTILE: dict[str, Callable[[int], str]] = {
    "side by side": lambda size: _series(lambda at: opening(at) + closing(at), size),
    "nested": _nested,
    "opening only": lambda size: _series(opening, size) + closing(1 << 60),
    "closing only": lambda size: _series(closing, size),
    "crossing": _crossing,
    "any order": _mixed,
    "cut off": lambda size: _series(lambda at: closing(at)[:-4], size),
    "backslashes": lambda size: _series(lambda _: closing(0)[:38] + "\\" * 200, size),
}
DIGITS: dict[str, Callable[[int], str]] = {
    "digits": lambda size: "1" * size,
    "numbers": lambda size: "1 " * (size // 2),
    "words that lead to a number": lambda size: "attempt #" * (size // 9) + "1",
}


def _masked(text: str) -> Timed:
    return lambda: text_bytes(text)


def _in_json(text: str) -> Timed:
    return lambda: canonical({"rows": [text]}, True)


def _settled(text: str) -> Timed:
    return lambda: without_volatile(text)


def growth(make: Callable[[int], str], work: Callable[[str], Timed], rounds: int = 5) -> tuple[float, float]:
    """Seconds for the large text, and how many times those for the small one."""

    def contender(name: str, size: int) -> Contender:
        timed = work(make(size))
        return Contender(name=name, per=1, prepare=lambda: timed)

    timings = take_turns([contender(SMALL_NAME, SMALL), contender(LARGE_NAME, LARGE)], rounds)
    return timings.seconds(LARGE_NAME), timings.best_ratio(LARGE_NAME, SMALL_NAME)


def report() -> str:
    """The table."""
    lines = []
    for kind, texts, work in (
        ("markers in text", HOSTILE, _masked),
        ("markers in an object", HOSTILE, _in_json),
        ("failing output", DIGITS, _settled),
    ):
        for name, make in texts.items():
            seconds, ratio = growth(make, work)
            lines.append((f"{kind}: {name}", microseconds(seconds), times(ratio)))
    return table(("hostile text", LARGE_NAME, f"to {SMALL_NAME}, a 16th of it"), lines)


if __name__ == "__main__":
    print(report())
