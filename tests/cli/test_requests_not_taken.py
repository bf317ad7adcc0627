"""A request that was refused after its put is told by its id: `dead` alone knows it."""

from __future__ import annotations

import datetime as dt
from typing import Any

from command_line import Run

NUMBER = "9405903699300184125060"
RECORDED = (
    "  recorded    2026-03-01 12:00:00 UTC; `python worker.py resend --id order-1` asks again"
)


def refused(at: dt.datetime, reason: str) -> dict[str, Any]:
    named = {"slug": "usps", "number": NUMBER, "operations": ["order-1"]}
    return {"_id": reason, **named, "reason": reason, "detail": f"why {reason}", "at": at}


def test_show_tells_why_and_how_to_ask_again(run: Run, collections: Any) -> None:
    at = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    before = at - dt.timedelta(days=1)
    collections.dead.insert_many([refused(at, "too_late"), refused(before, "wait_list_full")])

    done = run("show", "--id", "order-1")

    assert done.code == 0
    told = ["order-1: dead  too_late: why too_late", f"  tracking    usps:{NUMBER}", RECORDED]
    assert done.lines == told
    (members,) = run("show", "--id", "order-1", "--json").json
    assert (members["operation"], members["dead"]["reason"]) == (None, "too_late")


def test_there_is_nothing_to_cancel(run: Run, collections: Any) -> None:
    collections.dead.insert_one(refused(dt.datetime.now(dt.UTC), "too_late"))

    done = run("cancel", "--id", "order-1")

    assert done.code == 1
    assert "order-1 waits no more: why too_late" in done.err


def test_who_waits_for_it_is_told_and_waits_no_longer(run: Run, collections: Any) -> None:
    """A record of an earlier put of this id is none of this one."""
    now = dt.datetime.now(dt.UTC)
    collections.dead.insert_one(refused(now - dt.timedelta(minutes=1), "wait_list_full"))
    before = run("put", "usps", NUMBER, "--id", "order-1", "--wait", "0")
    collections.dead.insert_one(refused(now, "too_late"))

    done = run("put", "usps", NUMBER, "--id", "order-1", "--wait", "60")

    assert (before.code, before.lines[0].split()[0]) == (4, "NOT")
    assert done.code == 1
    assert done.lines == [f"DEAD      usps {NUMBER}  too_late: why too_late"]
