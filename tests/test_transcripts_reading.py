"""What all readers share: broken lines, gzip, documents and lines told apart, memory, directories, detection."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path

import pytest

from loopguard_plugin.events import ToolCallStarted
from loopguard_plugin.transcripts import Placed, Source, SourceError, Talks, Unreadable, detect, files_of, read
from loopguard_plugin.transcripts.talk import Talk

SAMPLES = Path(__file__).parent / "data" / "transcripts"
START = {"type": "tool_call_started", "session_key": "s", "call_id": "c", "tool": "read", "args": {}}


def played(path: Path, form: str = "auto") -> list[Placed | Unreadable]:
    with Source.open(str(path)) as source:
        return list(read(source, Talks(), form))


def places(path: Path, form: str = "auto") -> list[str]:
    """``3`` for an event of line 3, ``!3 …`` for a problem there."""
    return [f"{item.line}" if isinstance(item, Placed) else f"!{item.line} {item.text}" for item in played(path, form)]


def test_bad_event_lines_are_reported_with_their_numbers(tmp_path: Path) -> None:
    """Of a file of events every good line plays; each bad one names its line, the field and what was expected."""
    good = json.dumps(START)
    lines = [good, "", "not json", '{"type": "tool_call_started"}', "[1]", f"{good}{good}", good + "{", good]
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(lines))
    found = places(path)
    assert [place for place in found if not place.startswith("!")] == ["1", "6", "6", "7", "8"]
    problems = [place for place in found if place.startswith("!")]
    assert problems[0].startswith("!3 expected an event: column 1: not JSON")
    assert problems[1].startswith("!4 expected an event: ")
    assert "session_key" in problems[1]
    assert problems[2] == "!5 expected an event, found a list"
    assert problems[3].startswith("!7 expected an event: column")


def test_event_with_surrogate_and_nan_plays(tmp_path: Path) -> None:
    """Lone surrogates, NaN and bytes that are not UTF-8 are what real tools write: they play."""
    path = tmp_path / "events.jsonl"
    lines = [b'"\\ud800"', b"NaN", b'"\xff"']
    head = json.dumps(START).encode().removesuffix(b"{}}")
    path.write_bytes(b"\n".join(head + b'{"p": ' + value + b"}}" for value in lines))
    assert places(path) == ["1", "2", "3"]


def test_very_deep_line_is_reported(tmp_path: Path) -> None:
    """A line nested beyond what any reader takes is a bad line, not a crash; the next one plays."""
    path = tmp_path / "events.jsonl"
    deep = "[" * 200_000 + "]" * 200_000
    path.write_text(f'{{"type": "compaction_retry", "session_key": "s", "x": {deep}}}\n{json.dumps(START)}\n')
    found = places(path, "events")
    assert found[0].startswith("!1 ")
    assert found[1:] == ["2"]


def test_line_of_nul_bytes_is_reported(tmp_path: Path) -> None:
    """What a crash wrote over is a line that could not be read, in every format; the next one plays."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\0" * 40 + b"\n" + json.dumps(START).encode() + b"\n")
    assert places(path) == ["!1 expected an event: 40 NUL bytes and nothing else", "2"]
    assert places(path, "openclaw")[0] == "!1 expected a JSON object: 40 NUL bytes and nothing else"


@pytest.mark.parametrize("packed", [False, True])
def test_line_without_end_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    """A line longer than the limit, as a small gzip file can hold it, ends the file with a message, not the memory."""
    monkeypatch.setattr("loopguard_plugin.transcripts.source.LONGEST", 4 << 20)
    good, path = json.dumps(START).encode() + b"\n", tmp_path / "events.jsonl"
    long = good.replace(b"{}", b'"' + b"a" * (6 << 20) + b'"')
    for lines, before in ((good + long + good, ["1"]), (long + good, [])):
        path.write_bytes(gzip.compress(lines) if packed else lines)
        told = f"!0 cannot be read to its end: line {len(before) + 1} is longer than 4 MiB"
        assert places(path) == [*before, told]


def test_document_without_end_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document is read whole, so the same limit holds for all of it."""
    monkeypatch.setattr("loopguard_plugin.transcripts.source.LONGEST", 1 << 20)
    path = tmp_path / "chat.json"
    path.write_text('{"messages": [\n' + '  {"role":\n "user", "content": "x"},\n' * 50_000 + "]}")
    assert places(path) == ["!0 cannot be read to its end: as one JSON document it is longer than 1 MiB"]


@pytest.mark.parametrize(
    "first",
    [
        b"{" + b'"a": ' * 10,
        b'{"x": "' + b"y" * (3 << 20),
        b"[" * 5000 + b"]" * 5000,
        b"\0" * 100,
        b'"a note"',
        b"7" * 5000,
        b'{"x": 1e999}',
        b"\xff\xfe",
        b"broken\nbroken\nbroken\nbroken",
    ],
    ids=["cut", "long and cut", "deep", "NUL", "text", "number", "float", "bytes", "many"],
)
@pytest.mark.parametrize("sample", ["events.jsonl", "openclaw-v3.jsonl", "codex.jsonl"])
def test_no_first_line_hides_the_format(first: bytes, sample: str, tmp_path: Path) -> None:
    """Whatever stands before them, the lines of a transcript play as they do without it."""
    rest = (SAMPLES / sample).read_bytes()
    path = tmp_path / sample
    path.write_bytes(first + b"\n" + rest)
    kinds = [type(item.event) for item in played(path) if isinstance(item, Placed)]
    assert kinds == [type(item.event) for item in played(SAMPLES / sample) if isinstance(item, Placed)]


def test_broken_document_is_told_as_one(tmp_path: Path) -> None:
    """Where nothing of a broken document tells its format, the message says where it is broken."""
    path = tmp_path / "doc.json"
    path.write_text('{\n  "a": 1,\n  "b": oops\n}\n')
    (told,) = places(path)
    assert told.startswith("!0 cannot tell the format")
    assert told.endswith("as one JSON document: line 3, column 8: not JSON: expecting value")


@pytest.mark.parametrize("sample", ["openclaw-v3.jsonl", "gemini.json", "events.jsonl"])
def test_gzip_reads_the_same(sample: str, tmp_path: Path) -> None:
    """A gzip file is told by its content and gives the same events."""
    path = tmp_path / sample  # no .gz in the name
    path.write_bytes(gzip.compress((SAMPLES / sample).read_bytes()))
    assert repr(played(path)) == repr(played(SAMPLES / sample))


def test_cut_gzip_plays_up_to_the_break(tmp_path: Path) -> None:
    """What comes before the break plays, and the break is reported."""
    whole = gzip.compress((json.dumps(START) + "\n").encode() * 5000)
    path = tmp_path / "events.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    found = places(path)
    assert len(found) > 100
    assert found[-1].startswith("!0 cannot be read to its end")


def test_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    """A file that begins with a byte order mark plays from its first line."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(START).encode())
    assert places(path) == ["1"]


def test_missing_file_is_a_source_error(tmp_path: Path) -> None:
    """A file that is not there raises SourceError with the reason."""
    with pytest.raises(SourceError, match="No such file"):
        Source.open(str(tmp_path / "gone"))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash reads standard input, gzipped or not."""
    text = json.dumps(START).encode()
    for data in (text, gzip.compress(text)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with Source.open("-") as source:
            assert [type(item) for item in read(source, Talks())] == [Placed]


def test_long_file_is_not_held_in_memory(tmp_path: Path) -> None:
    """Reading 40 MB of lines takes far less memory than the file has bytes."""
    path = tmp_path / "events.jsonl"
    line = json.dumps(START | {"args": "x" * 100_000}).encode() + b"\n"
    with path.open("wb") as file:
        for _ in range(400):
            file.write(line)
    tracemalloc.start()
    try:
        with Source.open(str(path)) as source:
            count = sum(1 for _ in read(source, Talks()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 400
    assert peak < 12_000_000  # the look-ahead of 1 MB, one line, and what the decoder makes of it


def test_unknown_content_is_told(tmp_path: Path) -> None:
    """A file of no known format is one problem that says what to do."""
    path = tmp_path / "notes.json"
    path.write_text('{"hello": 1}')
    found = places(path)
    assert len(found) == 1
    assert found[0].startswith("!0 cannot tell the format; name it with --format")


def test_broken_first_line_does_not_hide_the_format(tmp_path: Path) -> None:
    """A cut first line is reported, and the rest is read in its format."""
    path = tmp_path / "session.jsonl"
    path.write_text('{"type":"session","ver\n' + (SAMPLES / "openclaw-v3.jsonl").read_text())
    found = played(path)
    assert isinstance(found[0], Unreadable)
    assert found[0].line == 1
    assert sum(isinstance(item, Placed) for item in found) == 11


def test_document_of_one_message_a_line_is_a_document(tmp_path: Path) -> None:
    """A pretty-printed list whose elements each fill a line is one conversation, not many broken lines."""
    path = tmp_path / "chat.json"
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
    ]
    path.write_text("[\n" + ",\n".join(map(json.dumps, messages)) + "\n]\n")
    assert places(path) == ["1", "2", "3"]


def test_empty_file_is_no_problem(tmp_path: Path) -> None:
    """Nothing to read is nothing wrong."""
    path = tmp_path / "empty.jsonl"
    path.write_text("\n\n")
    assert places(path) == []


def test_directory_gives_its_transcripts_in_order(tmp_path: Path) -> None:
    """A directory is walked by the endings of transcripts, sorted; a file is itself, whatever it is called."""
    for name in ("b/2.jsonl", "a/1.json", "a/notes.txt", "c.traj", "d.jsonl.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [Path(file).relative_to(tmp_path).as_posix() for file in files_of(str(tmp_path))]
    assert found == ["a/1.json", "b/2.jsonl", "c.traj", "d.jsonl.gz"]
    assert list(files_of(str(tmp_path / "a/notes.txt"))) == [str(tmp_path / "a/notes.txt")]
    assert list(files_of("-")) == ["-"]


def test_openclaw_agent_is_told_by_the_place_of_the_file(tmp_path: Path) -> None:
    """A session under agents/<id>/sessions is played with that agent's settings."""
    path = tmp_path / "agents" / "ana" / "sessions" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes((SAMPLES / "openclaw-v3.jsonl").read_bytes())
    assert {item.event.agent_id for item in played(path) if isinstance(item, Placed)} == {"ana"}


def test_calls_that_never_settle_do_not_fill_memory() -> None:
    """Of calls without a result only the newest few thousand are remembered."""
    from loopguard_plugin.events import BatchCall

    talk = Talk("s", None)
    for number in range(10_000):
        talk.asked([BatchCall(f"c{number}", "read")])
    assert talk.tool("c0") == ""
    assert talk.tool("c9999") == "read"
    assert len(talk.cut()) <= 4096


@pytest.mark.parametrize("sample", ["openai-tau.json", "gemini.json", "atif.json", "swe-agent.traj", "events.jsonl"])
def test_the_format_may_be_asked_for_again(sample: str) -> None:
    """Asking twice gives the same answer, of documents and of lines, and all of it is read afterwards."""
    with Source.open(str(SAMPLES / sample)) as source:
        assert detect(source) == detect(source)
        assert len(list(read(source, Talks()))) == len(played(SAMPLES / sample)) > 0


def test_detecting_takes_nothing_away() -> None:
    """After the format was told, the reader still sees the first line."""
    with Source.open(str(SAMPLES / "events.jsonl")) as source:
        assert detect(source) == "events"
        first = next(iter(read(source, Talks(), "events")))
    assert isinstance(first, Placed)
    assert first.line == 1
    assert not isinstance(first.event, ToolCallStarted)
