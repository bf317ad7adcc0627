"""Every courier's answers, served over HTTP by the courier site, through the whole worker.

One worker has all couriers' cases at once; what stops a courier comes last. Another has couriers
that want fewer calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from courier_cases import (
    AUTH,
    ENDS,
    EVERY,
    IMPOSSIBLE,
    LIMITED,
    SECRET,
    STORIES,
    UNKNOWN_CODES,
    Case,
    number_of,
)
from endings import Endings
from plant import Document, Ground, Plant, open_plant
from running_worker import until
from yarl import URL

from couriers.registry import COURIERS
from devstack.site.found import SHAPES
from tracking.request import Slug

EACH = pytest.mark.parametrize("slug", EVERY)
ATTEMPTS = 2


@dataclass
class World:
    """What a worker left behind; by slug and number, `info` by slug alone."""

    documents: dict[tuple[str, str], Document] = field(default_factory=dict)
    dead: dict[tuple[str, str], list[Document]] = field(default_factory=dict)
    states: dict[str, str | None] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    info: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[tuple[str, str], int] = field(default_factory=dict)
    text: str = ""


def configured(plant: Plant) -> Plant:
    """Point all couriers to the site, with credentials, and let them be asked quickly."""
    plant.settings |= {"retry.attempts": ATTEMPTS, "limits.per_second": 50}
    for slug in EVERY:
        courier = COURIERS[Slug(slug)]
        section, url = f"couriers.{slug}", f"{plant.site.url}/{slug}"
        plant.settings[f"{section}.base_url"] = url
        if courier.TOKEN_URL:
            plant.settings[f"{section}.token_url"] = url + URL(courier.TOKEN_URL).path
        plant.settings |= {f"{section}.{key}": SECRET for key in courier.CREDENTIALS}
    return plant


def put(plant: Plant, slug: str, number: str) -> None:
    plant.producer.put(slug, number, id=f"{slug}.{number.replace('/', '-')}")


def paused(plant: Plant) -> bool:
    keys = [f"calls_paused:{slug}" for slug in EVERY]
    return plant.redis.exists(*keys) == len(keys)


def look(plant: Plant) -> World:
    """Read everything; a scenario is over when its worker can do no more."""
    world, database = World(), plant.tracking.database
    for document in plant.tracking.find():
        world.documents[document["slug"], document["tracking_number"]] = document
    for record in plant.dead.find():
        world.dead.setdefault((record["slug"], record["number"]), []).append(record)
    world.unread = {found["_id"] for found in database["unreadable"].find({}, {"_id": 1})}
    endings = plant.endings
    world.states = {
        each.id: endings.state(each.id) for each in plant.producer.acknowledged if each.id
    }
    told = json.loads(plant.command("info", "--json").stdout)
    world.info = {each["slug"]: each for each in told["couriers"]}
    kept = [list(database[name].find()) for name in database.list_collection_names()]
    lines = [worker.lines for worker in plant.workers]
    world.text = f"{kept} {lines} {told}"
    return world


@pytest.fixture(scope="module")
def worlds(ground: Ground) -> Iterator[tuple[World, World]]:
    with open_plant(ground) as plant, open_plant(ground) as hurried:
        for each in (plant, hurried):
            configured(each).hire()
        for slug in EVERY:
            for case in STORIES | ENDS:
                put(plant, slug, number_of(slug, case))
            put(hurried, slug, LIMITED.number)
        everything = Endings(plant.producer, plant.redis, plant.tracking.database, EVERY)
        everything.come(40.0)
        for slug in EVERY:
            put(plant, slug, AUTH.number)
        until(lambda: paused(plant) and paused(hurried), 20.0, "every courier is paused")
        found = look(plant), look(hurried)
        for worker in plant.workers:
            worker.stop()  # what it counted is written by then
        told = json.loads(plant.command("info", "--json").stdout)["unknown_codes"]
        found[0].codes = {(each["slug"], each["code"]): each["count"] for each in told}
        yield found


@pytest.fixture
def world(worlds: tuple[World, World]) -> World:
    return worlds[0]


def as_told(world: World, slug: str, number: str, case: Case) -> Document:
    document = world.documents[slug, number]
    outcomes = [attempt["outcome"] for attempt in document["attempts"]]
    assert outcomes == list(case.attempts), document["attempts"]
    operation = f"{slug}.{number.replace('/', '-')}"
    assert world.states[operation] == case.state
    return document


@EACH
@pytest.mark.parametrize("case", STORIES)
def test_what_a_courier_tells_is_stored(world: World, slug: str, case: str) -> None:
    told = STORIES[case]
    document = as_told(world, slug, told.number, told)

    assert {name: document[name] for name in told.stored} == told.stored
    assert document["error"] is None
    times = [point["checkpoint_time"] for point in document["checkpoints"]]
    assert len(set(times)) == told.checkpoints
    assert times == sorted(times)
    assert document["delivered_at"] == (times[-1] if case == "delivered" else None)
    assert (document["next_check_at"] is None) == (case == "delivered")
    if case == "exception":
        assert document["subtag"] == SHAPES[slug].PROBLEM
    assert (slug, told.number) not in world.dead


@EACH
def test_an_invalid_number_is_an_error_and_is_not_asked_for_again(world: World, slug: str) -> None:
    number, case = number_of(slug, "invalid number"), ENDS["invalid number"]
    document = as_told(world, slug, number, case)

    assert document["error"]["code"] == case.error
    assert (document["active"], document["next_check_at"]) == (False, None)
    asked = document["attempts"][0]["http_status"] is not None
    assert asked == (slug not in IMPOSSIBLE)
    assert (slug, number) not in world.dead


@EACH
@pytest.mark.parametrize("case", ["server error", "unreadable body"])
def test_what_stays_broken_is_dead_with_its_reason(world: World, slug: str, case: str) -> None:
    told = ENDS[case]
    document = as_told(world, slug, told.number, told)

    assert document["error"]["code"] == told.error
    assert (document["tag"], document["delivered"]) == ("Pending", False)
    [record] = world.dead[slug, told.number]
    assert record["reason"] == told.error
    assert record["operations"] == [f"{slug}.{told.number}"]


@EACH
def test_a_body_that_could_not_be_read_is_kept(world: World, slug: str) -> None:
    name = f"{slug}:{ENDS['unreadable body'].number}"
    assert (name in world.unread) == getattr(SHAPES[slug], "READ_AGAIN", True)


@EACH
@pytest.mark.parametrize(("which", "case"), [(0, AUTH), (1, LIMITED)], ids=["auth", "rate"])
def test_a_courier_that_refuses_is_paused_and_the_request_waits(
    worlds: tuple[World, World], slug: str, which: int, case: Case
) -> None:
    world, [why] = worlds[which], case.attempts
    view = world.info[slug]

    assert (view["bound_by"], view["paused_why"], view["waiting_manual"]) == ("paused", why, 1)
    assert view["until_seconds"] > 0
    assert as_told(world, slug, case.number, case)["error"] is None
    assert (slug, case.number) not in world.dead


def test_status_codes_without_a_meaning_are_counted(world: World) -> None:
    assert world.codes == dict.fromkeys(UNKNOWN_CODES, 1)


def test_no_credential_is_stored_logged_or_shown(worlds: tuple[World, World]) -> None:
    for world in worlds:
        assert SECRET not in world.text
        assert "courier-site-" not in world.text, "a token"
