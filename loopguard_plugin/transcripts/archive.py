"""Files that are no text: SQLite databases and ZIP archives, told by their first bytes and by what stands in them.

Both are read from their file, never from standard input, and never written to.
"""

from __future__ import annotations

import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

SQLITE = b"SQLite format 3\x00"
ZIP = b"PK\x03\x04"


class Tables(Struct, frozen=True):
    """The tables of a SQLite database, with their columns. ``problem``: why they could not be read."""

    columns: dict[str, frozenset[str]]
    problem: str = ""

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table, with all of these columns."""
        return set(columns) <= self.columns.get(table, frozenset()) and table in self.columns


class Members(Struct, frozen=True):
    """The names of the files in a ZIP archive. ``problem``: why they could not be read."""

    names: tuple[str, ...]
    problem: str = ""


def looked_into(path: Path | None, first: bytes) -> Tables | Members | None:
    """What a database or archive holds; None for any other file. ``path`` None: it came from standard input."""
    if first.startswith(SQLITE):
        return _tables(path)
    if first.startswith(ZIP):
        return _members(path)
    return None


def _tables(path: Path | None) -> Tables:
    if path is None:
        return Tables({}, "a database is read from its file, not from standard input")
    try:
        with opened(path) as database:
            names = [str(row[0]) for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            quoted = {name: name.replace('"', '""') for name in names}
            return Tables(
                {
                    name: frozenset(str(row[1]) for row in database.execute(f'PRAGMA table_info("{quoted[name]}")'))
                    for name in names
                }
            )
    except sqlite3.Error as error:
        return Tables({}, f"a SQLite database that cannot be read: {error}")


def _members(path: Path | None) -> Members:
    if path is None:
        return Members((), "a ZIP archive is read from its file, not from standard input")
    try:
        with zipfile.ZipFile(path) as archive:
            return Members(tuple(archive.namelist()))
    except (OSError, zipfile.BadZipFile) as error:
        return Members((), f"a ZIP archive that cannot be read: {error}")


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, read-only: a gateway may be writing to it. Rows answer to the names of their columns."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        yield database
