"""Text from outside, safe to print: the one place where control characters are escaped.

File names, agents, tools, sessions and keys of settings come from outside. On a terminal an escape sequence in one
could move the cursor, set the title or forge a line; in a log a line break could.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line: what is not printable (control and format characters, line breaks, lone surrogates) is
    written as Python writes it in a string, ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
