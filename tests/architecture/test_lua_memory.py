"""What scripts remember of a line is read and written in one file."""

from __future__ import annotations

import re

from test_lua_headers import LUA

HOLD_IT = {"context.lua", "memory.lua"}
"""Where it is made, and whose it is."""


def test_what_is_known_of_a_line_is_read_and_written_in_one_file_only() -> None:
    found = {
        path.name for path in LUA.rglob("*.lua") if re.search(r"\bknown\.\w", path.read_text())
    }

    assert found == HOLD_IT


def test_each_thing_that_is_remembered_stands_in_the_table() -> None:
    head, code = (LUA / "lib" / "memory.lua").read_text().split("]]", 1)
    made = (LUA / "lib" / "context.lua").read_text().split("known = {")[1].partition("\n")[0]
    remembered = set(re.findall(r"\bknown\.(\w+)", code)) - set(re.findall(r"(\w+) =", made))

    assert remembered == {name for name in remembered if re.search(rf"\b{name}\b", head)}
