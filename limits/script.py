"""The Lua scripts: read from the package, with the parts they share in front of each.

A script of a slug runs its operation for many requests at once (lua/lib/batch.lua), so its text is
the library, the operation as a function, and the loop around it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

LIBRARY = ("slug", "record", "operations", "lanes", "waiting", "flight", "turns")
"""The parts that scripts of one slug share, in the order in which they need each other."""

ALONE = ("epoch", "survey")
"""Scripts that belong to no slug and use no part of the library."""

OF_SLUG = (
    "abort",
    "admit",
    "again",
    "cancel",
    "finish",
    "requeue",
    "retry",
    "started",
    "sweep",
    "take",
)


@dataclass(frozen=True, slots=True)
class Script:
    """One operation: its whole text, the hash by which Redis knows it, and whether it batches."""

    name: str
    text: str
    sha: str
    batches: bool


def load() -> dict[str, Script]:
    """Read all scripts."""
    folder = files("limits") / "lua"
    library = "".join((folder / "lib" / f"{name}.lua").read_text() for name in LIBRARY)
    batch = (folder / "lib" / "batch.lua").read_text()
    scripts = {}
    for name in (*OF_SLUG, *ALONE):
        text = (folder / f"{name}.lua").read_text()
        if name in OF_SLUG:
            text = f"{library}\nlocal function operation(ARGV)\n{text}\nend\n{batch}"
        sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        scripts[name] = Script(name, text, sha, name in OF_SLUG)
    return scripts
