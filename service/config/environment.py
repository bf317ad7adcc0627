"""Settings out of the environment: `TRACKER_` and the path in upper case, joined by `__`.

======================================= ==========================================
variable                                setting
======================================= ==========================================
TRACKER_REDIS__URL                      redis.url
TRACKER_REDIS__URL_FILE                 redis.url, read from that file
TRACKER_WORKER__PROCESSES=4             worker.processes (JSON, as it is no text)
TRACKER_COURIERS__ROYAL_MAIL__CLIENT_ID couriers.royal-mail.client_id
TRACKER_LIMITS__SLUGS='{"usps": {…}}'   limits.slugs, a table as JSON
TRACKER_CONFIG                          no setting: which file to read
======================================= ==========================================
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from service.config.paths import (
    PREFIX,
    Path,
    example,
    expected,
    is_secret,
    is_text,
    kind_at,
    path_of,
    values,
    variable,
)
from service.config.problems import ConfigError, Problem, shown

WHICH_FILE = "TRACKER_CONFIG"
FROM_FILE = "_FILE"
_SERVICE_LINK = re.compile(
    r"TRACKER_([A-Z0-9]+_)*(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)"
)
"""What Kubernetes sets by itself where a Service's name begins with "tracker"."""

_UNDECODED = re.compile("[\ud800-\udfff]")
"""How Python passes bytes of a variable on that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """What the environment sets: values by path, where each came from, and what was wrong."""

    values: dict[Path, Any] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read(environment: Mapping[str, str]) -> Overlay:
    """Read all settings out of `environment`; what is no setting is kept, to be refused later."""
    overlay = Overlay()
    named = [name for name in environment if name.startswith(PREFIX) and name != WHICH_FILE]
    # Tables first, so that a variable for one key wins over a table that holds it too.
    for name in sorted(named, key=lambda name: (name.count("__"), name)):
        path = path_of(name.removesuffix(FROM_FILE))
        try:
            value, origin = _value(path, name, environment)
        except ConfigError as error:
            overlay.problems.extend(error.problems)
            continue
        for below, single in values(value, path):
            overlay.values[below] = single
            overlay.origins[below] = origin
    return overlay


def _value(path: Path, name: str, environment: Mapping[str, str]) -> tuple[Any, str]:
    """Tell the value and where it came from. Raises ConfigError with one problem."""
    kind = kind_at(path)
    given = environment[name]
    if name != name.upper():
        raise _wrong(path, name, "lower case", "upper case", f"Write {name.upper()}.")
    if _SERVICE_LINK.fullmatch(name):
        fix = "Set enableServiceLinks: false in the pod, or rename the Service."
        raise _wrong(path, name, "what Kubernetes sets for a Service", "a setting", fix)
    if kind is None:
        return given, name
    if name.endswith(FROM_FILE):
        return _from_file(path, name, environment), f"{name} -> {given}"
    if _UNDECODED.search(given):
        raise _wrong(path, name, "bytes that are not UTF-8", "UTF-8", "Write it in UTF-8.")
    if is_text(kind):
        return given, name
    try:
        return msgspec.json.decode(given), name
    except (msgspec.DecodeError, RecursionError):
        found = shown(given, secret=is_secret(path))
        raise _wrong(path, name, found, f"{expected(kind)}, as JSON", example(path, name)) from None


def _from_file(path: Path, name: str, environment: Mapping[str, str]) -> str:
    file = environment[name]
    if not is_text(kind_at(path)):
        fix = f"Only texts are read from files: set {variable(path)}."
        raise _wrong(path, name, "a file", expected(kind_at(path)), fix)
    if variable(path) in environment:
        fix = f"Unset {variable(path)} or {name}."
        raise _wrong(path, name, "two variables for it", "one", fix)
    try:
        return pathlib.Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        found = f"{shown(file)} ({error.strerror})"
    except UnicodeDecodeError:
        found = f"{shown(file)} (not UTF-8)"
    raise _wrong(path, name, found, "a readable file", "Create it for the user of the worker.")


def _wrong(path: Path, name: str, found: str, wanted: str, fix: str) -> ConfigError:
    return ConfigError([Problem(".".join(path), name, found, wanted, fix)])
