"""The names of the keys stand in limits/keys.py; scripts name them again, and must agree."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from limits.keys import MEASURED, TO_ARCHIVE, LineKeys, of_line
from tracking.line import Line

LINE = Line("some-courier")
SCRIPT = (files("limits") / "lua/lib/context.lua").read_text()
SHARED = ("lines", "epoch", "status", "forgotten", "history")


@pytest.mark.parametrize("field", [each for each in LineKeys._fields if each not in SHARED])
def test_scripts_name_a_lines_keys_as_we_do(field: str) -> None:
    before, _, behind = getattr(of_line(LINE), field).partition(LINE)
    name = "slug" if field == "answer" else "line"
    written = f"'{before}'" if field == "wait_list" else f"'{before}' .. {name}"

    assert (written + (f" .. '{behind}'" if behind else "")) in SCRIPT


@pytest.mark.parametrize("field", SHARED)
def test_scripts_name_the_keys_of_all_lines_as_we_do(field: str) -> None:
    assert f"'{getattr(of_line(LINE), field)}'" in SCRIPT


def test_an_end_names_the_set_of_what_is_to_be_archived_as_we_do() -> None:
    state = (files("limits") / "lua/lib/state.lua").read_text()

    assert f"'{TO_ARCHIVE}'" in state


def test_what_was_measured_goes_to_the_stream_that_we_read() -> None:
    batch = (files("limits") / "lua/lib/batch.lua").read_text()

    assert f"'{MEASURED}'" in batch


@pytest.mark.parametrize(("script", "keys"), [("survey", 2), ("inspect", 10)])
def test_what_looks_before_a_sweep_names_a_lines_keys_as_we_do(script: str, keys: int) -> None:
    text = (files("limits") / f"lua/{script}.lua").read_text()
    named = set(re.findall(r"'([a-z_]+:)' \.\. line", text))
    ours = {getattr(of_line(LINE), field).partition(LINE)[0] for field in LineKeys._fields}

    assert len(named) == keys
    assert named <= ours
