"""The Lua scripts: read from the package.

All steps of lines are one script (lua/lib/batch.lua): its text is the library, each operation as a
function, and the loop that runs them. One text for all keeps Lua's heap small, which is collected
again and again while scripts run; and steps of all kinds share what is done once for a line.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

LIBRARY = (
    "context",
    "memory",
    "lists",
    "tallies",
    "state",
    "record",
    "operations",
    "brake",
    "lanes",
    "waiting",
    "flight",
    "draining",
    "taking",
)
"""The parts that operations share, in the order in which they need each other."""

OF_LINE = (
    "admit",
    "again",
    "cancel",
    "cancel_where",
    "finish",
    "forget",
    "hand_back",
    "place",
    "resume",
    "retry",
    "started",
    "sweep",
    "take",
)
"""The operations of the script BATCH."""

BATCH = "batch"

ALONE = ("add_up", "archive", "epoch", "inspect", "malformed", "survey")
"""Scripts that belong to no line and use no part of the library."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script's name, its whole text, and the hash by which Redis knows it."""

    name: str
    text: str
    sha: str


def load() -> dict[str, Script]:
    """Read all scripts: BATCH and those of ALONE."""
    folder = files("limits") / "lua"
    parts = [(folder / "lib" / f"{name}.lua").read_text() for name in LIBRARY]
    parts.append("local operations = {}\n")
    for name in OF_LINE:
        text = (folder / f"{name}.lua").read_text()
        parts.append(f"function operations.{name}()\n{text}end\n")
    parts.append((folder / "lib" / f"{BATCH}.lua").read_text())
    texts = {BATCH: "".join(parts)}
    texts |= {name: (folder / f"{name}.lua").read_text() for name in ALONE}
    return {name: Script(name, text, _sha(text)) for name, text in texts.items()}


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
