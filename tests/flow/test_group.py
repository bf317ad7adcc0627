"""Groups (flow/group.py): several calls under one permit, each with an end of its own.

A group is performed once. What is answered is stored and finished in one go, whatever failed ends
beside it, and the last end takes what follows. An error of the whole call is one failure, of which
no number is accused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from flow_ports import TRACKING, Scene
from group_stage import THIRTY, Stage, group

from service.observe.counts import Counts
from service.observe.events import Event
from service.worker.flow import call as call_module
from service.worker.flow import group as group_module
from tracking.call import Call
from tracking.checkpoint import Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    NoCredentials,
    NotStarted,
    RateLimited,
    RequestRefused,
    Unread,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.operation import State

Written = Callable[[], list[dict[str, Any]]]

OF_THE_LINE = [
    CourierDown("503", http_status=503, excerpt="of all"),
    RateLimited("429", retry_after=30.0, http_status=429),
    AuthFailed("401", http_status=401),
    NoCredentials("none are set"),
]
OF_A_NUMBER = [
    RequestRefused("400", http_status=400, excerpt="N002 is no number"),
    UnreadableAnswer("a web page", http_status=200),
    WrongNumber("about another", http_status=200),
    InvalidNumber("it cannot be", http_status=404),
]


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_a_group_is_asked_about_once_then_stored_in_one_go_then_finished_in_one_go(
    stage: Stage,
) -> None:
    assert not await stage.runner.run(group("A", "B"))

    assert stage.echo.asked == [["A", "B"]]
    assert stage.journal.steps == ["store 2", "finish"]
    assert stage.limits.finished == ["c1", "c2"]
    assert [each.output for each in stage.limits.verdicts] == [{"echo": "A"}, {"echo": "B"}]
    assert [each.attempt.outcome for each in stage.limits.verdicts if each.attempt] == [
        "answered",
        "answered",
    ]


async def test_a_group_that_is_answered_makes_no_task_for_each_number(stage: Stage) -> None:
    made = list[object]()
    loop = asyncio.get_running_loop()
    calls = group(*THIRTY)

    def count(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        made.append(work)
        return asyncio.Task(work, loop=loop, **more)

    loop.set_task_factory(count)
    await stage.runner.run(calls)
    loop.set_task_factory(None)

    assert made == []
    assert stage.journal.steps == ["store 30", "finish"]


async def test_a_call_for_one_number_is_stored_and_finished_as_before(stage: Stage) -> None:
    assert not await stage.runner.run(group("A"))

    assert stage.journal.steps == ["store A of c1", "finish"]


async def test_one_number_fails_for_itself_and_the_others_are_answered(stage: Stage) -> None:
    await stage.runner.run(group("A", "D", "B"))

    assert stage.journal.steps == ["store 2", "note courier_down of c2", "retry", "finish"]
    assert stage.limits.finished == ["c1", "c3"]
    assert [each.charged for each in stage.limits.setbacks] == [True]


async def test_only_the_last_end_of_a_group_takes_what_follows(stage: Stage) -> None:
    await stage.runner.run(group("D1", "A", "L1", "R1", "D2"))

    assert stage.limits.rooms == [None, None, None, None, 2]
    assert stage.journal.steps[-1] == "finish"


async def test_where_no_number_is_answered_the_last_failure_takes_what_follows(
    stage: Stage,
) -> None:
    assert await stage.runner.run(group("R1", "D1", "D2"))

    assert stage.limits.rooms == [None, None, 2]
    assert [each.state for each in stage.limits.verdicts] == [State.ERROR]
    assert len(stage.limits.setbacks) == 2


async def test_a_number_that_the_answer_leaves_out_is_asked_about_alone(
    stage: Stage, written: Written
) -> None:
    await stage.runner.run(group("A", "L", "B"))
    await asyncio.sleep(0)

    assert (stage.limits.alone, stage.limits.finished) == (["c2"], ["c1", "c3"])
    assert stage.limits.setbacks == [], "it is charged nothing"
    assert "answer leaves a number out" in [each["event"] for each in written()]


@pytest.mark.usefixtures("unread_log")
async def test_an_answer_that_leaves_out_the_only_number_cannot_be_read(stage: Stage) -> None:
    assert await stage.runner.run(group("L"))

    assert stage.limits.alone == [], "it would be asked about alone for ever"
    assert [each.why for each in stage.limits.setbacks] == ["unreadable_answer"]


async def test_a_group_that_was_not_sent_goes_back_in_its_order_and_in_one_go(stage: Stage) -> None:
    stage.echo.whole = NotStarted("the grant is long past")

    assert await stage.runner.run(group("A", "B", "C", started=False))

    assert stage.journal.steps == ["hand back"]
    assert stage.limits.handed_back == ["c1", "c2", "c3"]
    assert stage.limits.rooms == [2]


@pytest.mark.parametrize("error", OF_THE_LINE, ids=lambda error: error.code)
@pytest.mark.usefixtures("unread_log")
async def test_an_error_of_the_line_is_charged_to_no_number_of_a_group(
    stage: Stage, error: CourierError
) -> None:
    stage.echo.whole = error

    assert await stage.runner.run(group("A", "B", "C"))

    setbacks = stage.limits.setbacks
    assert [(each.why, each.charged) for each in setbacks] == [(error.code, False)] * 3
    assert all(each.brake for each in setbacks), "what stops the line is Redis' to decide, once"
    assert stage.limits.rooms == [None, None, 2]
    assert stage.limits.halved == []


@pytest.mark.usefixtures("unread_log")
async def test_a_group_that_failed_is_due_again_at_one_instant(stage: Stage) -> None:
    stage.echo.whole = CourierDown("503")

    await stage.runner.run(group(*THIRTY))

    assert len({each.delay for each in stage.limits.setbacks}) == 1


@pytest.mark.usefixtures("unread_log")
async def test_a_group_of_which_one_failed_before_is_due_number_by_number(stage: Stage) -> None:
    stage.echo.whole = CourierDown("503")
    *calls, last = group(*THIRTY)

    await stage.runner.run([*calls, last._replace(tries=1)])

    assert len({each.delay for each in stage.limits.setbacks}) == len(THIRTY)
    assert not any(each.charged for each in stage.limits.setbacks)


@pytest.mark.usefixtures("unread_log")
async def test_a_number_of_a_failing_group_that_fails_for_days_is_dead(stage: Stage) -> None:
    stage.echo.whole = CourierDown("503")
    first, second = group("A", "B")
    old = second._replace(failing_since=time.time() - 8 * 86_400.0)

    await stage.runner.run([first, old])

    assert [each.id for each in stage.dead.letters] == ["c2"]
    assert (len(stage.limits.setbacks), stage.limits.finished) == (1, ["c2"])
    assert stage.limits.rooms == [None, 2]


@pytest.mark.usefixtures("unread_log")
async def test_a_group_that_is_not_answered_in_time_fails_as_one(stage: Stage) -> None:
    stage.echo.hangs = True

    assert await stage.runner.run(group("A", "B", deadline=0.0))

    noted = ["note courier_down of c1", "retry", "note courier_down of c2", "retry"]
    assert stage.journal.steps == noted
    assert [each.charged for each in stage.limits.setbacks] == [False, False]


@pytest.mark.parametrize("error", OF_A_NUMBER, ids=lambda error: error.code)
async def test_an_error_that_one_number_may_have_caused_halves_the_group(
    stage: Stage, written: Written, error: CourierError
) -> None:
    stage.echo.whole = error

    assert await stage.runner.run(group("A", "B", "C"))

    assert stage.limits.halved == [["c1", "c2", "c3"]]
    assert (stage.limits.setbacks, stage.limits.verdicts) == ([], [])
    assert stage.limits.rooms == [2]
    [line] = [each for each in written() if "halved" in each["event"]]
    assert (line["numbers"], line["error"]) == (3, error.code)


@pytest.mark.usefixtures("unread_log")
async def test_a_module_that_breaks_over_several_numbers_halves_the_group(stage: Stage) -> None:
    stage.echo.whole = KeyError("events")

    await stage.runner.run(group("A", "B"))

    assert stage.limits.halved == [["c1", "c2"]]


@pytest.mark.usefixtures("unread_log")
async def test_a_module_that_breaks_over_one_number_fails_as_before(stage: Stage) -> None:
    stage.echo.whole = KeyError("events")

    await stage.runner.run(group("A"))

    assert stage.limits.halved == []
    assert [each.charged for each in stage.limits.setbacks] == [True]


@pytest.mark.parametrize("error", [OF_THE_LINE[0], OF_A_NUMBER[0]], ids=lambda error: error.code)
@pytest.mark.usefixtures("unread_log")
async def test_the_failure_of_a_group_is_noted_of_each_number_without_the_body(
    stage: Stage, error: CourierError
) -> None:
    stage.echo.whole = error

    await stage.runner.run(group("A", "B"))

    noted = [(each.outcome, each.http_status, each.excerpt) for each in stage.echo.attempts]
    assert noted == [(error.code, error.http_status, "")] * 2
    assert error.excerpt, "what was raised is not changed"


@pytest.mark.usefixtures("unread_log")
async def test_a_body_about_several_numbers_is_kept_for_none_of_them(stage: Stage) -> None:
    error = UnreadableAnswer("a web page", http_status=200)
    error.unread = Unread("N001", 200, {}, b"<html>")
    stage.echo.whole = error

    await stage.runner.run(group("A", "B"))

    kept = [each.unread for each in stage.echo.errors if isinstance(each, UnreadableAnswer)]
    assert kept == [None, None]


async def test_the_attempt_of_a_call_is_noted_with_each_number(stage: Stage) -> None:
    await stage.runner.run(group("A", "R"))

    (refused,) = stage.echo.attempts
    answered, *_ = [each.attempt for each in stage.limits.verdicts if each.output == {"echo": "A"}]
    assert answered
    assert (refused.at, refused.ms) == (answered.at, answered.ms)
    assert (refused.outcome, answered.outcome) == ("invalid_number", "answered")


@pytest.mark.parametrize("whole", [None, OF_THE_LINE[0]])
async def test_a_call_is_logged_and_counted_once_for_its_group_and_each_end_for_itself(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, whole: CourierError | None
) -> None:
    told, counts = list[tuple[Event, str, object]](), Counts()
    counted = counts.of_events()

    def emit(event: Event, **fields: Any) -> None:
        told.append((event, fields["number"], fields.get("numbers")))
        counted[event](fields)

    for module in (call_module, group_module):
        monkeypatch.setattr(module, "emit", emit)
    stage.echo.whole = whole

    await stage.runner.run(group("A", "B", "C"))

    end = Event.RETRIED if whole else Event.ANSWERED
    assert told == [(Event.CALLED, "A", 3), *((end, number, None) for number in "ABC")]
    outcome = whole.code if whole else "answered"
    assert counts.sums["tracker_courier_calls_total", "usps", outcome] == 1


async def test_the_courier_is_asked_for_several_numbers_in_one_call() -> None:
    scene = Scene()

    await scene.runner.run(group("A", "B"))

    assert scene.journal.steps == ["ask for 2", "save 2", "finish"]
    assert [each.output for each in scene.limits.verdicts] == [
        {"tag": "InTransit", "subtag": "InTransit_003", "delivered": False, "checkpoints": 0}
    ] * 2


async def test_a_courier_answers_leaves_out_and_refuses_numbers_of_one_call() -> None:
    scene = Scene()
    refused = InvalidNumber("never")

    async def answer(calls: Sequence[Call]) -> dict[str, Tracking | CourierError]:
        assert len(calls) == 3
        return {"C": refused, "A": TRACKING}

    scene.answer_many = answer

    await scene.runner.run(group("A", "B", "C"))

    assert scene.limits.alone == ["c2"]
    assert sorted(scene.limits.finished) == ["c1", "c3"]
