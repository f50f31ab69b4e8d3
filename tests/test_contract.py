"""docs/contract.md is the contract: every citation of it names something that is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONTRACT = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
SHARED = ROOT.parent / "shared" / "SPEC.md"

SECTION = re.compile(r"^(?:## (\d+)\. |(\d+\.\d+[a-z]?)\.? )", re.MULTILINE)
NUMBER = r"\d+(?:\.\d+[a-z]?)?"
CITATION = re.compile(
    rf"\b(?:SPEC|contract) ({NUMBER}(?:(?:, | and | to ){NUMBER})*)(?:,? rows? (\d+)(?: (?:and|to) (\d+))?)?"
)


def sections() -> set[str]:
    """The numbers of the contract's sections: 1, 2, … and 5.1, 5.1b, …"""
    return {whole or part for whole, part in SECTION.findall(CONTRACT)}


def rows(section: str) -> set[int]:
    """The numbered rows of a section's table."""
    text = CONTRACT.split(f"\n## {section}. ")[1].split("\n## ")[0]
    return {int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}


def sources() -> list[Path]:
    """Everything that may cite the contract, without this file."""
    found = [path for room in ("loopguard_plugin", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py")]
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    return sorted(path for path in (*found, *pages) if path != Path(__file__))


def citations(text: str) -> Iterator[tuple[str, list[int]]]:
    """Each section that a text cites, with the rows that it cites of the last one."""
    for numbers, *cited_rows in CITATION.findall(text):
        *others, last = re.findall(NUMBER, numbers)
        yield from ((other, []) for other in others)
        yield last, [int(row) for row in cited_rows if row]


def test_the_contract_has_its_sections() -> None:
    """Fourteen sections in order, and the parts of 5 and 11 that are cited on their own."""
    assert [number for number, _ in SECTION.findall(CONTRACT) if number] == [str(number) for number in range(1, 15)]
    assert {"5.1", "5.1b", "5.2", "5.3", "11.2"} < sections()
    assert rows("5") == set(range(1, 17))
    assert rows("6") == set(range(1, 10))


def test_citations_are_recognised() -> None:
    """Lists of sections, parts of sections, and rows of tables."""
    assert [*citations("SPEC 2, 9 and 5.1b: x")] == [("2", []), ("9", []), ("5.1b", [])]
    assert [*citations("(contract 5, rows 9 and 10, look)")] == [("5", [9, 10])]
    assert [*citations("SPEC 5, results of 0.5 KiB; SPEC 6.")] == [("5", []), ("6", [])]


def test_every_citation_names_a_section() -> None:
    """No comment, test or page cites a section or a row that is not there."""
    known = sections()
    cited = 0
    for path in sources():
        for section, numbers in citations(path.read_text(encoding="utf-8")):
            cited += 1
            place = f"{path.relative_to(ROOT)}: SPEC {section} {numbers or ''}"
            assert section in known, place
            assert not numbers or set(numbers) <= rows(section), place
    assert cited > 150


def test_the_contract_refers_to_its_own_sections() -> None:
    """`section N` in the text of the contract names one that is there."""
    for number in re.findall(rf"\bsections? ({NUMBER})", CONTRACT):
        assert number in sections(), number


@pytest.mark.skipif(not SHARED.exists(), reason="the original of the contract is not beside this checkout")
def test_the_contract_is_in_step_with_its_original() -> None:
    """From its title on the page is the original, word for word."""
    assert CONTRACT[CONTRACT.index("# loopguard_plugin") :] == SHARED.read_text(encoding="utf-8")
