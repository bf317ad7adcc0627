"""Every Lua file begins with a comment that tells its KEYS, its ARGV and what it returns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LUA = Path(__file__).resolve().parents[2] / "limits" / "lua"
OF_THE_SLUG = "KEYS     of the slug, see lib/context.lua"

HEADER = re.compile(r"\A--\[\[\n(?P<name>\w+): .+?^\]\]$", re.DOTALL | re.MULTILINE)
ANY = "…"
"""Stands for every further index: `ARGV[1…]` in a header, `ARGV[i]` in a script."""


def operations() -> list[Path]:
    return sorted(LUA.glob("*.lua"))


def split(text: str) -> tuple[str, str]:
    found = HEADER.match(text)
    assert found, "a Lua file begins with --[[, its name, a colon, what it does"
    return found[0], text[found.end() :]


def documented(header: str, what: str) -> set[str]:
    rows = re.findall(rf"^{what}\[(\d+)({ANY}?)\]", header, re.MULTILINE)
    return {ANY if more else index for index, more in rows}


def used(body: str, what: str) -> set[str]:
    code = re.sub(r"--.*", "", body)
    return {
        index if index.isdigit() else ANY for index in re.findall(rf"\b{what}\[([^\]]+)\]", code)
    }


def drift(text: str) -> dict[str, set[str]]:
    """Find the indices that are used and not documented, or the reverse."""
    header, body = split(text)
    if OF_THE_SLUG in header:
        return _drift_of_arguments(header, body)
    found = {}
    for what in ("KEYS", "ARGV"):
        expected = used(body, what)
        if ANY in documented(header, what):
            expected |= {ANY}  # `#ARGV` reads them without an index
        wrong = expected ^ documented(header, what)
        if wrong:
            found[what] = wrong
    return found


def _drift_of_arguments(header: str, body: str) -> dict[str, set[str]]:
    """An operation is a function: its header names what it takes, in that order."""
    listed = header.partition("\nARGV ")[2].partition("\n\n")[0]
    named = re.findall(r"^  (\w+)", listed, re.MULTILINE)
    taken = re.findall(r"^return function\((.*?)\)", body, re.MULTILINE)
    assert len(taken) == 1, "an operation's file returns one function"
    arguments = re.findall(r"\w+", taken[0])
    wrong = set(named) ^ set(arguments) or ({ANY} if named != arguments else set())
    wrong |= used(body, "KEYS") | used(body, "ARGV")
    return {"ARGV": wrong} if wrong else {}


@pytest.mark.parametrize("path", operations(), ids=lambda path: path.name)
def test_a_script_documents_exactly_the_indices_it_uses(path: Path) -> None:
    assert drift(path.read_text()) == {}


@pytest.mark.parametrize("path", operations(), ids=lambda path: path.name)
def test_a_script_says_what_it_returns(path: Path) -> None:
    header, _ = split(path.read_text())

    assert re.search(r"^Returns  \S", header, re.MULTILINE)


@pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda path: path.name)
def test_a_header_begins_with_the_name_of_its_file(path: Path) -> None:
    found = HEADER.match(path.read_text())

    assert found is not None
    assert found["name"] == path.stem


PLANTED = "--[[\nplanted: a script\n\nKEYS[1]  k\nARGV[1]  a\nARGV[2]  b\n\nReturns  {now}\n]]\n"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return {KEYS[1], ARGV[1], ARGV[2]}", {}),
        ("return {KEYS[1], ARGV[1]}", {"ARGV": {"2"}}),
        ("return {KEYS[1], ARGV[1], ARGV[2], ARGV[3]}", {"ARGV": {"3"}}),
        ("return {KEYS[1], ARGV[1], ARGV[i]}", {"ARGV": {"2", ANY}}),
        ("return {KEYS[2], ARGV[1], ARGV[2]}", {"KEYS": {"1", "2"}}),
        ("return {ARGV[1], ARGV[2]} -- KEYS[1]", {"KEYS": {"1"}}),
    ],
)
def test_a_planted_drift_is_found(body: str, found: dict[str, set[str]]) -> None:
    assert drift(PLANTED + body) == found


OPERATION = (
    "--[[\nplanted: an operation\n\n"
    + OF_THE_SLUG
    + "\nARGV     behind the reports, see lib/batch.lua:\n  id       a\n  room     b\n"
    + "           and more of b\n\nReturns  {now}\n]]\n"
)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return function(id, room)\nend", {}),
        ("return function(room, id)\nend", {"ARGV": {ANY}}),
        ("return function(id)\nend", {"ARGV": {"room"}}),
        ("return function(id, room, more)\nend", {"ARGV": {"more"}}),
        ("return function(id, room)\nreturn ARGV[3]\nend", {"ARGV": {"3"}}),
    ],
)
def test_a_planted_drift_of_an_operation_is_found(body: str, found: dict[str, set[str]]) -> None:
    assert drift(OPERATION + body) == found
