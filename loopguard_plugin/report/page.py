"""One self-contained HTML page that shows every session of a replay (extra ``report``: jinja2).

Nothing in it is fetched: styles and script stand in the page, and its content security policy admits these two alone,
by their digests. What comes from recordings is data in a JSON block, never markup; the script puts it into the page as
text.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterable
from pathlib import Path

import jinja2
import msgspec
from markupsafe import Markup

from .. import __version__
from ..events import Event
from ..settings import Settings
from ..transcripts.source import STDIN
from .rows import Row
from .tally import Tally
from .text import amount, plain, summary, whole
from .timelines import Timelines

_HERE = Path(__file__).parent / "html"
# Inside a script element nothing may look like its end, a comment, or (for old readers of JSON) a new line.
_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class Page:
    """Collects a replay and writes the page. Memory grows with the calls: some twenty bytes each, plus contents.

    ``options``: what the replay was told beside its files (``--config``, ``on.json5``), for the commands that the page
    shows: without the same settings ``explain`` would speak of another guard.
    """

    def __init__(
        self,
        path: str,
        settings: Settings,
        agent: str | None = None,
        *,
        with_content: bool = False,
        options: Iterable[str] = (),
    ) -> None:
        self.path = path
        self._options = " ".join(map(shlex.quote, options))
        self._settings = settings
        self._agent = (agent or "").strip() or None
        self._timelines = Timelines(settings, self._agent, with_content=with_content)

    def add(self, row: Row, event: Event, file: str, line: int) -> None:
        """One answered event and its place."""
        self._timelines.add(row, event, file, line)

    def write(self, tally: Tally, files: int) -> None:
        """Write the page. Raises OSError where that cannot be done."""
        Path(self.path).write_text(self.render(tally, files), encoding="utf-8", errors="replace")

    def render(self, tally: Tally, files: int) -> str:
        """The page as text."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        style, script = _text("page.css"), _text("page.js")
        return environment.get_template("page.html.j2").render(
            version=__version__,
            summary=summary(tally, files),
            guards=self._guards(),
            sums=tally.by_detector(),
            amount=amount,
            plain=plain,
            whole=whole,
            saved=sum(session.saved for session in tally.sessions.values()),
            contents=self._contents(),
            style=Markup(style),
            script=Markup(script),
            style_digest=_digest(style),
            script_digest=_digest(script),
            data=Markup(embedded(_data(self._timelines, tally, self._options))),
        )

    def _guards(self) -> str:
        limits = self._settings.resolve(self._agent)
        if not self._settings.plugin_enabled:
            return "loopguard was off"
        on = [("rolling detectors", limits.rolling), ("post-compaction guard", limits.post_compaction)]
        told = ", ".join(f"{name} {'on' if state else 'off'}" for name, state in on)
        thresholds = f" (warning {limits.warning}, critical {limits.critical})" if limits.rolling else ""
        return f"{told}, repeated tool errors on{thresholds}"

    def _contents(self) -> str:
        if not self._timelines.with_content:
            return "Arguments and results are not in this page (--include-content)."
        if self._timelines.content_left <= 0:
            return "This page holds arguments and results, shortened, of the first calls only: it would grow too large."
        return "This page holds arguments and results, shortened. Mind with whom you share it."


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The digest by which a content security policy admits an inline element with exactly this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data(timelines: Timelines, tally: Tally, options: str) -> dict[str, object]:
    """What the script shows. Short keys: there are thousands of sessions."""
    sessions = []
    for timeline in timelines.sessions.values():
        told = tally.sessions.get(timeline.key)
        session: dict[str, object] = {"k": timeline.key, "f": timeline.files, "c": timeline.items.tolist()}
        if timeline.marks:
            session["m"] = timeline.marks
        if timeline.contents:
            session["x"] = timeline.contents
        if told is not None and told.saved:
            session["s"] = told.saved
        if told is not None and told.further:
            session["a"] = told.further
        sessions.append(session)
    lists = {"tools": timelines.tools, "detectors": timelines.detectors, "texts": timelines.texts}
    named: dict[str, object] = {name: list(names.numbers) for name, names in lists.items()}
    files = list(timelines.files.numbers)
    return {**named, "files": files, "explain": [_explain(file, options) for file in files], "sessions": sessions}


def _explain(file: str, options: str) -> str:
    """The command that explains an event of this file, for a shell, up to the event's number; empty for a stream."""
    if file == STDIN:
        return ""
    named = f"./{file}" if file.startswith("-") else file
    return f"loopguard explain {shlex.quote(named)}{options and ' '}{options} --at"


def embedded(data: object) -> str:
    """Data as JSON that may stand in a script element, whatever strings are in it."""
    try:
        text = msgspec.json.encode(data).decode()
    except UnicodeError:  # lone surrogates, which real tools write
        text = msgspec.json.encode(_mended(data)).decode()
    return text.translate(_ESCAPES)


def _mended(value: object) -> object:
    """The same with every string valid Unicode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mended(item) for item in value]
    return _mended(msgspec.to_builtins(value)) if isinstance(value, msgspec.Struct) else value
