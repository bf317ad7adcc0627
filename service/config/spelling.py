"""How a setting is written: as a key of config.toml, or as a variable of the environment."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec

from service.config.paths import Path, default_at

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
