"""info and doctor show which status codes of which courier are in no table."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from command_line import Run

from service.cli.info import CODES_SHOWN_MOST

FIRST = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)
LAST = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def counted(collections: Any, slug: str, code: str, count: int) -> None:
    collections.unknown_codes.insert_one(
        {
            "_id": f"{slug}:{code}",
            "slug": slug,
            "code": code,
            "count": count,
            "first_seen": FIRST,
            "last_seen": LAST,
        }
    )


def test_info_shows_unknown_codes_the_most_frequent_first(run: Run, collections: Any) -> None:
    counted(collections, "gls", "INBOUN.NORMAL", 3)
    counted(collections, "ups", "ZZ", 12)
    lines = run("info").lines
    begin = next(index for index, line in enumerate(lines) if "unknown code" in line)

    rows = [line.split() for line in lines[begin + 1 :]]
    assert [row[:3] for row in rows] == [["ups", "ZZ", "12"], ["gls", "INBOUN.NORMAL", "3"]]
    (look,) = run("info", "--json").json
    assert look["unknown_codes"][0] == {
        "slug": "ups",
        "code": "ZZ",
        "count": 12,
        "first_seen": FIRST.isoformat(),
        "last_seen": LAST.isoformat(),
    }


def test_info_shows_the_first_of_many(run: Run, collections: Any) -> None:
    for index in range(CODES_SHOWN_MOST + 2):
        counted(collections, "ups", f"Z{index}", index + 1)

    assert "and 2 more: --json" in run("info").out
    (look,) = run("info", "--json").json
    assert len(look["unknown_codes"]) == CODES_SHOWN_MOST + 2


def test_info_without_unknown_codes_says_nothing_of_them(run: Run) -> None:
    assert "unknown code" not in run("info").out
    (look,) = run("info", "--json").json
    assert look["unknown_codes"] == []


def test_info_goes_on_without_mongodb(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKER_MONGODB__URI", "mongodb://127.0.0.1:1/?timeoutMS=200")
    done = run("info", "--json")

    assert done.code == 0
    (look,) = done.json
    assert look["unknown_codes"] is None


def test_doctor_names_the_courier_whose_table_has_gaps(run: Run, collections: Any) -> None:
    for index in range(5):
        counted(collections, "ups", f"Z{index}", 9 - index)
    done = run("doctor")

    [line] = [each for each in done.lines if each.startswith("note  ups:")]
    assert "Z0 (9 times), Z1 (8 times), Z2 (7 times) and 2 more" in line
    assert "docs/couriers.md" in done.lines[done.lines.index(line) + 1]
