"""A status code without a meaning is told once, and counted in every answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from service.flow import unknown_codes
from service.flow.unknown_codes import UnknownCodes
from tracking.call import Call
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


def answer(*codes: str) -> Tracking:
    return Tracking(Tag.IN_TRANSIT, "InTransit_001", unknown_codes=codes)


def test_a_code_is_told_once_for_each_courier(written: Written) -> None:
    counted = Counted()
    codes = UnknownCodes(counted)
    for slug in ("usps", "usps", "ups"):
        codes.tell(call(slug), answer("Q9", "Q8"))
    codes.tell(call("usps"), answer())

    told = [(line["slug"], line["code"]) for line in written()]
    assert told == [("usps", "Q9"), ("usps", "Q8"), ("ups", "Q9"), ("ups", "Q8")]
    assert {line["event"] for line in written()} == {"status code is unknown"}
    assert counted.codes == [*([("usps", "Q9"), ("usps", "Q8")] * 2), ("ups", "Q9"), ("ups", "Q8")]


def test_a_courier_that_makes_codes_up_fills_neither_the_log_nor_the_counts(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_codes, "TOLD_MOST", 3)
    counted = Counted()
    codes = UnknownCodes(counted)
    for _ in range(2):
        codes.tell(call("usps"), answer(*(f"Q{index}" for index in range(9))))

    assert len(written()) == 3
    assert counted.codes == [("usps", f"Q{index}") for index in range(3)] * 2
