"""What pages of operators share: what is asked once, what it comes to, and how it is said."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from limits.admin.running import LiveWorker
from limits.admin.snapshot import LineSnapshot
from service.operator.attention import BEHIND_SECONDS, concerns_of, used_up
from service.operator.look import AtWork, Lines
from service.operator.quotas import Quota, Use
from service.operator.statistics import Statistics
from service.web.statistics import figures_of, plots_of
from service.web.visitors import Kept
from tracking.errors import LimitsDown
from tracking.line import Line
from tracking.request import Account
from tracking.tally import Tally, tally_of

USPS = LineSnapshot(Line("usps"), 20, 2, "")
WORKER = LiveWorker("host-1", 11, "1.0", 0.0)


def said(*lines: LineSnapshot, workers: tuple[LiveWorker, ...] = (WORKER,)) -> list[str]:
    found = concerns_of(
        Lines(lines, ["Redis is full"]),
        AtWork(workers, ["host-0 9"], []),
        lambda line: f"{line.line} needs KEY",
    )
    return [each.what for each in found]


def test_who_asks_for_what_is_on_its_way_or_was_asked_just_now_gets_the_same() -> None:
    now, asked = 0.0, 0
    kept = Kept(clock=lambda: now)

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return asked

    async def scene() -> list[int]:
        nonlocal now
        got = await asyncio.gather(*(kept.get("name", 2.0, ask) for _ in range(9)))
        got.append(await kept.get("other", 2.0, ask))
        now = 1.9
        got.append(await kept.get("name", 2.0, ask))
        now = 2.0
        return [*got, await kept.get("name", 2.0, ask)]

    assert asyncio.run(scene()) == [*[1] * 9, 2, 1, 3]


def test_what_failed_is_raised_to_all_who_wait_and_asked_again() -> None:
    kept, asked = Kept(), 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        raise LimitsDown("Redis is away")

    async def scene() -> None:
        for _ in range(2):
            both = (kept.get("name", 60.0, ask) for _ in range(2))
            got = await asyncio.gather(*both, return_exceptions=True)
            assert [type(each) for each in got] == [LimitsDown] * 2

    asyncio.run(scene())
    assert asked == 2


def test_what_stops_all_is_said_before_what_stops_one_line() -> None:
    troubled = replace(WORKER, trouble="archive ended")
    told = said(replace(USPS, bound_by="paused", paused_why="courier_down"), workers=(troubled,))

    assert told[0] == "Redis is full"
    assert "host-0 9 shares records" in told[1]
    assert told[2:] == [
        "the worker host-1 11 is in trouble: archive ended",
        "usps is paused because it does not answer",
    ]
    assert "no worker lives" in said(workers=())[0]


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"bound_by": "broken"}, "usps has a broken key in Redis"),
        ({"bound_by": "paused", "paused_why": "by_hand", "paused_note": "sale"}, "by hand (sale)"),
        ({"bound_by": "probing", "paused_why": "no_credentials"}, "credentials: usps needs KEY"),
        ({"checks_due": 9, "checks_behind_seconds": BEHIND_SECONDS}, "behind its plan"),
        (
            {"checks_due": 9, "checks_behind_seconds": BEHIND_SECONDS, "day_left": 0},
            "behind its plan of re-checks: its quota per day is used up",
        ),
    ],
)
def test_a_line_that_stands_or_falls_behind_is_named(members: dict[str, object], what: str) -> None:
    line = replace(USPS, **members)  # type: ignore[arg-type] # of several types

    assert what in said(line)[-1]


def test_a_line_that_waits_for_its_turn_alone_concerns_nobody() -> None:
    waits = replace(USPS, bound_by="rate", waiting_manual=9, checks_behind_seconds=5.0, day_left=0)

    assert said(waits) == said()


def test_a_quota_of_which_nothing_is_left_is_named() -> None:
    uses = {
        Account("shop"): {Quota.CALLS: Use(10, 10), Quota.PARCELS: Use(5, 4)},
        Account("other"): {Quota.CALLS: Use(10, None), Quota.PARCELS: Use(None, 9)},
    }

    (found,) = used_up(uses)

    assert "the account shop may have 10 calls a day" in found.what


def test_calls_are_saved_by_requests_that_join_share_an_answer_or_are_cancelled() -> None:
    tally = tally_of(
        [{"SUCCESS 100 250": 3, "SUCCESS 100 -": 4, "ERROR 250 250": 1, "CANCELLED 100 -": 2}]
    )
    tally.add({"repeated - 250": 5, "merged": 6, "full": 1})

    found = figures_of(tally)

    assert (found.requests, found.calls, found.failures, found.retries) == (16, 9, 1, 5)
    assert found.saved == 6 + 4 + 2
    assert ("full", 1) in found.whys


def test_a_plot_names_each_span_by_the_time_at_which_it_begins() -> None:
    names = {
        each: [row[0] for row in plots_of(Statistics("", 0, 3 * each, each, [Tally()] * 3))[0].rows]
        for each in (60, 43_200, 86_400)
    }

    assert names == {
        60: ["00:00", "00:01", "00:02"],
        43_200: ["01 Jan 00:00", "01 Jan 12:00", "02 Jan 00:00"],
        86_400: ["01 Jan", "02 Jan", "03 Jan"],
    }
