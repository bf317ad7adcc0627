"""Fields made safe to write: no control characters, no secrets, no endless texts."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from couriers.http.redaction import redact

FIELD_MOST = 600
TRACEBACK_MOST = 1_500
"""A line stays below 4 KiB with these: that much a pipe takes whole, so that the lines of several
processes do not mix."""

SEARCHED_MOST = 8_192

_CHECKED_BEFORE = frozenset({"slug", "number", "operation", "tag", "outcome", "worker"})
"""Fields whose characters were checked at the border; a search of each costs more than the rest of
the line. Length and control characters are still seen to."""

Clean = Callable[[Mapping[str, Any]], dict[str, Any]]


def cleaner(secrets: Collection[str]) -> Clean:
    """Make the function that cleans the fields of one line; `secrets` are taken out literally."""
    hidden = frozenset(secrets)

    def clean(fields: Mapping[str, Any]) -> dict[str, Any]:
        line: dict[str, Any] = {}
        for name, value in fields.items():
            # Most fields are these, of which `_clean` would make the same.
            is_clean = type(value) is int or (
                name in _CHECKED_BEFORE
                and type(value) is str
                and len(value) <= FIELD_MOST
                and value.isprintable()
            )
            line[name] = value if is_clean else _clean(name, value, hidden)
        return line

    return clean


def traceback_of(error: BaseException) -> str:
    """Render the traceback of an error, the innermost frame last."""
    return "".join(traceback.format_exception(error))


def last_line_of(error: BaseException) -> str:
    """What a traceback ends with, and the line that raised it; without what looks like a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    line = traceback.format_exception_only(error)[-1].strip()
    return printable(redact(line, ()))[:FIELD_MOST] + where


def printable(text: str) -> str:
    """Escape what could forge a line or steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _clean(name: str, value: Any, secrets: Collection[str]) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    most = TRACEBACK_MOST if name == "traceback" else FIELD_MOST
    text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    # The end of a traceback names the error. Cut roughly first, as no text is worth a slow search,
    # and finely only after the search: half a secret is still one.
    text = text[-SEARCHED_MOST:] if name == "traceback" else text[:SEARCHED_MOST]
    if name not in _CHECKED_BEFORE:
        text = redact(text, secrets)
    text = printable(text)
    if len(text) <= most:
        return text
    return f"…{text[-most:]}" if name == "traceback" else f"{text[:most]}…"
