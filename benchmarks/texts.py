"""Seeded texts: prose, markup, build output that drifts, and the wrapper around untrusted content.

All but :func:`foreign` are ASCII, which is the hardest case for a ratio: encoding it, and so the floor, is cheapest.
"""

from __future__ import annotations

import random

_WORDS = (
    "the", "of", "build", "cache", "module", "index", "error", "value", "returned", "from", "line", "while",
    "reading", "user", "session", "token", "state", "config", "deploy", "worker", "queue", "retry", "handler",
    "client", "server", "request", "response", "header", "payload", "buffer", "thread", "signal", "socket",
    "test_case_name", "some/path/file.py", "self.assertEqual(value,", "expected)", "--verbose", "{'key':", "'value'}",
    "[done]", "(ok)",
)
_FOREIGN = ["größer", "naïve", "façade", "Änderung", "東京", "éléments"]
_MARKUP = (
    '<li class="item"><a href="/p/12">{}</a></li>',
    "<td>{}</td><td></td>",
    "if (a < b && c > d) {{ return {}; }}",
    "std::vector<std::map<int, {}>> rows;",
    "<!-- {} --><br/>",
)


def prose(rng: random.Random, size: int) -> str:
    """Words and lines, exactly ``size`` characters, without any ``<``."""
    return _cut(rng.choices(_WORDS, k=size // 5 + 2), size)


def foreign(rng: random.Random, size: int) -> str:
    """The same with words that are not ASCII."""
    return _cut(rng.choices((*_WORDS, *_FOREIGN), k=size // 5 + 2), size)


def markup(rng: random.Random, size: int) -> str:
    """HTML and source code, exactly ``size`` characters, a ``<`` in every 15 or so."""
    pieces = []
    length = 0
    while length < size:
        piece = rng.choice(_MARKUP).format(rng.choice(_WORDS))
        pieces.append(piece)
        length += len(piece) + 1
    return "\n".join(pieces)[:size]


def drifting(rng: random.Random, drift: random.Random, size: int, digits: float) -> str:
    """What a build prints, ``size`` characters. ``digits`` is the share of words with digits.

    Half of these are of a kind that drifts from one attempt to the next (SPEC 5.1: times, durations, attempts,
    process ids): drawn from ``drift``. All else is drawn from ``rng``: with an equal one, two texts have one failure
    identity.
    """
    words = rng.choices(_WORDS, k=size // 6)
    for at in rng.sample(range(len(words)), round(len(words) * digits)):
        kind = rng.randrange(8)
        words[at] = _drift(drift, kind) if kind < 4 else ("v2", "utf8", "x86_64", "line:12")[kind - 4]
    return _cut(words, size)


def _drift(drift: random.Random, kind: int) -> str:
    """A volatile span, always as wide as any other of its kind."""
    if kind == 0:
        return f"2026-07-1{drift.randint(0, 9)}T1{drift.randint(0, 9)}:22:3{drift.randint(0, 9)}.123Z"
    if kind == 1:
        return f"{drift.randint(10, 99)}.{drift.randint(0, 9)}ms"
    if kind == 2:
        return f"pid={drift.randint(10000, 60000)}"
    return f"attempt {drift.randint(1, 9)}"


def _cut(words: list[str], size: int) -> str:
    """The words in lines, ending with a whole word and made up to the size with dots."""
    for at in range(7, len(words), 12):
        words[at] += "\n"
    text = " ".join(words)
    if len(text) > size:
        text = text[: text.rfind(" ", 0, size) + 1 or size]
    return text + "." * (size - len(text))


def nonce(rng: random.Random, text: str) -> str:
    """The text in the wrapper that gateways put around untrusted content, with a fresh id (SPEC 5.3)."""
    name = f"{rng.getrandbits(64):016x}"
    return (
        f'<<<EXTERNAL_UNTRUSTED_CONTENT id="{name}">>>\nSource: web\n---\n{text}\n'
        f'<<<END_EXTERNAL_UNTRUSTED_CONTENT id="{name}">>>'
    )
