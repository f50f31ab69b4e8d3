"""For MkDocs: what reads well on a code host and in an editor, made to read well on the site too."""

from __future__ import annotations

import re
from typing import Any

# The docstrings' references, ``:class:`Settings```, are read as code: Markdown does not know the role before it.
ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):(<code>)[~.]?")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with a blank line before each list: Python-Markdown needs one, other readers of Markdown do not."""
    lines: list[str] = []
    code = inside = False
    for line in markdown.split("\n"):
        if line.startswith("```"):
            code = not code
        begins = ITEM.match(line) is not None and not code
        if begins and not inside and lines and lines[-1].strip():
            lines.append("")
        inside = not code and (begins or (inside and bool(line.strip())))
        lines.append(line)
    return "\n".join(lines)


def on_page_content(html: str, **_: Any) -> str:
    """The page without roles."""
    return ROLE.sub(r"\1", html)
