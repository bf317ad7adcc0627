"""What becomes of a call (flow/tracking_work.py): one that failed, and codes without a meaning.

What is done about a call that failed, and when it is repeated. A status code without a meaning is
told once, and counted in every answer. Lines of the log name the trace that the producer gave.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from flow_ports import ENDED, REQUEST, Scene, call

from couriers.http.credentials import CourierSettings, credentials
from couriers.registry import COURIERS
from service.observe.redact import cleaner
from service.ports import Done
from service.worker.flow import tracking_work
from service.worker.flow.tracking_work import (
    UNREADABLE_FACTOR,
    Asks,
    Decision,
    Die,
    Refuse,
    Repeat,
    RetryRules,
    TrackingWork,
    decide,
    delay,
)
from tracking.call import Admission, Attempt, Call, Ended, Granted, Setback
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    MissingField,
    NoCredentials,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    UnstorableAnswer,
    WrongNumber,
)
from tracking.line import TRACKING, line_of
from tracking.operation import State
from tracking.request import Number, Slug, TrackingRequest

Written = Callable[[], list[dict[str, Any]]]

RULES = RetryRules(attempts=3, first_seconds=10.0, cap_seconds=100.0, give_up_days=7)
DAY = 86_400.0
BRAKES = TRACKING.brakes
OF_THE_COURIER = (CourierDown("502"), RequestRefused("400"))
IN_A_NEW_FORM = (UnreadableAnswer("a web page"), WrongNumber("another"))
TRIED_AGAIN = (*OF_THE_COURIER, *IN_A_NEW_FORM, AuthFailed("401"))
REFUSALS = (NoCredentials("none"), AuthFailed("401"), RateLimited("429"))


def decided(error: CourierError, waited: float = 0.0, **known: Any) -> Decision:
    now = time.time()
    failed = call(waiting_since=now - waited, **known)
    return decide(error, failed, now, RULES, draw=lambda: 1.0)


def setback(error: CourierError, **known: Any) -> Setback:
    decision = decided(error, **known)
    assert isinstance(decision, Repeat)
    return decision.setback


def test_what_is_done_about_an_error_follows_the_table() -> None:
    assert decided(InvalidNumber("never")) == Refuse()
    assert decided(MissingField("tracking_postal_code")) == Die()
    charged = {"charged": True, "spares": True, "attempts": RULES.attempts}
    assert [setback(error) for error in OF_THE_COURIER] == [
        Setback(error.code, 10.0, brake=BRAKES[error.code], **charged) for error in OF_THE_COURIER
    ]
    assert [setback(error) for error in IN_A_NEW_FORM] == [
        Setback(error.code, 10.0 * UNREADABLE_FACTOR, brake=BRAKES[error.code], **charged)
        for error in IN_A_NEW_FORM
    ]
    unstorable = UnstorableAnswer("refused by MongoDB")
    assert setback(unstorable) == Setback(
        unstorable.code,
        10.0 * UNREADABLE_FACTOR,
        brake=BRAKES[unstorable.code],
        **charged | {"spares": False},
    )
    assert [setback(error) for error in REFUSALS] == [
        Setback(
            error.code,
            10.0,
            charged=isinstance(error, AuthFailed),
            spares=True,
            attempts=RULES.attempts,
            brake=BRAKES[error.code],
            patience=DAY,
            firm=not isinstance(error, AuthFailed),
            of_credentials=not isinstance(error, RateLimited),
        )
        for error in REFUSALS
    ]


@pytest.mark.parametrize(
    ("named", "seconds"), [(120.0, 120.0), (0.0, 1.0), (1e9, 86_400.0), (None, None)]
)
def test_a_courier_that_names_a_time_is_left_alone_for_it(
    named: float | None, seconds: float | None
) -> None:
    assert setback(RateLimited("429", retry_after=named)).named == seconds


@pytest.mark.parametrize("error", TRIED_AGAIN, ids=lambda error: error.code)
def test_an_error_is_charged_to_a_number_only_where_another_one_was_answered(
    error: CourierError,
) -> None:
    assert (setback(error).charged, setback(error).spares) == (True, True)


@pytest.mark.parametrize(
    "error", [NoCredentials("none"), RateLimited("429")], ids=lambda error: error.code
)
def test_what_no_number_can_be_blamed_for_is_charged_to_none(error: CourierError) -> None:
    assert not setback(error, attempts=99, failing_since=1.0).charged


@pytest.mark.usefixtures("unread_log")
@pytest.mark.parametrize("error", TRIED_AGAIN, ids=lambda error: error.code)
async def test_the_last_attempt_is_followed_by_death_and_stops_the_line_too(
    error: CourierError,
) -> None:
    scene = Scene(Granted(call()))
    scene.limits.used_up = True

    def failing(_: object) -> Tracking:
        raise error

    scene.track = failing

    steps = await scene.handle()

    died = ["retry", "note final failure", "record 1", "finish", "delete"]
    assert steps[-6:] == ["note failure", *died]
    assert [letter.reason for letter in scene.dead.letters] == [error.code]
    (verdict,) = scene.limits.verdicts
    assert verdict.setback is not None
    assert verdict.setback.brake == BRAKES[error.code]


@pytest.mark.parametrize("error", TRIED_AGAIN, ids=lambda error: error.code)
def test_what_has_failed_for_7_days_is_dead_whosever_fault_it_is(error: CourierError) -> None:
    now = time.time()

    assert isinstance(decided(error, failing_since=now - 7 * DAY + 60.0), Repeat)
    assert isinstance(decided(error, failing_since=now - 7 * DAY - 60.0), Die)


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: error.code)
def test_how_long_a_request_has_waited_says_nothing_of_its_line(error: CourierError) -> None:
    assert setback(error, waited=30 * DAY) == setback(error)


def test_each_further_failure_of_a_number_is_tried_again_later() -> None:
    error = CourierDown("502")

    assert [setback(error, tries=tries).delay for tries in (0, 1, 2, 9)] == [10, 20, 40, 100]


def test_waits_double_up_to_their_cap() -> None:
    waits = [delay(attempts, 10.0, 100.0, lambda: 1.0) for attempts in (1, 2, 3, 4, 5, 10_000)]

    assert waits == [10.0, 20.0, 40.0, 80.0, 100.0, 100.0]


def test_requests_that_failed_together_do_not_come_back_together() -> None:
    draw = random.Random(1).random
    waits = [delay(5, 10.0, 3600.0, draw) for _ in range(100)]

    assert len(set(waits)) == 100
    assert all(0 <= wait <= 160.0 for wait in waits)


@pytest.mark.usefixtures("unread_log")
async def test_a_module_that_breaks_is_an_answer_that_cannot_be_read() -> None:
    scene = Scene(Granted(call()))

    def broken(_: object) -> Tracking:
        raise KeyError("events")

    scene.track = broken

    steps = await scene.handle()

    assert steps == [
        "available",
        "admit",
        "leave the window",
        "ask",
        "note failure",
        "retry",
        "delete",
    ]


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (CourierDown("the courier answered 503", http_status=503), "request will be tried again"),
        (InvalidNumber("no such number", http_status=404), "request refused by the courier"),
        (MissingField("postal_code", "it needs postal_code"), "request is dead"),
        (RateLimited("too many", http_status=429), "courier is paused"),
        (AuthFailed("not accepted (401)", http_status=401), "credentials were refused"),
        (NoCredentials("not set: api_key"), "credentials are missing"),
        (UnreadableAnswer("a web page", http_status=200), "answer cannot be read"),
        (UnstorableAnswer("refused", http_status=200), "answer cannot be stored"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_the_line_of_a_failed_call_says_status_and_detail(
    written: Written, error: CourierError, event: str
) -> None:
    scene = Scene(Granted(call()))

    def failing(_: object) -> Tracking:
        raise error

    scene.track = failing

    await scene.handle()
    await asyncio.sleep(0)  # INFO is written at the end of a turn of the loop

    line = next(each for each in written() if each["event"] == event)
    assert (line["error"], line["detail"]) == (error.code, error.message)
    assert line.get("status") == error.http_status


async def test_what_a_destination_refuses_is_said_of_no_courier(written: Written) -> None:
    line = REQUEST._replace(slug=Slug("~abcdefghijklmnop"))
    scene = Scene(Granted(call(request=line)))

    def failing(_: object) -> Tracking:
        raise InvalidNumber("service erp of main: refused", http_status=404)

    scene.track = failing

    await scene.handle()
    await asyncio.sleep(0)

    said = [(each["event"], each["detail"]) for each in written() if "detail" in each]
    assert said == [("attempt failed", "service erp of main: refused")]


async def test_the_lines_of_ends_name_ids_that_can_be_asked_for(written: Written) -> None:
    await Scene(Granted(call(operations=("order-1", "order-0")))).handle()
    await Scene(Ended(State.SUCCESS)).handle()
    await asyncio.sleep(0)

    named = [each["operation"] for each in written() if "operation" in each]
    assert named == ["order-1", "usps:N001:key-of-the-job"]


@pytest.mark.parametrize("slug", sorted(COURIERS))
def test_what_to_set_stands_whole_in_the_log(slug: Slug) -> None:
    courier = COURIERS[slug]
    keys = (*courier.CREDENTIALS, "x")  # one besides its own, as some need none

    with pytest.raises(NoCredentials) as caught:
        credentials(CourierSettings(slug), keys, courier.CREDENTIALS_FROM)

    told = caught.value.message
    assert cleaner(())({"detail": told})["detail"] == told


class NoPermit:
    deadline = 0.0
    started = True

    async def again(self) -> None: ...
    async def before_send(self) -> None: ...
    def after_send(self) -> None: ...
    def answered(self, ago: float) -> None: ...


class Counted:
    """What was counted, in order."""

    def __init__(self) -> None:
        self.codes: list[tuple[str, str]] = []

    def count(self, slug: str, code: str) -> None:
        self.codes.append((slug, code))


def call_to(slug: str) -> Call:
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
    return TrackingWork(Asks(never, never), saved, counted, RetryRules(), lambda _: b"")


async def test_a_code_is_told_once_for_each_courier(written: Written) -> None:
    counted = Counted()
    work = work_that_counts(counted)
    for slug in ("usps", "usps", "ups"):
        await store(work, call_to(slug), "Q9", "Q8")
    await store(work, call_to("usps"))

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
        await store(work, call_to("usps"), *(f"Q{index}" for index in range(9)))

    assert len(written()) == 3
    assert counted.codes == [("usps", f"Q{index}") for index in range(3)] * 2


TRACED = REQUEST._replace(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


@pytest.mark.parametrize(
    ("admission", "error", "event"),
    [
        (Granted(call()._replace(request=TRACED)), None, "request answered"),
        (
            Granted(call()._replace(request=TRACED)),
            CourierDown("503"),
            "request will be tried again",
        ),
        (
            Granted(call()._replace(request=TRACED)),
            InvalidNumber("impossible"),
            "request refused by the courier",
        ),
        (ENDED, None, "request answered by a fresh result"),
    ],
)
async def test_a_line_names_the_trace_of_its_request(
    written: Written, admission: Admission, error: Exception | None, event: str
) -> None:
    scene = Scene(admission)
    scene.decode = lambda _: TRACED

    def failing(_: object) -> Tracking:
        assert error
        raise error

    if error:
        scene.track = failing

    await scene.handle()
    await asyncio.sleep(0)  # INFO is written at the end of a turn of the loop

    [line] = [each for each in written() if each["event"] == event]
    assert line["traceparent"] == TRACED.traceparent


async def test_a_line_of_a_request_without_a_trace_names_none(written: Written) -> None:
    await Scene(Granted(call())).handle()
    await asyncio.sleep(0)

    assert not [line for line in written() if "traceparent" in line]
