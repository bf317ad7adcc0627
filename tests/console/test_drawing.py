"""Tables on a terminal, which may be narrow."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from service.console.drawing import drawn, fitting

DELIVERIES = ("id", "at", "service", "event", "parcel", "state", "made", "why", "next")
DELIVERY = (
    *("6923f0c1a2b3c4d5e6f70819", "2026-05-04 08:00:00 UTC", "orders", "parcel.delivered"),
    *("usps:9405903699300184125060", "open", "3", "the service answered 500", "-"),
)
DEAD = ("id", "at", "courier", "number", "reason", "detail")
RECORD = (
    *("1795176000000.usps:9405903699300184125060", "2026-05-04 08:00:00 UTC", "usps"),
    *("9405903699300184125060", "courier_down", "it did not answer for a day"),
)
COURIERS = ("courier", "credentials", "limits", "tried live")
COURIER = (
    "usps",
    "missing: client_id, client_secret",
    "20 at once, 2/s, 35 numbers a call",
    "never",
)


def printed(headers: tuple[str, ...], *rows: tuple[str, ...], width: int = 80) -> list[str]:
    to = io.StringIO()
    Console(file=to, width=width).print(drawn(headers, rows, width))
    return [line.rstrip() for line in to.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("headers", "row"), [(DELIVERIES, DELIVERY), (DEAD, RECORD), (COURIERS, COURIER)]
)
def test_a_table_fits_80_columns_and_cuts_no_word(
    headers: tuple[str, ...], row: tuple[str, ...]
) -> None:
    lines = printed(headers, row, row)

    assert max(map(len, lines)) <= 80
    words = [word for line in lines for word in line.split()]
    assert sorted({each for cell in (*headers, *row) for each in cell.split()} - {*words}) == []


def test_a_table_that_fits_stands_as_it_is() -> None:
    assert printed(("a", "b"), ("one two", "three")) == ["a        b", "one two  three"]


def test_where_words_do_not_fit_side_by_side_each_cell_has_a_line() -> None:
    long = "x" * 15

    assert printed(("id", "why", "at"), (long, long, ""), ("1", "2", "3"), width=20) == [
        f"id   {long}",
        f"why  {long}",
        "",
        "id   1",
        "why  2",
        "at   3",
    ]


def test_the_widest_column_gives_way_first() -> None:
    assert fitting([("a b c d e f g h", "ab cd")], 14) == [7, 5]
    assert fitting([("abcdefgh", "abcdefgh")], 17) is None
