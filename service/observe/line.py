"""One event as one line: JSON for machines, aligned words for eyes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

LINE_MOST = 4_096
"""What a pipe takes whole, in bytes: longer lines of several processes would mix."""

Render = Callable[[Mapping[str, Any]], bytes]

_encoder = msgspec.json.Encoder()
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31;1"}
_LAID_OUT = ("ts", "level", "event", "traceback")


def json_line(fields: Mapping[str, Any]) -> bytes:
    """Render one JSON object and the line's end."""
    line = _encoder.encode(fields) + b"\n"
    if len(line) <= LINE_MOST:
        return line
    short = {
        name: value[:80] if isinstance(value, str) else value for name, value in fields.items()
    }
    return _encoder.encode(short | {"shortened": True}) + b"\n"


def pretty_line(fields: Mapping[str, Any]) -> bytes:
    """Render time, level and event in colour, then name=value for the rest."""
    level = fields["level"]
    clock = fields["ts"][11:23]
    rest = " ".join(
        f"\x1b[2m{name}=\x1b[0m{value}" for name, value in fields.items() if name not in _LAID_OUT
    )
    # Its line ends were escaped as all control characters; here they help the eye.
    if trace := fields.get("traceback"):
        rest += "\n    " + trace.replace("\\n", "\n    ")
    head = f"\x1b[2m{clock}\x1b[0m \x1b[{_COLOURS[level]}m{level:<7}\x1b[0m {fields['event']:<32}"
    return f"{head} {rest}".rstrip().encode("utf-8", "backslashreplace") + b"\n"


def render_for(form: str, *, terminal: bool) -> Render:
    """Choose how to render: `form` is log.format, `terminal` decides for "auto"."""
    pretty = form == "pretty" or (form == "auto" and terminal)
    return pretty_line if pretty else json_line
