"""docs/flow.md says what the code does: states, keys, answers of scripts, fail points."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from limits import keys
from service.worker.wiring.failpoints import FailPoint
from tracking.operation import ENDS, State

ROOT = Path(__file__).parents[2]
LUA = ROOT / "limits" / "lua"
PAGE = (ROOT / "docs" / "flow.md").read_text("utf-8")
NOW = "now"


def table(header: str) -> list[list[str]]:
    """The rows of the table whose first line begins so."""
    rows = PAGE.split(f"\n{header}", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_states_and_their_transitions_are_those_of_the_code() -> None:
    told = {row[0]: set(re.findall(r"[A-Z]+", row[2])) for row in table("| state | means |")[1:]}
    rows = re.findall(r"(?m)^    ([A-Z]+) = '([A-Z ]*)',$", (LUA / "lib/state.lua").read_text())
    moves = {before: set(after.split()) for before, after in rows}

    assert moves.pop("NONE") == told["QUEUED"]
    assert moves == told
    assert told.keys() == set(State)
    assert {state for state, after in told.items() if not after} == ENDS


def test_the_picture_of_the_states_shows_each_of_them() -> None:
    section = PAGE.split("## 3. ")[1].split("## 4. ")[0]
    picture = section.split("```")[1]

    assert set(re.findall(r"[A-Z]{3,}", picture)) == set(map(str, State))


def test_every_key_either_decides_or_shows() -> None:
    listed = [name for row in table("| | keys |") for name in names(row[1])]
    types = "string|zset|list|hash|set|stream"

    of_code = re.findall(
        rf"^([a-z_:0-9]+?)(?::<.*)? +(?:{types}) ", keys.__doc__ or "", re.MULTILINE
    )
    assert sorted(listed) == sorted(of_code)


def answers_of(script: str) -> set[str]:
    """The answers in the header of a script, without the time that each begins with."""
    header = (LUA / f"{script}.lua").read_text().split("\n]]", 1)[0]
    shapes = re.findall(r"^(?:Returns)? +\{(.*?)\}", header.split("\nReturns", 1)[1], re.MULTILINE)
    return {shape.removeprefix(NOW).removeprefix(", ") for shape in shapes}


def answers_on_the_page() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    script = ""
    for first, answer, *_ in table("| script | answer |"):
        script = (names(first) or [script])[0]
        found.setdefault(script, set()).update(names(answer) or [""])
    return found


def test_every_answer_of_every_script_is_on_the_page() -> None:
    scripts = [path.stem for path in LUA.glob("*.lua")]

    assert answers_on_the_page() == {script: answers_of(script) for script in scripts}


def test_an_answer_tells_its_cause_and_what_the_worker_does() -> None:
    assert [row for row in table("| script | answer |") if not (row[2] and row[3])] == []


def test_every_reason_why_nothing_starts_is_on_the_page() -> None:
    listed = [names(row[0])[0] for row in table("| why | because |")]
    header = (LUA / "take.lua").read_text().split("what binds: ", 1)[1].split("ask  ", 1)[0]

    of_code = re.findall(r"[a-z_]+", re.sub(r"\([^)]*\)", "", header))
    assert sorted(listed) == sorted([*of_code, "named"])


@pytest.mark.parametrize("why", [names(row[0])[0] for row in table("| why | because |")])
def test_a_script_gives_each_of_these_reasons(why: str) -> None:
    assert any(f"'{why}'" in path.read_text() for path in LUA.rglob("*.lua"))


def test_the_fail_points_are_those_of_the_code_in_the_order_of_the_flow() -> None:
    listed = [names(row[0])[0] for row in table("| name | the worker vanishes |")]

    assert listed == list(map(str, FailPoint))
