"""What is wrong with one setting, and what to do about it.

Imports nothing of weight: the command line tells a configuration's problems, and `--help` needs
none of what finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WhereOf = Callable[[tuple[str, ...]], str]
"""Where a path was set: a line of the file or a variable."""

SHOWN_MOST = 60


class Finding(NamedTuple):
    """A problem before it is known where its setting stands."""

    path: tuple[str, ...]
    found: str
    expected: str
    fix: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One setting that cannot stand.

    `where` is the line of the file or the name of the variable, "" when it is nowhere.
    `found` and `expected` complete "found …, expected …"; `fix` is a sentence in the imperative.
    """

    path: str
    where: str
    found: str
    expected: str
    fix: str

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        name = self.path or "a key without a name"
        return f"{name}{place}: found {self.found}, expected {self.expected}. {self.fix}"


class ConfigError(Exception):
    """The configuration cannot be used; nothing may be started with it. Lists its problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def shown(value: object, *, secret: bool = False) -> str:
    """Quote a value as a message may: in one short line, and never a secret."""
    try:
        text = "a secret, which is not shown" if secret else ascii(value)
    except ValueError:
        # Python does not write out what 0xfff… may be.
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN_MOST else f"{text[: SHOWN_MOST - 1]}…"
