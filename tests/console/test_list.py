"""`list`: an account's parcels, filtered and searched, for people and for machines."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from command_line import Run

from service.worker.results.database import Names, indexes_for, make_indexes

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)


@pytest.fixture
def stored(collections: Any) -> None:
    """Two of `main`, one of them old; one of `shop`."""
    make_indexes(collections.tracking, indexes_for(Names(""))["tracking"])
    scan = {"checkpoint_time": "2026-11-19T09:30:00", "message": "second \x1b[2J"}
    for number, tag, days, account in (
        ("N0001", "InTransit", 0, {}),
        ("N0002", "Exception", 9, {}),
        ("N0001@shop", "Delivered", 0, {"account": "shop"}),
    ):
        at = NOW - dt.timedelta(days=days)
        parcel = {"_id": f"usps:{number}", "slug": "usps", "tag": tag, "checkpoints": [scan]}
        parcel |= {"tracking_number": number[:5], "created_at": at, "updated_at": at, **account}
        collections.tracking.insert_one(parcel | {"next_check_at": None, "active": False})
    said = {"account": "main", "parcel": "usps:N0002", "words": {"order_id": "A-7"}}
    collections.shipments.insert_one(said | {"search": ["n0002", "a-7", "#vip"], "deleted": False})


@pytest.mark.usefixtures("stored")
def test_they_are_listed_for_people_and_for_machines(run: Run) -> None:
    done = run("list")

    assert done.code == 0
    assert [line.split()[0] for line in done.lines] == ["parcel", "usps:N0001", "usps:N0002"]
    assert "A-7" in done.lines[2]
    assert "\x1b" not in done.out
    [one] = run("list", "--tag", "Exception", "--json").json
    assert (one["_id"], one["words"]) == ("usps:N0002", {"order_id": "A-7"})


@pytest.mark.usefixtures("stored")
def test_filters_narrow_them(run: Run) -> None:
    wanted: list[tuple[list[str], list[str]]] = [
        (["--age", "2d"], ["usps:N0001"]),
        (["--label", "VIP"], ["usps:N0002"]),
        (["--search", "n00", "--sort", "created"], ["usps:N0002", "usps:N0001"]),
        (["--courier", "usps", "--limit", "1"], ["usps:N0001"]),
        (["--slug", "gone"], []),
        (["--account", "shop"], ["usps:N0001"]),
    ]
    for options, found in wanted:
        done = run("list", *options, "--json")

        assert [each["_id"] for each in done.json] == found
        assert done.code == (0 if found else 1)


def test_a_filter_that_cannot_be_meant_is_refused(run: Run) -> None:
    for wrong in (["--tag", "Lost"], ["--age", "5"], ["--sort", "number"], ["--limit", "0"]):
        assert run("list", *wrong).code == 2
