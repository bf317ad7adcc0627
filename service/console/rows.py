"""Rows of requests: read from the command itself, a CSV file or standard input, and printed."""

from __future__ import annotations

import csv
import difflib
import io
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from service.console.arguments import Options, UsageError
from service.observe.redact import printable
from service.operator.producer import JobRef
from service.operator.put import MEMBERS, Row, Sendable
from tracking.request import FIELDS, FIELDS_PREFIX


def read_rows(options: Options) -> Iterator[Row]:
    """Read what the command line asks for; it fills what a row leaves out.

    Raises UsageError, also when there is no row at all.
    """
    given = _given(options)
    found = False
    for row in _unfilled(options, given):
        if row.index >= options.from_row:
            found = True
            filled = given | {name: text for name, text in row.texts.items() if text}
            yield Row(row.where, filled, row.index)
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
            yield from _csv_rows(file, options.csv, has_slug="slug" in given)
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
    for each in options.field:
        name, equals, text = each.partition("=")
        if not equals:
            raise UsageError(f"--field {each}: write NAME=VALUE")
        found[_column(name, FIELDS, f"--field {each}")] = text
    return found


def _csv_rows(file: TextIO, name: str, *, has_slug: bool) -> Iterator[Row]:
    first = file.readline()
    if not first:
        return
    # Spreadsheets write what their country separates with.
    delimiter = max(",;\t", key=first.count)
    header = next(_cells([first], delimiter, name, 1))[1]
    lines: Iterable[str] = file
    if any(word.strip().casefold() == "number" for word in header):
        columns = [_column(word, MEMBERS, f"{name}:1") for word in header]
        for column in columns:
            if columns.count(column) > 1:
                raise UsageError(f"{name}:1 names the column {column} twice; leave one out")
        if "slug" not in columns and not has_slug:
            raise UsageError(f"{name} has no column slug; add it, or give --slug")
        begin = 2
    elif has_slug:
        columns, begin, lines = ["number"], 1, itertools.chain([first], file)
    else:
        raise UsageError(f"{name} has no header with a column number; add one, or give --slug")
    for index, cells in _cells(lines, delimiter, name, begin):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) > len(columns):
            raise UsageError(
                f"{name}:{index} has {len(cells)} cells for {len(columns)} columns: "
                f"write a cell that holds {delimiter!r} in quotation marks"
            )
        texts = {column: cell.strip() for column, cell in zip(columns, cells, strict=False)}
        yield Row(f"{name}:{index}", texts, index)


def _cells(
    lines: Iterable[str], delimiter: str, name: str, begin: int
) -> Iterator[tuple[int, list[str]]]:
    """Read the cells of each row, with its index, from `begin` on."""
    # Strict: a quotation mark that is never closed would take all rows below it into its cell.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    index = begin
    try:
        for cells in reader:
            yield index, cells
            index += 1
    except csv.Error as error:
        raise UsageError(
            f"{name}:{index} is not CSV: {error}; look for a quotation mark that is not closed"
        ) from error


def _column(word: str, names: Iterable[str], where: str) -> str:
    """Find the full name of a column; the couriers' fields may lack their prefix."""
    name = word.strip().casefold().replace(" ", "_")
    for full in (name, FIELDS_PREFIX + name):
        if full in names:
            return full
    near = difflib.get_close_matches(name, [each.removeprefix(FIELDS_PREFIX) for each in names], 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
    raise UsageError(f"{where}: {word.strip()!r} is not a known field; {hint}")


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
