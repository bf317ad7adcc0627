"""A status code without a meaning is told once, and counted in every answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from service.ports import Done
from service.worker.flow import tracking_work
from service.worker.flow.tracking_work import RetryRules, TrackingWork
from tracking.call import Attempt, Call
from tracking.checkpoint import Tag, Tracking
from tracking.line import line_of
from tracking.request import Number, Slug, TrackingRequest


class NoPermit:
    deadline = 0.0
    started = True

    async def again(self) -> None: ...
    async def before_send(self) -> None: ...
    def after_send(self) -> None: ...
    def answered(self, ago: float) -> None: ...


Written = Callable[[], list[dict[str, Any]]]


class Counted:
    """What was counted, in order."""

    def __init__(self) -> None:
        self.codes: list[tuple[str, str]] = []

    def count(self, slug: str, code: str) -> None:
        self.codes.append((slug, code))


def call(slug: str) -> Call:
    request = TrackingRequest(Slug(slug), Number("ABCD1"), "ABCD1")
    return Call("c1", line_of(request), request, NoPermit(), 1, 1.0)


class Saved:
    """A store that keeps nothing."""

    async def save(self, *_: object) -> None: ...


async def store(work: TrackingWork, of: Call, *codes: str) -> None:
    """Store an answer with these codes."""
    tracking = Tracking(Tag.IN_TRANSIT, "InTransit_001", unknown_codes=codes)
    done = Done("answered", {}, "", tracking)
    await work.store(of, done, Attempt(dt.datetime.now(dt.UTC), "answered", 1))


def work_that_counts(counted: Counted) -> TrackingWork:
    never: Any = None
    saved: Any = Saved()
    return TrackingWork(never, saved, counted, RetryRules(), lambda _: b"")


async def test_a_code_is_told_once_for_each_courier(written: Written) -> None:
    counted = Counted()
    work = work_that_counts(counted)
    for slug in ("usps", "usps", "ups"):
        await store(work, call(slug), "Q9", "Q8")
    await store(work, call("usps"))

    told = [(line["slug"], line["code"]) for line in written()]
    assert told == [("usps", "Q9"), ("usps", "Q8"), ("ups", "Q9"), ("ups", "Q8")]
    assert {line["event"] for line in written()} == {"status code is unknown"}
    assert counted.codes == [*([("usps", "Q9"), ("usps", "Q8")] * 2), ("ups", "Q9"), ("ups", "Q8")]


async def test_a_courier_that_makes_codes_up_fills_neither_the_log_nor_the_counts(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking_work, "TOLD_MOST", 3)
    counted = Counted()
    work = work_that_counts(counted)
    for _ in range(2):
        await store(work, call("usps"), *(f"Q{index}" for index in range(9)))

    assert len(written()) == 3
    assert counted.codes == [("usps", f"Q{index}") for index in range(3)] * 2
