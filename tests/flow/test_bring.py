"""Requests without a job (flow/bring.py): nobody waits for them, and nothing is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from flow_ports import REQUEST, TRACKING, USPS, Scene, away, call

from service.worker.flow import bring
from service.worker.flow.bring import Bringing, Wish
from tracking.call import Admission, Dying, Full, Granted, Held, NoMemory, Parked
from tracking.checkpoint import Tracking
from tracking.errors import LimitsBroken, LimitsDown
from tracking.line import line_of

WISH: Wish = (REQUEST, "key")


async def steps_of(scene: Scene, wishes: Sequence[Wish] = (WISH,)) -> list[str]:
    """What is done until all is settled."""
    door = Bringing(scene.limits, scene.runner, scene.tasks, scene.slots)
    door.bring(wishes)
    return await scene.all_ended()


async def test_a_granted_one_is_called_and_ends() -> None:
    scene = Scene(Granted(call()))

    assert await steps_of(scene) == ["admit", "ask", "save", "finish"]
    assert scene.slots.taken == 0


async def test_for_one_that_waits_a_drain_job_is_put_and_the_line_is_asked_for() -> None:
    scene, at = Scene(Parked("rate", put_drain=True, ask_again=7.0)), 7.0

    assert await steps_of(scene) == ["admit", "put drain usps"]
    assert scene.again == [(USPS, at)]


@pytest.mark.parametrize("admission", [Full(1_000), NoMemory("fix"), Held()])
async def test_what_is_not_admitted_is_left_to_its_store(admission: Admission) -> None:
    scene = Scene(admission)

    assert await steps_of(scene) == ["admit"]
    assert scene.slots.taken == 0


async def test_a_full_line_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(Full(1_000))
    door = Bringing(scene.limits, scene.runner, scene.tasks, scene.slots)
    for key in "abc":
        door.bring([(REQUEST, key)])
        await scene.all_ended()
    assert scene.journal.steps == ["admit"]

    monkeypatch.setattr(bring, "FULL_SECONDS", 0.0)
    door = Bringing(scene.limits, scene.runner, scene.tasks, scene.slots)
    assert await steps_of(scene, [(REQUEST, key) for key in "ab"]) == ["admit"] * 3


async def test_one_over_which_workers_vanished_is_ended() -> None:
    scene = Scene(Dying(call(deaths=11)))

    assert (await steps_of(scene))[-1] == "finish"


async def test_while_redis_is_away_it_is_asked_for_some_seconds_under_the_same_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(Granted(call()))
    scene.journal.fail("admit", *away(LimitsDown))
    assert await steps_of(scene) == ["admit", "admit", "ask", "save", "finish"]
    assert len(set(scene.limits.names)) == 1

    monkeypatch.setattr(bring, "TRIED_SECONDS", 0.0)
    scene = Scene(Granted(call()))
    scene.journal.fail("admit", *away(LimitsDown, 3))
    assert await steps_of(scene) == ["admit"]


@pytest.mark.usefixtures("unread_log")
async def test_a_broken_line_keeps_no_other_request_out() -> None:
    scene = Scene(Parked("rate"))
    scene.journal.fail("admit", LimitsBroken("a key"))

    assert await steps_of(scene, [WISH, (REQUEST, "other")]) == ["admit", "admit"]


async def test_what_waits_to_be_brought_in_is_brought_in_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bring, "AT_ONCE", 1)
    scene = Scene(Parked("rate"))

    assert await steps_of(scene, [(REQUEST, key) for key in "abab"]) == ["admit", "admit"]


async def test_no_more_wait_to_be_brought_in_than_memory_is_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bring, "WAITING_MOST", 3)
    scene = Scene(Parked("rate"))

    assert len(await steps_of(scene, [(REQUEST, str(key)) for key in range(9)])) == 3


async def test_calls_of_what_is_brought_in_do_not_hold_up_the_next() -> None:
    scene = Scene(Granted(call()))

    def slow(_: object) -> Tracking:
        time.sleep(0.0)
        return TRACKING

    scene.track = slow
    steps = await steps_of(scene, [(REQUEST, str(key)) for key in range(3)])

    assert steps[:3] == ["admit", "admit", "admit"]


async def test_a_process_without_room_has_it_wait() -> None:
    scene = Scene(Parked("room"))
    held = asyncio.Event()

    async def hold() -> None:
        scene.slots.reserve(5, line_of(REQUEST))
        await held.wait()

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    door = Bringing(scene.limits, scene.runner, scene.tasks, scene.slots)
    door.bring([WISH])
    assert await scene.all_ended() == ["admit without room"]
    held.set()
    await holding
