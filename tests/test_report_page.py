"""The HTML page: what it holds, what it leaves out, and that nothing from a recording can become markup."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from sessions import Session, healthy, stuck, write

pytest.importorskip("jinja2")

from loopguard_plugin.cli import main
from loopguard_plugin.report.page import _explain, embedded
from loopguard_plugin.report.timelines import shown

PLANTED = (
    '</script><script>window.pwned = 1</script><!--<script> <img src=x onerror="window.pwned=1"> \u2028\u2029 &lt;'
)


def page_of(tmp_path: Path, sessions: list[Session], *argv: str) -> str:
    """The page that replay writes for these sessions, with the rolling detectors on."""
    config = tmp_path / "on.json5"
    config.write_text("{ tools: { loopDetection: { enabled: true } } }")
    events = write(tmp_path / "events.jsonl", sessions)
    target = tmp_path / "report.html"
    with contextlib.redirect_stdout(io.StringIO()):  # the other report is not what is looked at here
        assert main(["replay", str(events), "--config", str(config), "--html", str(target), *argv]) == 0
    return target.read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    """The data block, as a browser would find it: up to the first thing that ends a script element."""
    block = page.partition('<script type="application/json" id="data">')[2].partition("</script")[0]
    found: dict[str, Any] = json.loads(block)
    return found


class Elements(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def planted(key: str = "s") -> Session:
    """A session with markup in its arguments, results and errors."""
    session = Session(key).user().call("read", {"q": PLANTED}, {"content": [{"type": "text", "text": PLANTED}]})
    for _ in range(3):
        session.call(PLANTED, {"q": 1}, error=f"secret-error {PLANTED}")
    return session


def test_page_holds_every_item_and_mark(tmp_path: Path) -> None:
    """Calls, user messages and compactions stand in order, each with its outcome; findings carry count and reason."""
    session = Session("s").user().call("read", {"p": 1}, "a").call("read", {"p": 1}, "a").compaction()
    session.call("read", {"p": 1}, "b")
    for _ in range(2):
        session.call("exec", {"command": "x"}, error="no")
    data = data_of(page_of(tmp_path, [session, stuck("loop", "grep", 22, before=0)]))
    first, loop = data["sessions"]
    kinds = first["c"][0::5]
    assert kinds == [6, 1, 2, 7, 1, 3, 4]
    assert first["c"][2::5] == [0, 0, 0, 0, 0, 1, 1]  # the same call has the same identity
    assert first["c"][3::5] == [1, 2, 4, 6, 7, 9, 11]  # lines of the file
    assert first["c"][4::5] == [0, 1, 3, 5, 6, 8, 10]  # events of the file
    assert [(mark[0], mark[1], data["detectors"][mark[2]], mark[3]) for mark in loop["m"]] == [
        (11, 0, "generic_repeat", 10),
        (21, 1, "generic_repeat", 20),
        (22, 2, "generic_repeat", 21),
    ]
    assert "`grep` was called 10 times" in data["texts"][loop["m"][0][4]]
    assert loop["s"] == 2 * len("nothing found")


def test_deep_contents_do_not_stop_the_page() -> None:
    """What is nested more deeply than can be written is said to be; nothing raises."""
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert shown(deep) == "(list, nested too deeply to be shown)"
    assert shown(["x"]) == '[\n "x"\n]'


def test_a_turn_that_is_ended_again_is_one_end(tmp_path: Path) -> None:
    """What ends it again is marked as such, and the session says how many calls came after the end."""
    (loop,) = data_of(page_of(tmp_path, [stuck("loop", "grep", 25, before=0)]))["sessions"]
    assert [mark[7] for mark in loop["m"] if mark[1] == 2] == [False, True, True, True]
    assert loop["a"] == 3


def test_the_page_has_the_command_that_explains(tmp_path: Path) -> None:
    """For each file a command that a shell takes as it is, with the settings that the page was made with."""
    folder = tmp_path / "it's a $folder"
    folder.mkdir()
    page = data_of(page_of(folder, [stuck("s", "read", 11, before=0)], "--agent", "an agent"))
    (command,) = page["explain"]
    (mark,) = page["sessions"][0]["m"]
    assert mark[5:7] == [23, 22]  # the line and the number of the settlement with the note
    config = str(folder / "on.json5")
    argv = shlex.split(f"{command} {mark[6]}")
    assert argv[1:] == [
        *("explain", str(folder / "events.jsonl"), "--config", config, "--agent", "an agent", "--at", str(mark[6]))
    ]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(argv[1:]) == 0
    assert "the guard's answer: note, generic_repeat, count 10" in out.getvalue()


def test_events_are_numbered_by_file(tmp_path: Path) -> None:
    """In a page of several files each event has its number in its own file, also where a session goes on in another."""
    (tmp_path / "on.json5").write_text("{ tools: { loopDetection: { enabled: true } } }")
    first = write(tmp_path / "-1.jsonl", [Session("s").call("read", {"p": 1}, "a")])
    second = write(tmp_path / "2.jsonl", [stuck("t", "read", 2, before=0), Session("s").call("read", {"p": 2}, "b")])
    target = tmp_path / "r.html"
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["replay", str(first), str(second), "--html", str(target)]) == 0
    data = data_of(target.read_text(encoding="utf-8"))
    s, t = data["sessions"]
    assert s["f"] == [[0, 0], [1, 1]]
    assert s["c"][4::5] == [0, 5]
    assert t["c"][4::5] == [0, 1, 3]


def test_names_that_a_shell_or_a_parser_would_take_for_something_else() -> None:
    """A file whose name begins with a dash is named by its path; of standard input nothing can be explained later."""
    assert _explain("-x.jsonl", "") == "loopguard explain ./-x.jsonl --at"
    assert _explain("<stdin>", "") == ""


def test_no_contents_unless_asked_for(tmp_path: Path) -> None:
    """Arguments, results and error texts stay out, also where the guard's own message quotes the last error."""
    session = planted().call("read", {"q": "secret-args"}, "secret-result")
    page = page_of(tmp_path, [session])
    # Counted, not compared: what pytest says about a long text that differs takes minutes to work out.
    assert page.count("secret") == 0
    assert page.count("Check the arguments of the call") == 1
    page = page_of(tmp_path, [session], "--include-content")
    assert all(secret in page for secret in ("secret-args", "secret-result", "secret-error"))


def test_long_contents_are_shortened(tmp_path: Path) -> None:
    """A result of megabytes does not make a page of megabytes."""
    page = page_of(tmp_path, [Session("s").user().call("read", {}, "x" * 3_000_000)], "--include-content")
    size = len(page)
    assert size < 100_000
    assert page.count("and 2,998,000 more characters") == 1


def test_nothing_from_a_recording_is_markup(tmp_path: Path) -> None:
    """Markup in names, arguments, results and errors leaves the page's elements as they are without it."""
    plain, wild = Elements(), Elements()
    plain.feed(page_of(tmp_path, [Session("s").user()], "--include-content"))
    page = page_of(tmp_path, [planted("k" + PLANTED)], "--include-content")
    wild.feed(page)
    rows = {"tr", "td", "th", "table", "thead", "tbody", "details", "summary", "div"}
    assert [tag for tag, _ in wild.found if tag not in rows] == [tag for tag, _ in plain.found if tag not in rows]
    assert page.count("\u2028") + page.count("\u2029") == 0
    session = data_of(page)["sessions"][0]
    assert session["k"] == "k" + PLANTED
    assert PLANTED in json.loads(session["x"][0][2])["content"][0]["text"]


def test_lone_surrogates_are_written(tmp_path: Path) -> None:
    """Text that is no valid Unicode does not keep the page from being written."""
    assert json.loads(embedded({"a": ["\ud800<"]})) == {"a": ["?<"]}


def test_page_is_self_contained(tmp_path: Path) -> None:
    """No element refers to anything outside, and the policy admits exactly the style and the script that are there."""
    page = page_of(tmp_path, [healthy("s", 5, seed=1)])
    elements = Elements()
    elements.feed(page)
    assert not [one for tag, attrs in elements.found for one in ("src", "href") if one in attrs]
    assert [tag for tag, _ in elements.found if tag in ("link", "iframe", "img", "object")] == []
    policy = next(attrs["content"] for _, attrs in elements.found if attrs.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    for kind, text in (
        ("style", re.findall(r"<style>(.*?)</style>", page, re.DOTALL)[0]),
        ("script", re.findall(r"<script>(.*?)</script>", page, re.DOTALL)[0]),
    ):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_page_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target that is no file is told, and is no success."""
    events = write(tmp_path / "e.jsonl", [healthy("s", 2, seed=1)])
    assert main(["replay", str(events), "--html", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err


def test_json_lines_are_untouched_by_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --html, --json writes the very same lines."""
    events = str(write(tmp_path / "e.jsonl", [stuck("s", "read", 3)]))
    assert main(["replay", events, "--json"]) == 0
    without = capsys.readouterr().out
    assert main(["replay", events, "--json", "--html", str(tmp_path / "r.html")]) == 0
    assert capsys.readouterr().out == without


def test_repeated_and_orphan_events(tmp_path: Path) -> None:
    """A start or settlement that was published twice is one item; a settlement without a start is one of its own."""
    session = Session("s").call("read", {"p": 1}, "a")
    start, end = session.events
    session.events = [start, start, end, end]
    data = data_of(page_of(tmp_path, [session, Session("other").call("read", {"p": 1}, "a")]))
    assert [len(one["c"]) // 5 for one in data["sessions"]] == [1, 1]
    orphan = Session("s").call("read", {"p": 1}, "a")
    orphan.events = orphan.events[1:]
    (only,) = data_of(page_of(tmp_path, [orphan]))["sessions"]
    assert only["c"][0::5] == [1]
