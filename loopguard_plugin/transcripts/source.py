"""Where a transcript comes from: a file, a gzip file or standard input, read line by line.

Only a look-ahead of a few lines is held in memory. A file that is one JSON document (OpenAI chat lists, Gemini CLI,
SWE-agent, ATIF) cannot be streamed and is read whole: see :meth:`Source.document`. Neither a line nor a document may be
longer than ``LONGEST`` bytes, unpacked: a small gzip file can hold one that fills any memory.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

from .archive import Members, Tables, looked_into
from .values import json_values

LONGEST = 256 << 20  # bytes
STDIN = "<stdin>"  # what messages call standard input
_BOM = b"\xef\xbb\xbf"
_HEAD_LINES = 50
_HEAD_BYTES = 1 << 20


class SourceError(Exception):
    """The bytes could not be read: no such file, no permission, a broken gzip stream, a line without end."""


class Source:
    """One open transcript. ``name`` is what messages call it, ``stem`` names its session if nothing else does."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self.name = name
        self.stem = _stem(name)
        self.path: Path | None = None
        self._raw = stream
        self._stream = _unpacked(stream)
        self._ahead: deque[bytes] = deque()
        self._line = 0
        self._document: tuple[object, str | None] | None = None
        self._failure: SourceError | None = None
        self._seen: list[tuple[list[object], str | None]] | None = None
        self._archive: tuple[Tables | Members | None] | None = None

    @classmethod
    def open(cls, path: str) -> Self:
        """Open a file, or standard input for ``-``. Raises :class:`SourceError`."""
        if path == "-":
            return cls(STDIN, cast(BinaryIO, sys.stdin.buffer))
        try:
            source = cls(path, Path(path).open("rb"))  # noqa: SIM115  # closed by the with statement around it
        except OSError as error:
            raise SourceError(error.strerror or str(error)) from error
        source.path = Path(path)
        return source

    @property
    def size(self) -> int | None:
        """Bytes in the file as it lies on disk; None where nobody can know."""
        return os.fstat(self._raw.fileno()).st_size if self.path is not None else None

    @property
    def position(self) -> int:
        """How many of those bytes have been taken so far."""
        return self._raw.tell() if self.path is not None else 0

    @property
    def taken(self) -> int:
        """How many lines have been taken so far, blank ones too; 0 where the whole was read as one document."""
        return self._line

    def archive(self) -> Tables | Members | None:
        """What stands in a database or an archive; None for a file of text."""
        if self._archive is None:
            first = self.head()[:1]
            self._archive = (looked_into(self.path, first[0]) if first else None,)
        return self._archive[0]

    def head(self) -> list[bytes]:
        """The first lines that are not blank, without taking them: enough to tell the format by.

        However long the first one is, there is room for others: it may be broken.
        """
        taken = sum(map(len, self._ahead)) - (len(self._ahead[0]) if self._ahead else 0)
        while len(self._ahead) < _HEAD_LINES and taken < _HEAD_BYTES:
            line = self._read_line()
            if not line:
                break
            taken += len(line) if self._ahead else 0
            self._ahead.append(line)
        return [line for line in islice(self._ahead, _HEAD_LINES) if line.strip()]

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """``(number, line)`` for every line that is not blank. Raises :class:`SourceError` where bytes are broken."""
        while True:
            line = self._ahead.popleft() if self._ahead else self._read_line()
            if not line:
                self._check()
                return
            self._line += 1
            if line.strip():
                yield self._line, line

    def document(self) -> tuple[object, str | None]:
        """The whole of the input as one JSON value, and what is wrong with it. Held in memory, and read once.

        Where something is wrong, :meth:`lines` still has all lines. Raises :class:`SourceError`, as :meth:`lines` does.
        """
        if self._document is None:
            size = sum(map(len, self._ahead))
            while size <= LONGEST and (line := self._read_line()):
                self._ahead.append(line)
                size += len(line)
            self._check()
            if size > LONGEST:
                raise SourceError(f"as one JSON document it is longer than {_amount(LONGEST)}")
            values, problem = json_values(b"".join(self._ahead))
            if problem is None and len(values) != 1:
                problem = f"expected one JSON document, found {len(values)}"
            if problem is None:  # the lines are of no more use, but for telling the format
                self._ahead = deque(islice(self._ahead, _HEAD_LINES))
            self._document = (values[0] if values else None), problem
        return self._document

    def by_lines(self) -> bool:
        """Whether every line is a JSON value of its own (JSONL), rather than all of them together.

        The first line says so, unless it is broken: then most of the next ones must be objects. (In a document of many
        lines, some inner objects stand alone on theirs.) Fewer of them will do where the whole is no document either.
        """
        head = self.seen()
        if not head or head[0][1] is None:
            return bool(head)
        objects = sum(problem is None and isinstance(values[0], dict) for values, problem in head[1:])
        return objects * 2 > len(head) - 1 or (objects > 0 and not self._is_document())

    def seen(self) -> list[tuple[list[object], str | None]]:
        """What the lines of the head hold, each with what is wrong with it; read once."""
        if self._seen is None:
            self._seen = [json_values(line) for line in self.head()]
        return self._seen

    def _is_document(self) -> bool:
        try:
            return self.document()[1] is None
        except SourceError:
            return False

    def _check(self) -> None:
        """Whether the input ended because its bytes are broken: told once all that came before has been taken."""
        if self._failure is not None:
            raise self._failure

    def _read_line(self) -> bytes:
        if self._failure is not None:
            return b""
        try:
            line = self._stream.readline(LONGEST + 1)
        except (OSError, EOFError, zlib.error) as error:
            self._failure = SourceError(str(error))
            return b""
        if len(line) > LONGEST:
            self._failure = SourceError(f"line {self._line + len(self._ahead) + 1} is longer than {_amount(LONGEST)}")
            return b""
        if self._line == 0 and not self._ahead and line.startswith(_BOM):
            return line[len(_BOM) :]
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.path is not None:
            self._stream.close()
            self._raw.close()


def _amount(size: int) -> str:
    return f"{size >> 20} MiB"


def _unpacked(stream: BinaryIO) -> BinaryIO:
    """The stream itself, or what a gzip stream holds: told by its first two bytes, not by the file's name."""
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, stream))
    if buffered.peek(2)[:2] == b"\x1f\x8b":
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=buffered)), 1 << 16))
    return cast(BinaryIO, buffered)


def _stem(name: str) -> str:
    """The file's name without its endings: ``a/b.jsonl.gz`` → ``b``."""
    stem = Path(name).name
    for ending in (".gz", ".jsonl", ".json", ".traj", ".eval"):
        stem = stem.removesuffix(ending)
    return stem or name
