"""What becomes of a delivery by an attempt, and of its line."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from typing import Any

import pytest
from engine import BODY, DELIVERED, DOWN, REFUSED, Receiver, deliveries_of, service, sign
from receiving import Permit

from service.worker.deliveries.attempt import Ending, Failure
from service.worker.deliveries.delivery import Delivery, DeliveryState
from service.worker.deliveries.secret_box import Unreadable
from service.worker.deliveries.store import Found
from service.worker.deliveries.work import DeliveryWork, moved
from tracking.call import Attempt, Call, Decision, Refuse, Repeat
from tracking.errors import (
    CourierDown,
    CourierError,
    GivenUp,
    NotStarted,
    ResultsDown,
    UnreadableAnswer,
    WorkersVanished,
)
from tracking.line import DELIVERY

SHOP = service(attempts=3)
(ONE,) = deliveries_of(SHOP, 1)
NOW = dt.datetime.now(dt.UTC)
LATER = replace(ONE, next_at=NOW + dt.timedelta(hours=5), made=2)
RESTING = Ending(Failure.OVERLOADED, 429, 120.0)
BRAKE = DELIVERY.brakes["destination_down"]


class Kept:
    """One delivery, as MongoDB would have it."""

    def __init__(self, delivery: Delivery = ONE, row: dict[str, Any] | None = None) -> None:
        self.delivery, self.row = delivery, row
        self.steps: list[str] = []
        self.down = False

    async def read(self, _: str) -> Found:
        if self.down:
            raise ResultsDown("MongoDB is away")
        return Found(self.delivery, {"bodies": {"standard": BODY}}, self.row)

    async def note(self, row: dict[str, Any]) -> None:
        self.steps.append(f"note {row['_id'].rpartition('.')[2]}")

    async def move(self, was: Delivery, to: Delivery) -> None:
        assert was == self.delivery
        self.steps.append(f"move to {to.state}")
        self.delivery = to


class Heard:
    """What is heard of services."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    async def note(self, *_: object, first: bool) -> None:
        self.kept.steps.append("hear of the first" if first else "hear")


def used() -> Permit:
    """A permit by which something was sent."""
    permit = Permit()
    permit.steps.append("before_send")
    return permit


def call_for(delivery: Delivery = ONE, **more: Any) -> Call:
    fields: dict[str, Any] = {"permit": Permit(), "granted_us": 0, "waiting_since": 0.0}
    return Call("c1", SHOP.line, delivery.request(), **(fields | more))


def work_on(kept: Kept, ending: Ending = DELIVERED, signs: Any = sign) -> DeliveryWork:
    store: Any = kept
    receiver: Any = Receiver(latency=0.0, answers=lambda *_: ending)
    heard: Any = Heard(kept)
    return DeliveryWork(store, lambda _: SHOP, receiver, signs, heard)


async def ended(
    kept: Kept, ending: Ending = DELIVERED, signs: Any = sign
) -> tuple[Decision | None, list[str]]:
    """What is decided after an attempt, and the steps in MongoDB."""
    work, call = work_on(kept, ending, signs), call_for(kept.delivery)
    attempt = Attempt(NOW, "any", 1)
    try:
        (done,) = await work.perform([call])
    except CourierError as error:
        decision = work.decide(error, call, time.time())
        await work.fail(call, error, attempt, final=isinstance(decision, Refuse))
        return decision, kept.steps
    await work.store(call, done, attempt)  # type: ignore[arg-type]
    return None, kept.steps


async def test_an_attempt_has_its_row_before_the_delivery_moves_and_is_heard_of_then() -> None:
    assert await ended(Kept()) == (None, ["note 1", "move to delivered", "hear of the first"])
    _, steps = await ended(Kept(replace(ONE, made=1)), DOWN)
    assert steps == ["note 2", "move to open", "hear"]


async def test_a_failure_of_the_delivery_is_not_held_against_the_service() -> None:
    decision, steps = await ended(Kept(), REFUSED)

    assert isinstance(decision, Repeat)
    assert (decision.setback.brake, decision.setback.named) == (None, None)
    assert steps == ["note 1", "move to open"]


async def test_what_is_due_within_a_minute_waits_in_redis_as_it_stands_then() -> None:
    decision, _ = await ended(Kept(), DOWN)

    assert isinstance(decision, Repeat)
    assert decision.setback.fields == {"round": "1", "made": "1"}
    assert 4.0 < decision.setback.delay < 6.0
    assert (decision.setback.brake, decision.setback.charged) == (BRAKE, False)


async def test_what_is_due_later_leaves_redis_and_the_line_hears_of_the_failure() -> None:
    decision, _ = await ended(Kept(replace(ONE, made=1)), DOWN)
    assert isinstance(decision, Refuse)
    assert decision.setback is not None
    assert decision.setback.brake == BRAKE

    decision, _ = await ended(Kept(replace(ONE, made=1)), REFUSED)
    assert decision == Refuse(None)


async def test_a_rest_that_the_receiver_asks_for_stops_the_line_for_so_long() -> None:
    kept = Kept()
    decision, _ = await ended(kept, RESTING)

    assert isinstance(decision, Refuse)
    assert decision.setback is not None
    assert (decision.setback.named, decision.setback.firm) == (120.0, True)
    assert (kept.delivery.made, kept.delivery.round_from) == (1, 1)


async def test_without_a_key_nothing_is_sent_and_the_line_stops() -> None:
    def locked(*_: object) -> dict[str, str]:
        raise Unreadable("a")

    kept = Kept()
    decision, steps = await ended(kept, signs=locked)

    assert isinstance(decision, Repeat)
    assert decision.setback.brake == DELIVERY.brakes["no_key"]
    assert (decision.setback.firm, steps) == (True, [])


async def test_while_mongodb_is_away_nothing_is_sent() -> None:
    kept = Kept()
    kept.down = True

    with pytest.raises(NotStarted):
        await work_on(kept).perform([call_for()])


@pytest.mark.parametrize(
    ("error", "why"),
    [(WorkersVanished(11), "workers_vanished"), (UnreadableAnswer("it broke"), "defect")],
)
async def test_what_nobody_can_attempt_is_dead_in_deliveries_only(
    error: CourierError, why: str
) -> None:
    kept = Kept()
    work = work_on(kept)

    await work.fail(call_for(), error, Attempt(NOW, error.code, 0), final=True)

    assert (kept.delivery.state, kept.delivery.why) == (DeliveryState.DEAD, why)
    assert work.letter(call_for(), error) is None


async def test_a_call_that_took_too_long_is_an_attempt_that_timed_out() -> None:
    kept = Kept()
    work, error = work_on(kept), CourierDown("too long")
    decision = work.decide(error, call_for(permit=used()), time.time())

    assert isinstance(decision, Refuse)
    await work.fail(call_for(), error, Attempt(NOW, error.code, 20_000), final=True)
    assert kept.steps == ["note 1", "move to open", "hear of the first"]
    assert kept.delivery.why == "timeout"


def test_what_cannot_be_stored_and_what_breaks_is_attempted_again_and_some_day_not() -> None:
    work = work_on(Kept())
    for error in (GivenUp("results_down", ""), CourierDown("slow"), UnreadableAnswer("broke")):
        decision = work.decide(error, call_for(permit=Permit()), time.time())
        assert isinstance(decision, Repeat)
    tried = call_for(tries=10, permit=Permit())
    assert isinstance(work.decide(UnreadableAnswer("broke"), tried, time.time()), Refuse)


@pytest.mark.parametrize(
    ("was", "ending", "state", "made", "round_from", "seconds"),
    [
        (ONE, DELIVERED, "delivered", 1, 0, None),
        (ONE, DOWN, "open", 1, 0, 5),
        (ONE, REFUSED, "open", 1, 0, 5),
        (replace(ONE, made=1), DOWN, "open", 2, 0, 300),
        (replace(ONE, made=2), DOWN, "dead", 3, 0, None),
        (replace(ONE, made=2, round_from=1), DOWN, "open", 3, 1, 300),
        (replace(ONE, made=2), RESTING, "open", 3, 1, 120),
        (replace(ONE, made=2), Ending(Failure.GONE, 410), "held", 3, 1, None),
        (LATER, DOWN, "open", 3, 1, None),
        (LATER, REFUSED, "dead", 3, 0, None),
        (LATER, DELIVERED, "delivered", 3, 0, None),
    ],
)
def test_a_delivery_becomes(  # noqa: PLR0913, PLR0917 - a table
    was: Delivery, ending: Ending, state: str, made: int, round_from: int, seconds: float | None
) -> None:
    to = moved(was, ending, SHOP, NOW, 0)

    assert (to.state.value, to.made, to.round_from) == (state, made, round_from)
    assert to.why == (ending.failure or "")
    assert (to.ended_at is None) == (state in {"open", "held"})
    if seconds is not None:
        assert 0.89 * seconds <= (to.next_at - NOW).total_seconds() <= 1.11 * seconds
    elif state in {"open", "held"}:
        assert to.next_at == was.next_at
