"""Every Lua file begins with a comment that tells its KEYS, its ARGV and what it returns."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from lupa.lua51 import LuaRuntime, LuaSyntaxError

from limits.script_file import BATCH, OF_LINE, load

LUA = Path(__file__).resolve().parents[2] / "limits" / "lua"
OF_THE_LINE = "KEYS     of the line, see lib/context.lua"

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
    if OF_THE_LINE in header:
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


def said_of_library(header: str) -> dict[str, set[str]]:
    """The functions that a header names, by their file in the library."""
    rows = header.partition("\nUses     ")[2].partition("\n\n")[0]
    parts = re.split(r"^\s*(\w+):", re.sub(r"^nothing$", "", rows), flags=re.MULTILINE)[1:]
    return {
        file: set(re.findall(r"\w+", names))
        for file, names in zip(parts[::2], parts[1::2], strict=True)
    }


def used_of_library(body: str) -> dict[str, set[str]]:
    code = without_comments(body)
    words = set(re.findall(r"(?<![.\w])\w+", code)) - set(re.findall(r"function (\w+)", code))
    found = {}
    for path in (LUA / "lib").glob("*.lua"):
        names = re.findall(r"^(?:local |  )function (\w+)", path.read_text(), re.MULTILINE)
        if called := words & set(names):
            found[path.stem] = called
    return found


def without_comments(body: str) -> str:
    return re.sub(r"--\[\[.*?\]\]|--[^\n]*|'[^'\n]*'", "", body, flags=re.DOTALL)


@pytest.mark.parametrize("name", OF_LINE)
def test_an_operation_says_which_functions_of_the_library_it_uses(name: str) -> None:
    header, body = split((LUA / f"{name}.lua").read_text())

    assert re.search(r"^Uses     \w", header, re.MULTILINE)
    assert said_of_library(header) == used_of_library(body)


LOCALS_MOST = 170
"""Lua allows 200 in one chunk, and does not run what has more."""


def locals_in(text: str) -> int:
    """How many local names a chunk has, found by how many more it may have."""
    lua = LuaRuntime()
    for more in range(1, 201):
        names = ",".join(f"x{each}" for each in range(more))
        with suppress(LuaSyntaxError):
            lua.compile(f"local {names}\n{text}")
            continue
        return 201 - more
    return 0


def test_locals_are_counted() -> None:
    assert locals_in("local a, b = 1, 2\nlocal function c() local d = 1 return d end") == 3


def test_the_one_script_is_far_from_luas_limit_of_locals() -> None:
    assert locals_in(load()[BATCH].text) < LOCALS_MOST


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
    + OF_THE_LINE
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
