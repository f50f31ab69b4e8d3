"""The file that a recording is written to, and those that it was renamed to once they were full."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path


class RecordedFiles:
    """The file that is written to, and those that it was renamed to."""

    def __init__(self, path: Path, most: int, keep: int) -> None:
        self._path = path
        self._most = most
        self._keep = keep
        self._file: FileIO | None = None
        self._size = 0
        self._cut = False

    def write(self, line: bytes) -> None:
        """Append a line, to a new file where it would not fit. A line that was cut by a full disk is ended first."""
        file = self._file or self._open()
        if self._size and self._size + len(line) > self._most:
            self.close()
            self._rename()
            file = self._open()
        left = memoryview(b"\n" + line if self._cut else line)
        self._cut = True
        while left:
            done = file.write(left) or 0
            self._size += done
            left = left[done:]
        self._cut = False

    def close(self) -> None:
        """Let go of the file; the next line opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self) -> FileIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = file = FileIO(self._path, "a+", opener=lambda path, flags: os.open(path, flags, 0o600))
        self._size = os.fstat(file.fileno()).st_size
        self._cut = False
        if self._size:
            file.seek(-1, os.SEEK_END)
            self._cut = file.read(1) != b"\n"  # by a process that was killed
        return file

    def _rename(self) -> None:
        older = self._older()
        number = older[-1][0] + 1 if older else 1
        self._path.rename(self._path.with_name(f"{self._path.stem}.{number:06}{self._path.suffix}"))
        for _, path in older[: max(0, len(older) + 1 - self._keep)]:
            path.unlink(missing_ok=True)

    def _older(self) -> list[tuple[int, Path]]:
        """The renamed files with their numbers, the oldest first."""
        stem, suffix = self._path.stem, self._path.suffix
        found = []
        for path in self._path.parent.iterdir():
            number = path.name.removeprefix(f"{stem}.").removesuffix(suffix)
            if path.name == f"{stem}.{number}{suffix}" and len(number) >= 6 and number.isascii() and number.isdigit():
                found.append((int(number), path))
        return sorted(found)
