"""One mutant: a small replacement in one file, and the tests that must not let it pass."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

CHAOS = "tests/reliability/"
"""Where the judge of fault runs is imported from."""


class DoesNotApply(Exception):
    """The text to be replaced is not there exactly once: the catalogue is out of date."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A replacement of `old` by `new` in the file `where` (a path in the repository).

    `name` says in words what the code does then. `breaks` are the invariants I1 to I12 and the
    original system's flaws F1 to F20 that it brings about. `tests` are node ids without `tests/`,
    the fewest that must catch it. `daily`: tried by `make prove` too.
    """

    name: str
    breaks: str
    where: str
    old: str
    new: str
    tests: tuple[str, ...]
    daily: bool = False

    @property
    def file(self) -> Path:
        """The file that it replaces a piece of."""
        return REPOSITORY / self.where

    @property
    def is_lua(self) -> bool:
        """Whether it is a script of Redis, and not a module."""
        return self.file.suffix == ".lua"

    @property
    def module(self) -> str:
        """The module whose import serves it: for a script, the one that reads all scripts."""
        if self.is_lua:
            return "limits.script_file"
        return self.where.removeprefix(CHAOS).removesuffix(".py").replace("/", ".")

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The tests as pytest takes them, from the repository."""
        return tuple(f"tests/{test}" for test in self.tests)

    def applied(self, source: str) -> str:
        """Replace. Raises DoesNotApply."""
        if (times := source.count(self.old)) != 1:
            raise DoesNotApply(f"{self.name}: its text stands {times} times in {self.where}")
        return source.replace(self.old, self.new)


def written(mutant: Mutant) -> str:
    """Write a mutant for `read`."""
    return json.dumps(asdict(mutant))


def read(text: str) -> Mutant:
    """Read what `written` wrote."""
    members = json.loads(text)
    return Mutant(**(members | {"tests": tuple(members["tests"])}))
