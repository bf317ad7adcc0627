"""The text of config.toml: what it says, and on which line each value stands.

The TOML parser of Python does not tell lines, and stops at the first slip; here the others are read
all the same.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as File
from typing import Any

from service.config.paths import Path, example, expected, is_table, kind_at, values
from service.config.problems import Problem


def lines_of(text: str) -> dict[Path, int]:
    """Find the line, from 1, on which each value and each header of a valid TOML text begins."""
    found: dict[Path, int] = {}
    table: Path = ()
    for number, statement in _statements(text):
        parsed = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            table = _innermost(parsed)
            found[table] = number
        else:
            found.update({(*table, *path): number for path, _ in values(parsed)})
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Split into headers and assignments, each with its first line.

    The smallest run of lines that parses by itself is one statement: an open list or text does not.
    """
    pending = ""
    first = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not pending:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            first = number
        pending += line
        if _is_toml(pending):
            yield first, pending
            pending = ""


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _innermost(parsed: dict[str, Any]) -> Path:
    """Find the path of the one table that a header opens."""
    path: Path = ()
    inner: Any = parsed
    while isinstance(inner, dict) and inner:
        ((name, inner),) = inner.items()
        path = (*path, name)
    return path


SLIPS_MOST = 20
"""A file with more of them is something else than a configuration."""

_HEADER = re.compile(r"\s*\[\[?([^\[\]#,]+)")
_KEY = re.compile(r"\s*([^\s\[\]{}#,=][^\[\]{}#,=]*)=")
_NEXT_HEADER = re.compile(r"\s*\[.*\]\s*(#|$)")
_NEXT = re.compile(rf"{_NEXT_HEADER.pattern}|{_KEY.pattern}")
_AT_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True)
class Document:
    """What a file sets, without its slips; `doubtful` are the paths that those leave open."""

    raw: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    problems: list[Problem] = field(default_factory=list)
    doubtful: set[Path] = field(default_factory=set)

    @cached_property
    def lines(self) -> Mapping[Path, int]:
        """Where each value stands; found once somebody asks, as it takes longer than to read."""
        return lines_of(self.text)


def read(file: File) -> Document:
    """Read what can be read; nothing of a file that is no text."""
    try:
        # A byte order mark is what some editors put first; it means nothing.
        return _parsed(file, file.read_text(encoding="utf-8-sig").split("\n"))
    except OSError as error:
        found = error.strerror or "an error"
    except UnicodeDecodeError:
        found = "text that is not UTF-8"
    except RecursionError:
        found = "lists or tables that are nested too deep"
    except ValueError:
        found = "a number of thousands of digits"
    return Document(problems=[_unreadable(file, found)], doubtful={()})


def _parsed(file: File, lines: list[str]) -> Document:
    problems: list[Problem] = []
    doubtful: set[Path] = set()
    while len(problems) < SLIPS_MOST:
        text = "\n".join(lines)
        try:
            return Document(tomllib.loads(text), text, problems, doubtful)
        except tomllib.TOMLDecodeError as error:
            at = _AT_LINE.search(str(error))
            slip = _slip(lines, int(at[1]) - 1 if at else len(lines))
            path = _path(lines, slip.start)
            problems.append(_problem(file, path, slip.start + 1, str(error)))
            doubtful.add(path)
            lines[slip.start : slip.stop] = [""] * len(slip)
    return Document(problems=problems, doubtful={*doubtful, ()})


def _slip(lines: Sequence[str], noticed: int) -> range:
    """Find the statement that is wrong: it may begin long before the line where that is noticed."""
    start = next(
        (at for at in range(min(noticed, len(lines) - 1), 0, -1) if _parses(lines[:at])), 0
    )
    # Without its header, a table's keys would fall to the table above.
    following = _NEXT_HEADER if _HEADER.match(lines[start]) else _NEXT
    after = (at for at in range(start + 1, len(lines)) if following.match(lines[at]))
    return range(start, next(after, len(lines)))


def _parses(lines: Sequence[str]) -> bool:
    try:
        tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _path(lines: Sequence[str], at: int) -> Path:
    """Tell what a line is about: its table, or the key in the table it stands in."""
    header = _HEADER.match(lines[at])
    key = None if header else _KEY.match(lines[at])
    above = (found for line in reversed(lines[:at]) if (found := _HEADER.match(line)))
    table = header or next(above, None)
    return (*_names(table), *_names(key)) if header or key else ()


def _names(found: re.Match[str] | None) -> Iterator[str]:
    return (name.strip(" \"'") for name in found[1].split(".")) if found else iter(())


def _problem(file: File, path: Path, line: int, error: str) -> Problem:
    where = f"{file}:{line}"
    kind = kind_at(path)
    if path and kind is not None and not is_table(kind):
        wanted, fix = expected(kind), example(path, where)
    else:
        wanted, fix = "[TABLE] or KEY = VALUE", 'Texts stand in quotes: KEY = "text".'
    return Problem(
        ".".join(path) or str(file), where, f"text that is not TOML: {error}", wanted, fix
    )


def _unreadable(file: File, found: str) -> Problem:
    fix = "Correct it, or name another file with --config or TRACKER_CONFIG."
    return Problem(str(file), "", found, "a TOML file", fix)
