"""What a door took for a relay becomes one event and one delivery, whatever dies on the way."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from followers import Lines
from pymongo.errors import AutoReconnect
from relayed import NO_PUSHES, RECEIVED, Job, label_of, relay, request_to, stored

from service.worker.deliveries import relay_intake
from service.worker.deliveries.delivery import Delivery, delivery_id, delivery_in, event_id
from service.worker.deliveries.foreign_request import ForeignRequest, foreign_in
from service.worker.deliveries.outbox import insert_deliveries, insert_events
from service.worker.deliveries.relay_intake import RelayIntake, RelaySteps, take_requests
from service.worker.deliveries.service import Service, ServiceState, ServiceType, document_of
from service.worker.deliveries.store import majority
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from tracking.errors import MalformedJob, ResultsDown
from tracking.request import MAIN, Account

DAY = dt.timedelta(days=1)


@pytest.fixture
async def store(store: Store) -> Store:
    await store.prepare()
    return store


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def known(store: Store) -> Subscriptions:
    return Subscriptions(store)


@pytest.fixture
async def intake(store: Store, known: Subscriptions, lines: Lines) -> RelayIntake:
    return RelayIntake(store, known, lines.bring, RelaySteps(), NO_PUSHES)


def deliveries(store: Store) -> list[Delivery]:
    return list(map(delivery_in, store.deliveries.find().sort("made_at")))


async def taken(intake: RelayIntake, *requests: ForeignRequest) -> None:
    """Have requests taken, all in one turn of the loop."""
    await asyncio.gather(*(intake.take(Job.of(each)) for each in requests))  # type: ignore[arg-type]


async def test_a_request_becomes_an_event_and_a_delivery_that_is_brought_in_at_once(
    store: Store, known: Subscriptions, intake: RelayIntake, lines: Lines
) -> None:
    service = stored(store, relay())
    await known.learn()
    request = request_to(service)

    await taken(intake, request)

    [delivery] = deliveries(store)
    assert delivery.id == delivery_id(request.id, EventName.RELAY_REQUEST, service.id)
    assert (delivery.state, delivery.type) == ("open", EventName.RELAY_REQUEST)
    assert delivery.made_at == delivery.next_at == RECEIVED
    event = store.events.find_one({"_id": event_id(request.id, EventName.RELAY_REQUEST)})
    assert event
    assert foreign_in(event) == request
    assert lines.brought == [delivery]


STATES: list[tuple[Mapping[str, Any], str]] = [
    ({}, "open"),
    ({"state": ServiceState.PAUSED}, "held"),
    ({"state": ServiceState.DISABLED}, "held"),
    ({"state": ServiceState.DELETED}, "completed service_deleted"),
    ({"type": ServiceType.COURIER}, "open"),
    ({"type": ServiceType.COURIER, "destination": ""}, "completed nowhere_to_go"),
]


@pytest.mark.parametrize(("members", "becomes"), STATES, ids=str)
async def test_the_state_of_a_service_says_what_becomes_of_a_request(
    store: Store,
    known: Subscriptions,
    intake: RelayIntake,
    members: Mapping[str, Any],
    becomes: str,
) -> None:
    before, service = stored(store, relay("before", **members)), relay(**members)
    await known.learn()
    stored(store, service)

    await taken(intake, request_to(before), request_to(service))

    found = deliveries(store)
    assert {each.service for each in found} == {before.id, service.id}
    assert {f"{each.state} {each.why}".strip() for each in found} == {becomes}
    assert {each.ended_at is not None for each in found} == {becomes.startswith("completed")}


async def test_what_a_service_that_is_disabled_for_long_gets_is_held_all_the_same(
    store: Store, intake: RelayIntake
) -> None:
    long_ago = RECEIVED - 30 * DAY
    service = stored(store, relay(state=ServiceState.DISABLED, disabled_at=long_ago))

    await taken(intake, request_to(service))

    assert [each.state for each in deliveries(store)] == ["held"]


async def test_a_service_that_this_process_does_not_know_yet_is_found_and_learnt(
    store: Store, known: Subscriptions, intake: RelayIntake, lines: Lines
) -> None:
    await known.learn()
    service = stored(store, relay())

    await taken(intake, request_to(service))

    assert [each.state for each in deliveries(store)] == ["open"]
    assert known.active(label_of(service)) is known.by_line(service.line) is not None
    assert lines.brought == deliveries(store)


async def test_what_a_label_stands_for_is_read_as_a_majority_has_it(
    store: Store, intake: RelayIntake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def noting(collection: Any) -> Any:
        asked.append(collection.name)
        return majority(collection)

    monkeypatch.setattr(relay_intake, "majority", noting)

    await taken(intake, request_to(relay()))

    assert asked == ["services", "accounts"]
    concern = majority(store.services).read_concern
    assert concern.level == "majority"


def test_a_majority_has_what_is_stored_before_the_job_goes(store: Store) -> None:
    for collection in (store.events, store.deliveries):
        assert collection.write_concern.document["w"] == "majority"


async def test_a_service_that_was_deleted_and_its_namesake_are_told_apart(
    store: Store, known: Subscriptions, intake: RelayIntake
) -> None:
    old, new = relay(state=ServiceState.DELETED), relay()
    stored(store, old)
    stored(store, new)
    await known.learn()

    await taken(intake, request_to(old), request_to(new))

    found = {each.service: each.state for each in deliveries(store)}
    assert found == {old.id: "completed", new.id: "open"}


async def test_a_label_that_nobody_has_leads_to_a_delivery_that_is_completed(
    store: Store, intake: RelayIntake, lines: Lines
) -> None:
    request = request_to(relay())

    await taken(intake, request)

    [delivery] = deliveries(store)
    assert (delivery.service, delivery.account) == ("", MAIN)
    assert (delivery.state, delivery.why) == ("completed", "unknown_service")
    assert store.events.count_documents({}) == 1
    assert lines.brought == []


@pytest.mark.parametrize(
    ("member", "why"), [("removed_at", "account_removed"), ("suspended", "account_suspended")]
)
async def test_what_comes_for_an_account_that_is_not_served_is_completed(
    store: Store,
    known: Subscriptions,
    intake: RelayIntake,
    member: str,
    why: str,
) -> None:
    shop = Account("shop")
    service = stored(store, relay(account=shop, state=ServiceState.PAUSED))
    store.accounts.insert_one({"_id": shop, member: RECEIVED})
    await known.learn()

    await taken(intake, request_to(service), request_to(relay(account=shop)))

    assert {(each.state, each.why) for each in deliveries(store)} == {("completed", why)}
    assert {each.service for each in deliveries(store)} == {service.id, ""}


async def test_a_webhook_service_of_the_same_name_is_no_relay(
    store: Store, intake: RelayIntake
) -> None:
    hears = relay(type=ServiceType.WEBHOOK, ingest={})
    document = document_of(hears)
    del document["type"], document["ingest"]  # as a version before wrote it
    store.services.insert_one(document)

    await taken(intake, request_to(relay()))

    assert [each.why for each in deliveries(store)] == ["unknown_service"]


class Dies(Exception):
    """The process vanishes here."""


STEPS: list[tuple[str, str]] = [
    (step, when) for step in ("events", "deliveries") for when in ("before", "after")
]


@pytest.mark.parametrize("death", STEPS, ids=" ".join)
async def test_a_worker_that_vanishes_at_any_step_leaves_the_job_and_one_delivery_comes_of_it(
    store: Store, death: tuple[str, str]
) -> None:
    step, when = death
    service = stored(store, relay(ingest={"dedupe_header": "x-event"}))
    request = request_to(service)

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def dies(*given: Any) -> Any:
            if when == "after":
                real(*given)
            raise Dies

        return dies

    steps = RelaySteps(
        dying(insert_events) if step == "events" else insert_events,
        dying(insert_deliveries) if step == "deliveries" else insert_deliveries,
    )
    with pytest.raises(Dies):
        take_requests(store, [request], {}, steps, NO_PUSHES)
    assert store.deliveries.count_documents({}) == (death == ("deliveries", "after"))

    taken = take_requests(store, [request], {}, RelaySteps(), NO_PUSHES)

    assert taken.refused == {}
    assert [each.state for each in deliveries(store)] == ["open"]
    assert store.events.count_documents({}) == 1


async def test_two_workers_with_the_same_job_make_one_delivery(
    store: Store, known: Subscriptions, lines: Lines
) -> None:
    service = stored(store, relay(ingest={"dedupe_header": "x-event"}))
    request = request_to(service)
    both = [RelayIntake(store, known, lines.bring, RelaySteps(), NO_PUSHES) for _ in range(2)]

    await asyncio.gather(*(taken(each, request, request) for each in both))

    assert [each.state for each in deliveries(store)] == ["open"]
    assert lines.brought == deliveries(store)


@pytest.fixture
def written(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events each command inserted."""
    counts = list[int]()
    real = store.events.insert_many

    def insert_many(documents: Any, **more: Any) -> Any:
        counts.append(len(documents))
        return real(documents, **more)

    monkeypatch.setattr(store.events, "insert_many", insert_many)
    return counts


async def test_jobs_of_a_turn_are_written_together(
    store: Store, known: Subscriptions, intake: RelayIntake, written: list[int]
) -> None:
    service = stored(store, relay())
    await known.learn()

    await taken(intake, *(request_to(service) for _ in range(50)))

    assert written == [50]
    assert len(deliveries(store)) == 50


async def test_large_requests_are_written_a_few_at_a_time(
    store: Store, known: Subscriptions, intake: RelayIntake, written: list[int]
) -> None:
    service = stored(store, relay())
    await known.learn()
    largest = bytes(1 << 20)

    await taken(intake, *(request_to(service, body=largest) for _ in range(8)))

    assert written == [4, 4]
    assert {len(each["bodies"]["relay"]) for each in store.events.find()} == {1 << 20}


async def test_while_mongodb_is_away_nothing_is_taken_and_the_job_can_be_tried_again(
    store: Store, intake: RelayIntake, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_to(stored(store, relay()))

    def away(*_: Any, **__: Any) -> Any:
        raise AutoReconnect("no server")

    with monkeypatch.context() as patched:
        patched.setattr(store.deliveries, "insert_many", away)
        with pytest.raises(ResultsDown):
            await taken(intake, request)
    await store.available()

    await taken(intake, request)

    assert [each.state for each in deliveries(store)] == ["open"]


async def test_what_mongodb_refuses_is_malformed_with_its_reason_and_the_others_are_taken(
    store: Store, intake: RelayIntake
) -> None:
    service = stored(store, relay())
    rule = {"validator": {"request.target": {"$ne": "/refused"}}}
    store.events.database.command("collMod", store.events.name, **rule)
    good, bad = request_to(service), request_to(service, target="/refused")

    results = await asyncio.gather(
        *(intake.take(Job.of(each)) for each in (good, bad)),  # type: ignore[arg-type]
        return_exceptions=True,
    )

    assert results[0] is None
    assert isinstance(results[1], MalformedJob)
    assert results[1].reason == "unstorable_request"
    assert "MongoDB refuses it" in results[1].detail
    [delivery] = deliveries(store)
    assert delivery.event == event_id(good.id, EventName.RELAY_REQUEST)


async def test_a_request_to_a_service_that_a_later_version_wrote_is_not_taken_for_unknown(
    store: Store, intake: RelayIntake
) -> None:
    service = stored(store, relay())
    store.services.update_one({"_id": service.id}, {"$set": {"state": "dreaming"}})

    with pytest.raises(MalformedJob, match="cannot read service"):
        await taken(intake, request_to(service))

    assert store.deliveries.count_documents({}) == 0


async def test_a_job_that_no_door_wrote_is_malformed(intake: RelayIntake) -> None:
    with pytest.raises(MalformedJob, match="bad_json"):
        await intake.take(Job(b"{}\n"))  # type: ignore[arg-type]


def deduping() -> Service:
    return relay(ingest={"dedupe_header": "X-Event"})


async def test_the_same_value_within_a_day_is_one_delivery(
    store: Store, intake: RelayIntake
) -> None:
    service = stored(store, deduping())
    times = [RECEIVED + each * DAY for each in (0, 0.9, 1.1, 1.9)]
    for at in times:
        await taken(intake, request_to(service, received_at=at))

    found = [(each.state, each.why) for each in deliveries(store)]
    open_, double = ("open", ""), ("completed", "duplicate")
    assert found == [open_, double, open_, double]


async def test_of_the_same_values_in_one_turn_one_is_delivered(
    store: Store, intake: RelayIntake
) -> None:
    service = stored(store, deduping())

    await taken(intake, *(request_to(service) for _ in range(5)))

    assert sorted(each.state for each in deliveries(store)) == ["completed"] * 4 + ["open"]


async def test_a_repeated_job_is_no_duplicate_of_itself(store: Store, intake: RelayIntake) -> None:
    request = request_to(stored(store, deduping()))

    for _ in range(2):
        await taken(intake, request)

    assert [each.why for each in deliveries(store)] == [""]


async def test_values_are_told_apart_by_service_and_by_all_that_stands_in_the_header(
    store: Store, intake: RelayIntake
) -> None:
    first = stored(store, deduping())
    other = stored(store, relay("shop", ingest={"dedupe_header": "x-event"}))
    values = [("X-Event", "e1"), ("X-Event", "E1"), ("x-event", "\xff")]
    requests = [request_to(first, headers=(each,)) for each in values]
    requests += [request_to(first, headers=(values[0], values[0])), request_to(other)]

    await taken(intake, *requests)

    assert {each.state for each in deliveries(store)} == {"open"}


async def test_requests_without_the_header_are_never_duplicates(
    store: Store, intake: RelayIntake
) -> None:
    service = stored(store, deduping())

    await taken(intake, *(request_to(service, headers=()) for _ in range(3)))

    assert [each.state for each in deliveries(store)] == ["open"] * 3


async def test_values_of_a_service_are_kept_for_a_day_and_not_in_plain(
    store: Store, intake: RelayIntake
) -> None:
    told = (("X-Event", "order-4711"),)
    await taken(intake, request_to(stored(store, deduping()), headers=told))

    [kept] = store.relay_values.find()
    assert "4711" not in str(kept)
    assert kept["until"] > dt.datetime.now(dt.UTC) + 0.9 * DAY
    until = store.relay_values.index_information()["until_1"]
    assert until["expireAfterSeconds"] == 0
