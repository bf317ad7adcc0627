"""Rows of requests: read from the command itself, a CSV file or standard input, and printed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from service.console.arguments import Options, UsageError
from service.observe.redact import printable
from service.operator import tables
from service.operator.producer import JobRef
from service.operator.put import Row, Sendable
from tracking.request import FIELDS


def read_rows(options: Options) -> Iterator[Row]:
    """Read what the command line asks for; it fills what a row leaves out.

    Raises UsageError, also when there is no row at all.
    """
    found = False
    try:
        given = _given(options)
        for row in _unfilled(options, given):
            if row.index >= options.from_row:
                found = True
                filled = given | {name: text for name, text in row.texts.items() if text}
                yield Row(row.where, filled, row.index)
    except tables.BadTable as error:
        raise UsageError(f"{error}") from error
    if not found:
        raise UsageError(_nothing(options))


def placed_line(each: Sendable, place: JobRef | None, *, as_json: bool) -> str:
    """Word a request that was put, and where; or one that would be."""
    if as_json:
        line = {"id": each.id, "slug": each.slug, "number": each.number}
        return json.dumps(line | (place._asdict() if place else {})) + "\n"
    return printable(f"{each.id}  {each.slug} {each.number}") + "\n"


def _unfilled(options: Options, given: dict[str, str]) -> Iterator[Row]:
    words = list(options.slug_and_numbers)
    if options.csv:
        if words:
            raise UsageError("--csv reads the numbers from its file; leave them out of the command")
        with _opened(options.csv) as file:
            yield from tables.csv_rows(file, options.csv, has_slug="slug" in given)
        return
    if "slug" not in given:
        if not words:
            raise UsageError(
                "name what to put: SLUG NUMBER..., --csv FILE, or SLUG alone and numbers on "
                "standard input"
            )
        given["slug"] = words.pop(0)
    if words:
        for index, word in enumerate(words, start=1):
            yield Row(word or f"number {index}", {"number": word}, index)
        return
    if sys.stdin.isatty():
        raise UsageError("write the numbers to put behind the slug, or pipe them in, one per line")
    for index, line in enumerate(sys.stdin, start=1):
        if text := line.strip():
            yield Row(f"line {index}", {"number": text}, index)


def _nothing(options: Options) -> str:
    name = options.csv or ("the command" if options.slug_and_numbers[1:] else "standard input")
    if options.from_row > 1:
        return f"{name} has no request from row {options.from_row} on"
    if options.csv:
        return f"{name} holds no request: write one per row below the header, like `slug,number`"
    return f"{name} holds no request: give it one number per line"


def _given(options: Options) -> dict[str, str]:
    """Gather what the options say for all rows."""
    found = {
        name: str(value)
        for name in ("slug", "id", "origin", "max_age", "expires_in", "webhook")
        if (value := getattr(options, name)) is not None
    }
    return found | fields_of(options)


def fields_of(options: Options) -> dict[str, str]:
    """Read what `--field` says. Raises UsageError."""
    found = {}
    for each in options.field:
        name, equals, text = each.partition("=")
        if not equals:
            raise UsageError(f"--field {each}: write NAME=VALUE")
        found[tables.full_name(name, FIELDS, f"--field {each}")] = text
    return found


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    try:
        # The byte order mark is what spreadsheets put first.
        if name == "-":
            yield io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
            return
        with Path(name).open(encoding="utf-8-sig", newline="") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8; save it as CSV UTF-8") from error
