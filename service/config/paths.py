"""Settings by their path: which there are, and how each is written.

A setting is written as a key of config.toml, or as a variable of the environment.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, get_args, get_origin

import msgspec
from msgspec import inspect

from service.config.schema import Allowed, Config, Courier, Section

Path = tuple[str, ...]

SECRET_TEXT = frozenset({("redis", "url"), ("mongodb", "uri")})
"""Addresses that may hold a password; credentials come on top."""


def is_table(kind: Any) -> bool:
    """Tell a section or a table of sections (true) from a single value."""
    return is_section(kind) or get_origin(kind) is dict


def is_section(kind: Any) -> bool:
    """Tell whether the type is one of `schema` with named settings."""
    return isinstance(kind, type) and issubclass(kind, Section)


@cache
def settings_of(section: type[Section]) -> dict[str, Any]:
    """List the named settings of a section and their types, in the order of the schema."""
    return {
        field.name: field.type
        for field in msgspec.structs.fields(section)
        if field.name != section.FREE
    }


def child(kind: Any, name: str) -> Any:
    """Find the type of the setting `name` below `kind`, None when there is no such setting."""
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    if not is_section(kind):
        return None
    return settings_of(kind).get(name, str if kind.FREE else None)


def kind_at(path: Path) -> Any:
    """Find the type of the setting at `path`, None when there is no such setting."""
    kind: Any = Config
    for name in path:
        kind = child(kind, name)
        if kind is None:
            return None
    return kind


def default_at(path: Path) -> Any:
    """Find what holds at `path` when nothing is set; None when there is nothing."""
    match path:
        case ("limits" | "recheck" as section, "slugs", _, name):
            return getattr(getattr(Config(), section), name, None)
        case ("couriers", _, name):
            return getattr(Courier(), name, None)
        case ("webhooks", "allowed", _, name):
            return getattr(Allowed(), name, None)
        case (section, name):
            return getattr(getattr(Config(), section, None), name, None)
        case _:
            return None


def is_secret(path: Path) -> bool:
    """Tell whether the value may hold a secret: credentials, and addresses with passwords."""
    return path in SECRET_TEXT or is_credential(path)


def is_credential(path: Path) -> bool:
    """Tell whether `path` is a password, or a key of a courier that the schema does not name."""
    match path:
        case ("redis", "sentinel_password") | ("webhooks", "keys") | ("mail", "password"):
            return True
        case ("couriers", _, name):
            section = kind_at(path[:2])
            return name not in settings_of(section)
        case _:
            return False


def is_text(kind: Any) -> bool:
    """Tell whether the setting is text, so that a variable's text is its value as it stands."""
    return kind is not None and not is_table(kind) and _is_text(inspect.type_info(kind))


def expected(kind: Any) -> str:
    """Say what a person must write for a setting of this type."""
    return _expected(inspect.type_info(kind))


def values(raw: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every single value below `raw` with its path; tables are entered, lists are not."""
    if isinstance(raw, dict):
        for name, value in raw.items():
            yield from values(value, (*path, name))
    else:
        yield path, raw


def _is_text(info: inspect.Type) -> bool:
    match info:
        case inspect.Metadata(type=inner):
            return _is_text(inner)
        case inspect.UnionType(types=kinds):
            return all(_is_text(each) or isinstance(each, inspect.NoneType) for each in kinds)
        case _:
            return isinstance(info, inspect.StrType | inspect.LiteralType)


_WORDS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.StrType: 'text in quotes, like "text"',
    inspect.VarTupleType: 'a list of texts, like ["host:1234"]',
}


def _expected(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(extra_json_schema={"description": str(text)}):
            return text
        case inspect.Metadata(type=inner):
            return _expected(inner)
        case inspect.UnionType(types=kinds):
            # None stands for "not set", which nobody writes.
            return _expected(kinds[0])
        case inspect.LiteralType(values=words):
            return "one of " + ", ".join(f'"{word}"' for word in words)
        case inspect.IntType() | inspect.FloatType():
            return _expected_number(info)
    return _WORDS.get(type(info), "a table")


def _expected_number(info: inspect.IntType | inspect.FloatType) -> str:
    words = "a whole number" if isinstance(info, inspect.IntType) else "a number"
    if info.gt is not None:
        words += f" above {info.gt}"
    if info.ge is not None:
        words += f" from {info.ge}"
    if info.le is not None:
        words += f" up to {info.le}"
    return words


PREFIX = "TRACKER_"
_EXAMPLES = {
    "per_hour": "1000",
    "per_day": "10000",
    "together": "10",
    "quotas_count_numbers": "true",
    "service": '"mymaster"',
    "keep": '"-"',
    "networks": '["10.1.0.0/16"]',
    "ports": "[8080]",
    "host": '"smtp.example.com"',
    "user": '"tracker"',
    "sender": '"tracker@example.com"',
    "operators": '"operators@example.com"',
    "own_names": '["track.example.com"]',
    "trusted_proxies": '["127.0.0.1"]',
    "sign_up_domains": '["example.com"]',
    "sign_up_account": '"main"',
    "user_header": '"X-Forwarded-Email"',
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
    if parted := _parted(path):
        meant = parted
    elif near:
        meant = (*path[:-1], near[0])
    else:
        return other
    return f"Did you mean {variable(meant) if where.startswith(PREFIX) else '.'.join(meant)}?"


def _parted(path: Path) -> Path | None:
    """Find the setting that is meant where its variable has `_` in the place of `__`.

    A courier's slug ends at the first `_`, or at that behind which a setting's name begins.
    """
    words = path[-1].split("_")
    for at in range(1, len(words)):
        table, name = words[0], "_".join(words[at:])
        meant = (table, "-".join(words[1:at]), name) if at > 1 else (table, name)
        kind = kind_at((*path[:-1], *meant))
        if kind is not None and (table != "couriers" or is_text(kind)):
            return (*path[:-1], *meant)
    return None


def example(path: Path, where: str) -> str:
    """Say how to write the default, or something else of the right kind where there is none."""
    written = _EXAMPLES.get(path[-1]) or msgspec.json.encode(default_at(path) or "…").decode()
    if where.startswith(PREFIX):
        return f"Write for example {variable(path)}='{written}'."
    return f"Write for example {path[-1]} = {written}."
