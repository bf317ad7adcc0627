"""How verbs print: tables and words for people, JSON for machines, nothing steers a terminal."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Sequence
from typing import Any

from service import NAME
from service.console.arguments import Exit, UsageError
from service.observe.redact import printable


def say(text: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{printable(text)}\n")


def note(text: str) -> None:
    """Print one line on standard error, beside what is asked for."""
    sys.stderr.write(f"{NAME}: {text}\n")


def say_json(value: Any) -> None:
    """Print one JSON value on one line; times as ISO 8601, bytes as far as they are text."""
    sys.stdout.write(json.dumps(value, default=_plain) + "\n")


def tell(members: dict[str, Any], words: str, *, as_json: bool) -> int:
    """Print what was done: as one JSON object, or in words; 0."""
    if as_json:
        say_json(members)
    else:
        say(words)
    return Exit.DONE


def summed(verb: str, done: int, failed: int, *, as_json: bool) -> int:
    """Print how many were done and how many not; 1 where not all of it was done, or nothing."""
    tell({verb: done, "failed": failed}, f"{verb} {done}, failed {failed}", as_json=as_json)
    return Exit.DONE if done and not failed else Exit.NEGATIVE


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: drawn on a terminal, else aligned columns without any decoration."""
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        # Brings rich, which takes as long to load as most verbs take in all.
        from service.console import drawing  # noqa: PLC0415 - see above

        drawing.print_table(headers, texts)
        return
    lines = [list(headers), *texts]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def span(seconds: float | None) -> str:
    """Word a length of time with its two largest units, or one where it is whole; "" for None."""
    if seconds is None:
        return ""
    if seconds < 1:
        return "0 s" if seconds <= 0 else "under 1 s"
    left = round(seconds)
    counts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or counts:
            counts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in counts[:2] if count)


def moment(when: dt.datetime | float | None) -> str:
    """Word an instant, also one in seconds of Unix, in the time of this machine; "" for None."""
    if when is None:
        return ""
    at = when if isinstance(when, dt.datetime) else dt.datetime.fromtimestamp(when, dt.UTC)
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def agreed(question: str, *, yes: bool) -> bool:
    """Ask the person at the terminal, unless `yes`; true for yes only.

    Raises UsageError when standard input is no terminal: nobody is there to ask.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody is at a terminal to answer; add --yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in {"y", "yes"}


def _plain(value: object) -> object:
    match value:
        case dt.datetime():
            return value.isoformat()
        case bytes():
            return value.decode("utf-8", "backslashreplace")
    return str(value)
