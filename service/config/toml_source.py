"""On which line of config.toml each value stands; the TOML parser of Python does not tell."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from service.config.paths import Path, values


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
        if _parses(pending):
            yield first, pending
            pending = ""


def _parses(text: str) -> bool:
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
