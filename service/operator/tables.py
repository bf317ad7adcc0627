"""Tables of requests, as people write them: CSV, with a header or with numbers alone."""

from __future__ import annotations

import csv
import difflib
import itertools
from collections.abc import Iterable, Iterator

from service.operator.put import MEMBERS, Row
from tracking.errors import NotDone
from tracking.request import FIELDS_PREFIX


class BadTable(NotDone):
    """A table cannot be read; the text says where and why."""


def csv_rows(lines: Iterator[str], name: str, *, has_slug: bool) -> Iterator[Row]:
    """Read the rows of a table; `name` is its own. Raises BadTable."""
    first = next(lines, "")
    if not first:
        return
    # Spreadsheets write what their country separates with.
    delimiter = max(",;\t", key=first.count)
    header = next(_cells([first], delimiter, name, 1))[1]
    if any(word.strip().casefold() == "number" for word in header):
        columns = [full_name(word, MEMBERS, f"{name}:1") for word in header]
        for column in columns:
            if columns.count(column) > 1:
                raise BadTable(f"{name}:1 names the column {column} twice; leave one out")
        if "slug" not in columns and not has_slug:
            raise BadTable(f"{name} has no column slug; add it, or give --slug")
        begin = 2
    elif has_slug:
        columns, begin, lines = ["number"], 1, itertools.chain([first], lines)
    else:
        raise BadTable(f"{name} has no header with a column number; add one, or give --slug")
    for index, cells in _cells(lines, delimiter, name, begin):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) > len(columns):
            raise BadTable(
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
        raise BadTable(
            f"{name}:{index} is not CSV: {error}; look for a quotation mark that is not closed"
        ) from error


def full_name(word: str, names: Iterable[str], where: str) -> str:
    """Find the full name of a column; the couriers' fields may lack their prefix."""
    name = word.strip().casefold().replace(" ", "_")
    for full in (name, FIELDS_PREFIX + name):
        if full in names:
            return full
    near = difflib.get_close_matches(name, [each.removeprefix(FIELDS_PREFIX) for each in names], 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
    raise BadTable(f"{where}: {word.strip()!r} is not a known field; {hint}")
