"""The text of config.toml: what it says, and on which line each value stands.

The TOML parser of Python does not tell lines.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as File
from typing import Any

from service.config.paths import Path, values
from service.config.problems import ConfigError, Problem


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


_AT_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True)
class Document:
    """The text of a file, and what it sets."""

    raw: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    @cached_property
    def lines(self) -> Mapping[Path, int]:
        """Where each value stands; found once somebody asks, as it takes longer than to read."""
        return lines_of(self.text)


def read(file: File) -> Document:
    """Read a file. Raises ConfigError for one that is no TOML."""
    where, fix = "", "Correct it, or name another file with --config or TRACKER_CONFIG."
    try:
        # A byte order mark is what some editors put first; it means nothing.
        text = file.read_text(encoding="utf-8-sig")
        return Document(tomllib.loads(text), text)
    except OSError as error:
        found = error.strerror or "an error"
    except UnicodeDecodeError:
        found = "text that is not UTF-8"
    except RecursionError:
        found = "lists or tables that are nested too deep"
    except tomllib.TOMLDecodeError as error:
        found = f"text that is not TOML: {error}"
        at = _AT_LINE.search(found)
        where = f"{file}:{at[1]}" if at else ""
        fix = 'Write [TABLE] or KEY = VALUE; texts stand in quotes: KEY = "text".'
    except ValueError:
        found = "a number of thousands of digits"
    raise ConfigError([Problem(str(file), where, found, "a TOML file", fix)])
