"""The steps of a request (flow/handle.py): each makes the next copy durable before the last goes.

A request that a full Redis refuses keeps its job, holds up nobody, and is asked for again. A job
that comes back while a process that lives makes its call is kept until its end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from flow_ports import ENDED, REQUEST, TRACKING, Job, Journal, Permit, Scene, away, call

from service.worker.flow import handle
from service.worker.flow.handle import letter_of_refused
from tracking.call import (
    Admission,
    Call,
    Dying,
    Ended,
    Full,
    Granted,
    Held,
    IdConflict,
    NoMemory,
    Parked,
    TooLate,
)
from tracking.checkpoint import Tracking
from tracking.errors import CourierDown, LimitsDown, MalformedJob, NotStarted, ResultsDown
from tracking.line import Line
from tracking.operation import State
from tracking.request import TrackingRequest

pytestmark = pytest.mark.usefixtures("unread_log")


async def test_an_answer_is_stored_then_the_call_ends_then_the_job_goes() -> None:
    scene = Scene(Granted(call()))

    steps = await scene.handle()

    assert steps == ["available", "admit", "leave the window", "ask", "save", "finish", "delete"]


@pytest.mark.parametrize(
    ("default", "asked", "looks"),
    [(30.0, None, False), (30.0, 3_600.0, False), (30.0, 3_601.0, True), (86_400.0, None, True)],
)
async def test_an_answer_that_redis_does_not_remember_is_looked_up_in_mongodb(
    default: float, asked: float | None, *, looks: bool
) -> None:
    scene = Scene()
    scene.limits.max_age, scene.limits.remembers_seconds = default, 3_600.0
    scene.decode = lambda _: REQUEST._replace(max_age=asked)

    assert ("fresh" in await scene.handle()) is looks


async def test_a_full_process_admits_without_asking_for_a_call() -> None:
    scene = Scene(Parked("room"))
    scene.slots.reserve(5, Line("usps"))

    steps = await asyncio.create_task(scene.handle())

    assert steps == ["available", "admit without room", "delete"]


@pytest.mark.parametrize(
    "admission",
    [
        Parked("rate"),
        Ended(State.SUCCESS),
        Full(9),
        IdConflict("usps:N002"),
        TooLate(1_800_000_000.0),
        Granted(call()),
        Dying(call(deaths=11)),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_whatever_becomes_of_a_request_its_place_is_free_again(admission: Admission) -> None:
    scene = Scene(admission)

    await scene.handle()

    assert scene.slots.taken == 0


async def test_an_answer_that_cannot_be_stored_is_asked_for_again() -> None:
    late = Permit(deadline=time.monotonic() + 0.01)
    scene = Scene(Granted(call(permit=late)))
    scene.journal.fail("save", *away(ResultsDown, 100))

    steps = await scene.handle()

    assert "finish" not in steps
    assert steps[-2:] == ["retry", "delete"]


async def test_no_call_is_asked_for_while_no_answer_could_be_stored() -> None:
    scene = Scene(Granted(call()))
    scene.journal.fail("available", *away(ResultsDown))

    with pytest.raises(ResultsDown):
        await scene.handle()

    assert scene.journal.steps == ["available"]


async def test_a_drain_job_is_put_before_the_parked_requests_job_goes() -> None:
    steps = await Scene(Parked("rate", put_drain=True)).handle()

    assert steps == ["available", "admit", "put drain usps", "delete"]


async def test_a_worker_asks_for_a_line_when_what_it_parked_may_go() -> None:
    scene = Scene(Parked("filling", ask_again=7.0))
    asked: list[tuple[str, float]] = []
    scene.runner.schedule = lambda line, at: asked.append((line, at))

    await scene.handle()

    assert asked == [("usps", 7.0)]


async def test_what_waits_is_mirrored_before_its_job_goes_however_often_that_takes() -> None:
    scene = Scene(Parked("rate", put_drain=True, at_us=7), mirrored=True)
    scene.journal.fail("mirror", *away(ResultsDown, 2))

    steps = await scene.handle()

    assert steps == ["available", "admit", *["mirror"] * 3, "put drain usps", "delete"]


@pytest.mark.parametrize(
    ("error", "then"),
    [
        (None, ["save", "finish", "delete"]),
        (CourierDown("no answer"), ["note failure", "retry", "mirror", "delete"]),
        (NotStarted("no slot"), ["hand back", "mirror", "delete"]),
    ],
)
async def test_what_waits_again_after_its_call_is_mirrored_before_its_job_goes(
    error: Exception | None, then: list[str]
) -> None:
    scene = Scene(Granted(call()), mirrored=True)

    def track(_: Call) -> Tracking:
        if error:
            raise error
        return TRACKING

    scene.track = track

    assert (await scene.handle())[-len(then) :] == then


async def test_what_is_to_be_given_up_is_mirrored_until_its_end_is_archived() -> None:
    steps = await Scene(Dying(call(deaths=11)), mirrored=True).handle()

    assert steps[2] == "mirror"
    assert steps[-2:] == ["finish", "delete"]


async def test_what_has_ended_needs_nothing_but_its_job_to_go() -> None:
    steps = await Scene(Ended(State.SUCCESS)).handle()

    assert steps == ["available", "admit", "delete"]


async def test_a_malformed_job_is_recorded_and_then_buried() -> None:
    scene = Scene(Ended(State.SUCCESS))

    def refuse(_: object) -> TrackingRequest:
        raise MalformedJob("bad_json", "no JSON")

    scene.decode = refuse
    scene.journal.fail("record 1", *away(ResultsDown, 3))

    steps = await scene.handle()

    assert steps == ["record 1"] * 4 + ["bury"]
    assert scene.malformed.counted == 1


@pytest.mark.parametrize(
    ("known", "then"), [("new-courier", ["release"]), ("other", ["record 1", "bury"])]
)
async def test_a_job_whose_courier_others_know_is_left_to_them(
    monkeypatch: pytest.MonkeyPatch, known: str, then: list[str]
) -> None:
    monkeypatch.setattr(handle, "LEFT_AFTER_SECONDS", 0.0)
    scene = Scene(ENDED)
    scene.known = frozenset({known})

    def refuse(_: object) -> TrackingRequest:
        error = MalformedJob("unknown_slug", "no courier has it")
        error.slug = "new-courier"
        raise error

    scene.decode = refuse
    scene.journal.fail("does anybody know new-courier", *away(LimitsDown, 2))

    steps = await scene.handle()

    assert steps == ["does anybody know new-courier"] * 3 + then


async def test_a_request_that_finds_the_list_full_is_recorded_first() -> None:
    steps = await Scene(Full(1_000_000)).handle()

    assert steps == ["available", "admit", "record 1", "delete"]


@pytest.mark.parametrize(
    "admission", [Full(9), IdConflict("usps:N002"), TooLate(1_800_000_000.0)], ids=str
)
async def test_a_service_hears_that_its_request_is_not_taken_before_the_job_goes(
    admission: Full | IdConflict | TooLate,
) -> None:
    scene = Scene(admission)
    request = REQUEST._replace(id="order-1042", webhook="shop")
    scene.decode = lambda _: request
    scene.journal.fail("tell", *away(ResultsDown, 2))

    steps = await scene.handle()

    assert steps == ["available", "admit", "record 1", *["tell"] * 3, "delete"]
    [(letter, service)] = scene.tells.told
    assert (service, letter.operations) == ("shop", ("order-1042",))
    assert letter.reason == letter_of_refused(Job(Journal()), request, admission).reason


async def test_a_service_hears_of_a_malformed_job_that_names_it_before_that_is_buried() -> None:
    scene = Scene(Ended(State.SUCCESS))

    def refuse(_: object) -> TrackingRequest:
        error = MalformedJob("bad_number", "no number")
        error.operation, error.webhook = "order-1042", "shop"
        raise error

    scene.decode = refuse

    assert await scene.handle() == ["record 1", "tell", "bury"]


async def test_a_request_with_the_id_of_another_parcel_is_recorded_first() -> None:
    steps = await Scene(IdConflict("usps:N002")).handle()

    assert steps == ["available", "admit", "record 1", "delete"]


async def test_its_record_names_both_parcels() -> None:
    request = REQUEST._replace(id="order-1042")

    letter = letter_of_refused(Job(Journal()), request, IdConflict("dhl:N002"))

    assert (letter.reason, letter.id) == ("id_reused", "key-of-the-job")
    assert all(each in letter.detail for each in ("order-1042", "dhl N002", "usps N001"))


async def test_a_request_that_comes_too_late_is_recorded_first() -> None:
    steps = await Scene(TooLate(1_800_000_000.0)).handle()

    assert steps == ["available", "admit", "record 1", "delete"]


@pytest.mark.parametrize(
    ("starts_at", "told"), [(1_800_000_000.0, "2027-01-15T08:00:00+00:00"), (1e12, "9999-12-31")]
)
def test_its_record_names_the_earliest_start_and_until_when_it_was_wanted(
    starts_at: float, told: str
) -> None:
    request = REQUEST._replace(expires_at=1_799_999_000.0)

    letter = letter_of_refused(Job(Journal()), request, TooLate(starts_at))

    assert letter.reason == "too_late"
    assert all(each in letter.detail for each in ("usps", told, "2027-01-15T07:43:20+00:00"))


async def test_a_dead_request_is_recorded_before_it_ends() -> None:
    steps = await Scene(Dying(call(deaths=11))).handle()

    assert steps == ["available", "admit", "note final failure", "record 1", "finish", "delete"]


async def test_a_failed_call_is_noted_before_it_is_repeated() -> None:
    scene = Scene(Granted(call()))

    def fail(_: object) -> Tracking:
        raise CourierDown("502")

    scene.track = fail

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


async def test_a_call_that_is_cut_off_is_handed_back_before_its_job_goes() -> None:
    scene = Scene(Granted(call()))

    def stop(_: object) -> Tracking:
        raise asyncio.CancelledError

    scene.track = stop

    steps = await scene.handle()

    assert steps == ["available", "admit", "leave the window", "ask", "hand back", "delete"]


async def test_an_admission_that_is_repeated_keeps_its_name() -> None:
    """What was granted by one whose answer was lost would wait for the end of its lease."""
    scene = Scene(Granted(call()))
    scene.journal.fail("admit", *away(LimitsDown, 2))

    await scene.handle()

    assert len(scene.limits.names) == 3
    assert len(set(scene.limits.names)) == 1


async def test_every_step_is_repeated_until_its_server_is_back() -> None:
    scene = Scene(Granted(call()))
    for step in ("admit", "finish"):
        scene.journal.fail(step, *away(LimitsDown, 2))
    scene.journal.fail("save", *away(ResultsDown, 2))

    steps = await scene.handle()

    assert steps == [
        "available",
        *["admit"] * 3,
        "leave the window",
        "ask",
        *["save"] * 3,
        *["finish"] * 3,
        "delete",
    ]


FULL = NoMemory("Raise it.")
Written = Callable[[], list[dict[str, Any]]]


async def admitted(scene: Scene, times: int) -> None:
    async with asyncio.timeout(5):
        while scene.journal.steps.count("admit") < times:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)


async def test_a_refused_request_keeps_its_job_and_no_place_for_a_call() -> None:
    """Else a process with few places would have none left to work off what waits."""
    scene = Scene(FULL)
    handling = asyncio.create_task(scene.handler.handle(Job(scene.journal)))
    await admitted(scene, 3)

    assert scene.slots.taken == 0
    assert "delete" not in scene.journal.steps

    scene.limits.admission = Granted(call())
    await handling
    assert scene.journal.steps[-4:] == ["ask", "save", "finish", "delete"]
    assert len(set(scene.limits.names)) == 1


async def test_of_many_refused_requests_one_asks_again_and_the_others_follow_at_once() -> None:
    scene = Scene(FULL)
    jobs = [asyncio.create_task(scene.handler.handle(Job(scene.journal))) for _ in range(20)]
    await admitted(scene, 40)
    asking = set(scene.limits.names[-10:])

    handle.ASK_AGAIN_SECONDS = 60.0  # who follows must not wait for it
    scene.limits.admission = Granted(call())
    async with asyncio.timeout(5):
        await asyncio.gather(*jobs)

    assert len(asking) == 1


async def test_a_full_redis_is_logged_once(written: Written) -> None:
    scene = Scene(FULL)
    jobs = [asyncio.create_task(scene.handler.handle(Job(scene.journal))) for _ in range(5)]
    await admitted(scene, 20)
    scene.limits.admission = Granted(call())
    await asyncio.gather(*jobs)

    told = [each for each in written() if each["event"] == "redis is full"]
    assert [(each["server"], each["fix"]) for each in told] == [("redis", "Raise it.")]


async def test_its_job_is_kept_outside_the_window_until_the_call_has_ended() -> None:
    scene = Scene(Held())
    handling = asyncio.create_task(scene.handler.handle(Job(scene.journal)))
    await admitted(scene, 3)
    assert "delete" not in scene.journal.steps
    assert "leave the window" in scene.journal.steps
    assert scene.slots.taken == 0

    scene.limits.admission = ENDED
    await handling

    assert "ask" not in scene.journal.steps
    assert scene.journal.steps[-1] == "delete"


async def test_who_has_lost_such_a_job_leaves_it_to_who_has_it_now() -> None:
    """Else a link that breaks again and again would leave one who asks for each time."""
    scene = Scene(Held())
    job = Job(scene.journal)
    handling = asyncio.create_task(scene.handler.handle(job))
    await admitted(scene, 2)

    job.lost = True
    await handling

    assert "delete" not in scene.journal.steps
