"""Reading settings from a JSON5 file or text: what is accepted, and how mistakes are told (SPEC 11)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopguard_plugin.config_file import MAX_DEPTH, load_config_text, load_settings
from loopguard_plugin.errors import Problem, SettingsError
from loopguard_plugin.settings import Settings


def refused(text: str) -> Problem:
    """The one problem that this text has."""
    with pytest.raises(SettingsError) as caught:
        load_config_text(text, "gateway.json5")
    assert caught.value.file == "gateway.json5"
    (problem,) = caught.value.problems
    return problem


def error_of(load: Callable[[], Settings]) -> SettingsError | None:
    """The settings error that loading raises, if it raises one."""
    try:
        load()
    except SettingsError as error:
        return error
    return None


def test_a_file_is_read_as_json5(tmp_path: Path) -> None:
    """Comments, bare keys, single quotes, trailing commas and hexadecimal numbers are JSON5."""
    file = tmp_path / "gateway.json5"
    file.write_text(
        "// mine\n{tools: {'loopDetection': {enabled: true, warningThreshold: 0x4,},},}\n", encoding="utf-8"
    )
    for path in (file, str(file)):
        resolved = load_settings(path).resolve()
        assert (resolved.enabled, resolved.warning) == (True, 4)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, mark: bytes) -> None:
    """Windows editors write one; it neither hinders reading nor moves the column of an error."""
    file = tmp_path / "gateway.json5"
    file.write_bytes(mark + b"{}")
    assert load_settings(file) == Settings()
    file.write_bytes(mark + b"{a: !}")
    with pytest.raises(SettingsError, match=r"gateway\.json5: line 1, column 5: not JSON5: expected a value"):
        load_settings(file)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "no value in it"),
        ("// nothing\n", 1, 1, "no value in it"),
        ("{\n  tools: {\n    loopDetection: { historySize: }\n  }\n}", 3, 35, "expected a value, found `}`"),
        ("{\n  tools: tru,\n}", 2, 13, "expected `e`, found `,`"),
        ("{\r\n  a: 1\r\n  b: 2\r\n}", 3, 3, "expected a comma or `}`, found `b`"),
        ("{\r  a: 1\r  b: 2\r}", 3, 3, "expected a comma or `}`, found `b`"),
        ('{ "🎈é": 1, b: € }', 1, 15, "expected a value, found `€`"),
        ("{ a: 1,, b: 2 }", 1, 8, "a comma too many"),
        ("{ a: 1 / 2 }", 1, 8, "a stray slash"),
        ("{ a = 1 }", 1, 5, "expected a colon, found `=`"),
        ("{ a: 1 }\n}", 2, 1, "extra data `}`"),
        ("{\n  a: {\n    b: 1,\n", 2, 6, "the text ends inside the object that starts here"),
        ("{\n  a: [\n    1,\n", 2, 6, "the text ends inside the list that starts here"),
        ('{\n  a: "x\n}', 2, 6, "the string that starts here"),
        ("{\n  /* a: 1\n}", 2, 4, "the comment that starts here is never closed"),
        ("{ a: 1.2.3 }", 1, 6, "not a number"),
        ("[" * 100_000, 1, MAX_DEPTH + 1, f"nested deeper than {MAX_DEPTH} levels"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_json5_is_told_with_line_and_column(text: str, line: int, column: int, words: str) -> None:
    """The place is the one where a person would look, counted from 1 in lines and characters."""
    problem = refused(text)
    assert (problem.line, problem.column) == (line, column)
    assert words in problem.message


def test_nesting_that_a_real_file_may_have_is_no_error() -> None:
    """Other parts of the gateway's file may be deep."""
    assert load_config_text('{"x": ' + "[" * 100 + "]" * 100 + "}") == Settings()


def test_the_errors_of_the_settings_name_the_file() -> None:
    """A wrong value is told as by `parse_settings`, with the file in front."""
    with pytest.raises(SettingsError, match=r"gateway\.json5: tools\.loopDetection\.enabled: expected true or false"):
        load_config_text("{tools: {loopDetection: {enabled: 'maybe'}}}", "gateway.json5")


@pytest.mark.parametrize("text", ["[]", "5", "null", "'x'"])
def test_the_top_level_has_to_be_an_object(text: str) -> None:
    """A list or a bare value is JSON5, but no config."""
    assert "expected an object" in refused(text).message


def test_a_file_that_is_not_there_or_not_a_file(tmp_path: Path) -> None:
    """What cannot be read is told as a settings error, with the name of the file and the reason."""
    missing = tmp_path / "none.json5"
    with pytest.raises(SettingsError, match=r"none\.json5: cannot be read: No such file"):
        load_settings(missing)
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load_settings(tmp_path)
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings("a\0b")


def test_a_file_in_another_encoding_is_told_with_its_place(tmp_path: Path) -> None:
    """The first byte that is no UTF-8 is found by line and column."""
    file = tmp_path / "latin.json5"
    file.write_bytes('{\n  // ö: "é'.encode() + b'\xe9"\n}')
    with pytest.raises(SettingsError, match=r"latin\.json5: line 2, column 11: not UTF-8 text"):
        load_settings(file)


def test_secrets_that_stand_before_the_mistake_stay_out_of_the_error() -> None:
    """The reader's own error carries all it had read; ours says nothing of it and does not drag it along."""
    with pytest.raises(SettingsError) as caught:
        load_config_text("{ apiKey: 'sk-secret', tools: }")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@given(st.text(alphabet="{}[]:,'\"\\/*tools abc019.-+eE\n\r\u2028\ud800é🎈", max_size=40))
def test_any_text_loads_or_raises_settings_error(text: str) -> None:
    """Whatever is typed, it is settings or a SettingsError whose place lies inside the text."""
    error = error_of(lambda: load_config_text(text))
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for problem in error.problems if error else ():
        assert (problem.line is None) == (problem.column is None)
        if problem.line is not None and problem.column is not None:
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1


@given(st.binary(max_size=30))
def test_any_bytes_load_or_raise_settings_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """A file of any bytes gives settings or a SettingsError."""
    file = tmp_path_factory.getbasetemp() / "any.json5"
    file.write_bytes(data)
    error = error_of(lambda: load_settings(file))
    assert error is None or error.file == str(file)
