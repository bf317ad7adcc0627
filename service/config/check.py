"""Checks of single settings: each key exists, each value is of its type and within its bounds."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

import msgspec

from service.config.paths import (
    Path,
    child,
    example,
    expected,
    is_secret,
    is_section,
    is_table,
    settings_of,
    suggestion,
)
from service.config.problems import Problem, WhereOf, shown
from service.config.schema import Section

_LIKE_A_SETTING = 0.8
"""A courier's own key that is this close to a setting is a slip of the pen, not a credential."""


def problems_of(raw: Any, kind: Any, where_of: WhereOf, path: Path = ()) -> Iterator[Problem]:
    """Everything that is wrong at `path` and below, in the order of the file."""
    if not is_table(kind):
        if (problem := _value_problem(raw, kind, where_of, path)) is not None:
            yield problem
        return
    if not isinstance(raw, dict):
        fix = f"Write [{'.'.join(path)}] and the keys below it."
        yield Problem(".".join(path), where_of(path), "a single value", "a table", fix)
        return
    for name, value in raw.items():
        below = (*path, name)
        if is_section(kind) and _is_unknown(kind, name, value):
            yield _unknown(kind, below, where_of(below))
        else:
            yield from problems_of(value, child(kind, name), where_of, below)


def shape(raw: dict[str, Any], section: type[Section]) -> dict[str, Any]:
    """Bring a checked raw table into the form msgspec reads: free keys under their field."""
    shaped: dict[str, Any] = {}
    for name, value in raw.items():
        kind = child(section, name)
        if section.FREE and name not in settings_of(section):
            shaped.setdefault(section.FREE, {})[name] = value
        elif is_section(kind):
            shaped[name] = shape(value, kind)
        elif is_table(kind):
            shaped[name] = {key: shape(each, child(kind, key)) for key, each in value.items()}
        else:
            shaped[name] = value
    return shaped


def _is_unknown(section: type[Section], name: str, value: Any) -> bool:
    if name in settings_of(section):
        return False
    near = difflib.get_close_matches(name, settings_of(section), 1, _LIKE_A_SETTING)
    return not section.FREE or bool(near) or name == section.FREE or isinstance(value, dict)


def _unknown(section: type[Section], path: Path, where: str) -> Problem:
    names = settings_of(section)
    fix = suggestion(path, where, names)
    return Problem(".".join(path), where, "an unknown key", "one of " + ", ".join(names), fix)


def _value_problem(raw: Any, kind: Any, where_of: WhereOf, path: Path) -> Problem | None:
    try:
        msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        where, found = where_of(path), shown(raw, secret=is_secret(path))
        return Problem(".".join(path), where, found, expected(kind), example(path, where))
    return None
