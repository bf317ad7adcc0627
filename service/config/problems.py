"""What is wrong with one setting, and how to write it instead, in the file or as a variable."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from service.config.paths import Path, default_at

SHOWN_MOST = 60
PREFIX = "TRACKER_"
_EXAMPLES = {
    "per_hour": "1000",
    "per_day": "10000",
    "service": '"mymaster"',
    "keep": '"-"',
    "module": '"json_feed"',
    "base_url": '"https://api.example.com"',
    "token_url": '"https://api.example.com/token"',
}
"""Of settings whose default is that there is none."""

_SLUG_AT = {("couriers",): 1, ("limits", "slugs"): 2, ("recheck", "slugs"): 2}


class Finding(NamedTuple):
    """A problem before it is known where its setting stands.

    `reads` are the paths of several settings that do not fit together: where one of them is wrong
    by itself, nobody can tell yet.
    """

    path: tuple[str, ...]
    found: str
    expected: str
    fix: str
    reads: tuple[tuple[str, ...], ...] = ()


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
    """The configuration cannot be used; nothing may be started with it. Lists every problem."""

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


def variable(path: Path) -> str:
    """Name the variable that sets `path`."""
    return PREFIX + "__".join(name.upper().replace("-", "_") for name in path)


def path_of(name: str) -> Path:
    """Find the setting that a variable names.

    A slug holds no underscore, so `_` in its place means `-`.
    """
    parts = name.removeprefix(PREFIX).lower().split("__")
    for table, at in _SLUG_AT.items():
        if tuple(parts[:at]) == table and len(parts) > at:
            parts[at] = parts[at].replace("_", "-")
    return tuple(parts)


def suggestion(path: Path, where: str, names: Iterable[str], other: str = "Remove it.") -> str:
    """Say which of `names` was probably meant by the last name of `path`; `other` if none."""
    near = difflib.get_close_matches(path[-1], names, 1)
    if not near:
        return other
    meant = (*path[:-1], near[0])
    return f"Did you mean {variable(meant) if where.startswith(PREFIX) else '.'.join(meant)}?"


def example(path: Path, where: str) -> str:
    """Say how to write the default, or something else of the right kind where there is none."""
    written = _EXAMPLES.get(path[-1]) or msgspec.json.encode(default_at(path) or "…").decode()
    if where.startswith(PREFIX):
        return f"Write for example {variable(path)}='{written}'."
    return f"Write for example {path[-1]} = {written}."
