"""What is stored of a group (flow/group.py), what is not, and what a stop leaves of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from flow_ports import away
from group_stage import Stage, group, soon

from service.worker.flow import call as call_module
from tracking.call import Call
from tracking.errors import LimitsBroken, ResultsDown, TrackingError, UnstorableAnswer


@pytest.fixture
async def stage() -> Stage:
    return Stage()


@pytest.mark.usefixtures("unread_log")
async def test_an_answer_that_cannot_be_stored_is_the_failure_of_its_number_alone(
    stage: Stage,
) -> None:
    stage.echo.unstored = {"B": UnstorableAnswer("a document that MongoDB refuses")}

    await stage.runner.run(group("A", "B", "C"))

    assert stage.limits.finished == ["c1", "c3"]
    (setback,) = stage.limits.setbacks
    assert (setback.why, setback.charged) == ("unstorable_answer", True)
    assert stage.limits.rooms == [None, 2]


@pytest.mark.usefixtures("unread_log")
async def test_only_what_is_not_confirmed_is_stored_again(stage: Stage) -> None:
    stage.echo.unstored = {"B": ResultsDown("no majority yet")}
    store_all = stage.echo.store_all

    async def confirmed_at_the_second_try(answers: Any) -> Sequence[TrackingError | None]:
        found = await store_all(answers)
        stage.echo.unstored.clear()
        return found

    stage.echo.store_all = confirmed_at_the_second_try  # type: ignore[method-assign]

    await stage.runner.run(group("A", "B", "C"))

    assert stage.echo.stored == [["A", "B", "C"], ["B"]]
    assert stage.limits.finished == ["c1", "c2", "c3"]


@pytest.mark.usefixtures("unread_log")
async def test_what_is_not_stored_while_mongodb_is_away_goes_back_in_its_order(
    stage: Stage,
) -> None:
    stage.results.is_available = False
    stage.echo.unstored = {each: ResultsDown("away") for each in ("B", "C")}

    await stage.runner.run(group("A", "B", "C", **soon()))

    assert (stage.limits.finished, stage.limits.handed_back) == (["c1"], ["c2", "c3"])
    assert stage.limits.setbacks == []
    assert stage.journal.steps[-2:] == ["hand back", "finish"]


@pytest.mark.usefixtures("unread_log")
async def test_a_group_that_cannot_be_stored_goes_back_as_it_was(stage: Stage) -> None:
    stage.results.is_available = False
    stage.journal.fail("store 3", *away(ResultsDown, 100))

    assert await stage.runner.run(group("A", "B", "C", **soon()))

    assert stage.limits.handed_back == ["c1", "c2", "c3"]
    assert stage.journal.steps.count("hand back") == 1


@pytest.mark.usefixtures("unread_log")
async def test_an_answer_that_a_mongodb_which_is_there_does_not_take_is_charged_to_it_alone(
    stage: Stage,
) -> None:
    stage.echo.unstored = {"B": ResultsDown("it changes all the time")}

    await stage.runner.run(group("A", "B", **soon()))

    assert stage.limits.finished == ["c1"]
    (setback,) = stage.limits.setbacks
    assert (setback.why, setback.charged) == ("results_down", True)


@pytest.mark.usefixtures("unread_log")
async def test_a_store_that_hangs_ends_before_the_lease_of_the_group(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "STORED_SECONDS", 0.01)

    async def hang(_: object) -> Sequence[None]:
        await asyncio.Event().wait()
        raise AssertionError

    stage.echo.store_all = hang  # type: ignore[method-assign]

    await stage.runner.run(group("A", "B", **soon()))

    assert stage.limits.handed_back == ["c1", "c2"]


async def test_all_of_a_group_are_handed_back_when_the_worker_stops(stage: Stage) -> None:
    running = await stage.hung("A", "B")

    running.cancel()

    assert await running
    assert stage.journal.steps == ["hand back"]
    assert stage.limits.handed_back == ["c1", "c2"], "in their order, so that the first leads again"
    assert stage.limits.rooms == [0]


async def test_what_has_ended_is_not_handed_back_when_the_worker_stops(stage: Stage) -> None:
    hung = asyncio.Event()
    retry = stage.limits.retry

    async def hang_over_c3(failed: Call, *more: Any) -> Any:
        if failed.id == "c3":
            hung.set()
            await asyncio.Event().wait()
        return await retry(failed, *more)

    stage.limits.retry = hang_over_c3  # type: ignore[method-assign]
    running = asyncio.create_task(stage.runner.run(group("A", "D1", "D2", "B")))
    await hung.wait()
    await asyncio.sleep(0)

    running.cancel()

    assert await running
    assert stage.limits.handed_back == ["c1", "c3", "c4"]


async def test_a_group_that_has_ended_is_not_handed_back(stage: Stage) -> None:
    hung = asyncio.Event()

    async def hang(*_: object) -> None:
        hung.set()
        await asyncio.Event().wait()

    stage.runner.apply = hang  # type: ignore[method-assign]
    running = asyncio.create_task(stage.runner.run(group("A", "B")))
    await hung.wait()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert stage.journal.steps == ["store 2", "finish"]


@pytest.mark.usefixtures("unread_log")
async def test_a_defect_over_one_number_stops_none_of_the_others(stage: Stage) -> None:
    stage.journal.fail("ask alone", LimitsBroken("a key has another type"))

    await stage.runner.run(group("L", "A", "B", **soon()))

    assert stage.limits.finished == ["c2", "c3"]
