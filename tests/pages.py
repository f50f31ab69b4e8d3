"""README and the pages under docs/, as the tests look at them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def page(name: str) -> str:
    """The text of ``README.md``, ``docs/gateway.md``, …"""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def rows(text: str) -> list[list[str]]:
    """The rows of all tables of a text, cell by cell, without the headings."""
    lines = [line.strip() for line in text.splitlines()]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    headings = [at for at, row in enumerate(cells) if set(row[0]) <= {"-", ":"}]
    return [row for at, row in enumerate(cells) if at not in headings and at + 1 not in headings]
