"""`detect` and `reparse`: which couriers may have a number, and answers that are read again."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from bson import Int64
from command_line import Run

from couriers import royal_mail
from tracking.errors import InvalidNumber


def test_the_likeliest_courier_comes_first_and_the_others_after_it(offline: Run) -> None:
    done = offline("detect", "986578788855")

    assert done.code == 0
    assert done.lines[1].split()[0] == "fedex"
    assert len(done.lines) > 2


def test_a_machine_gets_a_rank_and_a_word(offline: Run) -> None:
    found = offline("detect", "986578788855", "--json").json

    assert found[0] == {"rank": 1, "slug": "fedex", "name": "FedEx", "why": "checked"}
    assert [each["rank"] for each in found] == list(range(1, len(found) + 1))


def test_nobody_is_a_negative_finding(offline: Run) -> None:
    done = offline("detect", "ABCDEFGHIJKL")

    assert (done.code, done.lines) == (1, ["No courier's numbers look like this."])
    assert offline("detect", "ABCDEFGHIJKL", "--json").out == ""


def test_what_is_no_number_is_told_in_a_line(offline: Run) -> None:
    done = offline("detect", "\u00e9")

    assert done.code == 2
    assert len(done.err.splitlines()) == 1


def test_a_courier_that_nobody_can_ask_is_named_as_such(offline: Run) -> None:
    done = offline("detect", "TBA502887274000")

    assert "looks like Amazon: no module" in done.lines[1]
    [amazon, *_] = offline("detect", "TBA502887274000", "--json").json
    assert (amazon["name"], amazon["why"]) == ("Amazon", "no_module")


def test_a_number_that_only_a_courier_without_a_module_has_is_a_negative_finding(
    offline: Run,
) -> None:
    assert offline("detect", "LTN74207623N1").code == 1


AT = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
NUMBER = "FQ000000015GB"
EVENT = {
    "eventCode": "EVKSP",
    "eventName": "Delivered",
    "eventDateTime": "2026-11-20T11:00:00+00:00",
}
GOOD = json.dumps({"mailPieces": {"mailPieceId": NUMBER, "events": [EVENT]}})


def keep(collections: Any, body: str = GOOD, slug: str = "royal-mail", **more: Any) -> None:
    document = {
        "_id": f"{slug}:{NUMBER}",
        "slug": slug,
        "number": NUMBER,
        "asked": NUMBER,
        "status": 200,
        "headers": {},
        "body": body,
        "cut": False,
        "message": "why",
        "at": AT,
        "attempted_at": AT,
        "observed_us": Int64(round(AT.timestamp() * 1_000_000)),
    }
    collections.unreadable.insert_one(document | more)


def test_what_can_be_read_now_is_stored_and_no_longer_kept(run: Run, collections: Any) -> None:
    keep(collections)
    done = run("reparse")

    assert done.code == 0
    assert done.lines[-1] == "1 kept answers (read: 1)"
    stored = collections.tracking.find_one({"_id": f"royal-mail:{NUMBER}"})
    assert (stored["tag"], stored["delivered"]) == ("Delivered", True)
    assert stored["last_checked_at"] == AT
    assert collections.unreadable.count_documents({}) == 0
    assert run("reparse").lines == ["0 kept answers (none)"]


def test_who_follows_a_parcel_hears_what_was_read_again(run: Run, collections: Any) -> None:
    keep(collections)
    run("reparse")

    [mark] = collections.tracking.find_one({})["untold"]
    assert mark["events"] == ["parcel.changed", "parcel.delivered"]


def test_a_dry_run_changes_nothing(run: Run, collections: Any) -> None:
    keep(collections)
    done = run("reparse", "--dry-run")

    assert (done.code, "nothing was changed" in done.out) == (0, True)
    assert collections.tracking.count_documents({}) == 0
    assert collections.unreadable.count_documents({}) == 1


def test_what_stays_unread_stays_kept_and_is_counted(run: Run, collections: Any) -> None:
    keep(collections)
    keep(collections, "<html>", slug="usps")
    keep(collections, "{}", slug="gone")
    error = {"errors": [{"errorCode": "E1142", "errorDescription": "no"}]}
    keep(collections, json.dumps(error), _id="royal-mail:2", number="FQ000000029GB")
    found = {(each["slug"], each["number"]): each for each in run("reparse", "--json").json}

    outcomes = {names: each["outcome"] for names, each in found.items()}
    assert outcomes == {
        ("royal-mail", NUMBER): "read",
        ("usps", NUMBER): "unreadable",
        ("gone", NUMBER): "no_courier",
        ("royal-mail", "FQ000000029GB"): "refused",
    }
    assert found["royal-mail", NUMBER]["detail"] == "Delivered"
    assert found["royal-mail", "FQ000000029GB"]["detail"].startswith(InvalidNumber.code)
    assert collections.unreadable.count_documents({}) == 3
    assert run("reparse").code == 1


def test_one_courier_alone(run: Run, collections: Any) -> None:
    keep(collections)
    keep(collections, "<html>", slug="usps")

    assert [each["slug"] for each in run("reparse", "--slug", "usps", "--json").json] == ["usps"]
    assert collections.unreadable.count_documents({}) == 2


def test_a_module_that_breaks_does_not_stop_the_others(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(royal_mail, "_tracking", broken)
    keep(collections)
    [found] = run("reparse", "--json").json

    assert found["outcome"] == "unreadable"
    assert "ZeroDivisionError" in found["detail"]


def test_bytes_that_are_no_text_are_read_too(run: Run, collections: Any) -> None:
    keep(collections, GOOD.encode().replace(b"Delivered", b"\xff"))

    assert run("reparse", "--json").json[0]["outcome"] == "unreadable"
