"""The Lua scripts: read from the package.

All steps of lines are one script (lua/lib/batch.lua): its text is the library, each operation as a
function, and the loop that runs them. One text for all keeps Lua's heap small, which is collected
again and again while scripts run; and steps of all kinds share what is done once for a line.

All behind the part `context` is one function inside it. A Lua closure that takes a name of the
function right around it looks for it among all names that closures have taken there (luaF_findupval
in Lua's lfunc.c); a name from further out is at hand. Nearly every function takes names of
`context`: a script that has no step takes Redis 55 to 65 µs so, and 92 to 105 without.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

LIBRARY = (
    "context",
    "memory",
    "state",
    "record",
    "brake",
    "quotas",
    "lanes",
    "waiting",
    "flight",
    "filling",
    "groups",
    "taking",
)
"""The parts that operations share, in the order in which they need each other. All behind the first
one are inside a function, which Lua lets take 60 names from outside."""

OF_LINE = (
    "admit",
    "again",
    "ask_alone",
    "cancel",
    "cancel_where",
    "clear",
    "finish",
    "forget",
    "halve",
    "hand_back",
    "place",
    "resume",
    "retry",
    "revise",
    "room",
    "split",
    "started",
    "sweep",
    "take",
    "wake",
)
"""The operations of the script BATCH."""

BATCH = "batch"

ALONE = (
    "add_up",
    "archive",
    "epoch",
    "inspect",
    "judge",
    "leap",
    "malformed",
    "plan",
    "ration",
    "survey",
)
"""Scripts that belong to no line and use no part of the library."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script's name, its whole text, and the hash by which Redis knows it."""

    name: str
    text: str
    sha: str


@functools.cache
def load() -> Mapping[str, Script]:
    """Read all scripts, once in a process: BATCH and those of ALONE."""
    folder = files("limits") / "lua"
    parts = [(folder / "lib" / f"{name}.lua").read_text() for name in LIBRARY]
    parts.insert(1, "return (function()\n")
    parts.append("local operations, asked = {}, ' ' .. ARGV[3]\n")
    for name in OF_LINE:
        text = (folder / f"{name}.lua").read_text()
        parts.append(f"if string.find(asked, ' {name} ', 1, true) then\n")
        parts.append(f"operations.{name} = (function()\n{text}end)()\nend\n")
    parts.append((folder / "lib" / f"{BATCH}.lua").read_text())
    parts.append("end)()\n")
    texts = {BATCH: "".join(parts)}
    texts |= {name: (folder / f"{name}.lua").read_text() for name in ALONE}
    return MappingProxyType({name: Script(name, text, _sha(text)) for name, text in texts.items()})


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
