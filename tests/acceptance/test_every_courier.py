"""Every courier's answers, served over HTTP by the courier site, through the whole worker.

One worker has all couriers' cases at once; what stops a courier comes last. Another has couriers
that want fewer calls. A third asks DHL Express by its other way, MyDHL.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from courier_cases import (
    AUTH,
    ENDS,
    EVERY,
    IMPOSSIBLE,
    LIMITED,
    REFUSED,
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

from couriers.dhl import OTHER_WAY
from couriers.registry import COURIERS
from couriers.slugs import TOGETHER
from devstack.site.found import SHAPES
from tracking.request import Slug

ATTEMPTS = 1
"""Failures that are charged to a number: the first one is not, as nobody was answered since."""

STAYS = ("server error", "unreadable body")
EXPRESS = "dhl over MyDHL"


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


class Asked(NamedTuple):
    """A courier, and the world in which it was asked. `unseen`: events that this way lacks."""

    world: World
    slug: str
    unseen: int = 0


def configured(plant: Plant) -> Plant:
    """Point all couriers to the site, with credentials, and let them be asked quickly.

    Hundreds of calls begin together, so on a busy machine each may take seconds.
    """
    plant.settings |= {"limits.call_timeout_seconds": 20.0, "limits.lease_seconds": 60.0}
    plant.settings |= {"retry.attempts": ATTEMPTS, "limits.per_second": 50}
    for slug in EVERY:
        courier = COURIERS[Slug(slug)]
        section, url = f"couriers.{slug}", f"{plant.site.url}/{slug}"
        plant.settings[f"{section}.base_url"] = url
        if hasattr(courier, "TOKEN_URL"):
            plant.settings[f"{section}.token_url"] = url + URL(courier.TOKEN_URL).path
        plant.settings |= {f"{section}.{key}": SECRET for key in courier.CREDENTIALS}
        if slug in TOGETHER:
            # In company, the story of one number would enter the attempts of all.
            plant.settings[f"limits.slugs.{slug}.together"] = 1
    return plant


def by_mydhl(plant: Plant) -> Plant:
    """Give DHL Express the credentials of its customers, and no key."""
    del plant.settings["couriers.dhl.api_key"]
    plant.settings |= {f"couriers.dhl.{key}": SECRET for key in OTHER_WAY.credentials}
    return plant


def refused_at_once(plant: Plant, slug: str) -> None:
    """Have a courier refuse for both reasons. Either stops it, so both calls begin before."""
    plant.site.behave(slug, held=True)
    before = len(plant.calls(slug))
    for case in (AUTH, LIMITED):
        put(plant, slug, case.number)
    until(lambda: len(plant.calls(slug)) == before + 2, 10.0, "both calls are there")
    plant.site.behave(slug)
    until(
        lambda: paused(plant, [slug]) and not plant.redis.exists(f"calls_leases:{slug}"),
        10.0,
        "the courier is paused, and no call runs",
    )


def others_are_answered(plant: Plant, slugs: Sequence[str]) -> None:
    """Ask for a number that is answered, until those that always fail are blamed and dead."""
    number, count = STORIES["unknown number"].number, itertools.count()

    def all_dead() -> bool:
        dead = {(each["slug"], each["number"]) for each in plant.dead.find()}
        left = [slug for slug in slugs for case in STAYS if (slug, ENDS[case].number) not in dead]
        for slug in dict.fromkeys(left):
            plant.producer.put(slug, number, id=f"{slug}.again.{next(count)}", max_age=0)
        return not left

    until(all_dead, 40.0, "what stays broken is dead", step=1.0)


def put(plant: Plant, slug: str, number: str) -> None:
    plant.producer.put(slug, number, id=f"{slug}.{number.replace('/', '-')}")


def paused(plant: Plant, slugs: Sequence[str] = EVERY) -> bool:
    keys = [f"calls_paused:{slug}" for slug in slugs]
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
def worlds(ground: Ground) -> Iterator[tuple[World, World, World]]:
    with open_plant(ground) as plant, open_plant(ground) as hurried, open_plant(ground) as express:
        by_mydhl(configured(express)).hire()
        for each in (plant, hurried):
            configured(each).hire()
        for case in STORIES | ENDS:
            put(express, "dhl", number_of("dhl", case))
        for slug in EVERY:
            for case in STORIES | ENDS:
                put(plant, slug, number_of(slug, case))
        for each, slugs in ((plant, EVERY), (express, ["dhl"])):
            others_are_answered(each, slugs)
            Endings(each.producer, each.redis, each.tracking.database, slugs).come(40.0)
        refused_at_once(express, "dhl")
        # Only now: where a courier does not say how long, its pause is over within a minute.
        for slug in EVERY:
            put(hurried, slug, LIMITED.number)
        until(lambda: paused(hurried), 20.0, "every courier is paused")
        for slug in EVERY:
            for number in REFUSED:
                put(plant, slug, number)
        until(lambda: paused(plant), 20.0, "every courier is paused")
        found = look(plant), look(hurried), look(express)
        for worker in plant.workers:
            worker.stop()  # what it counted is written by then
        told = json.loads(plant.command("info", "--json").stdout)["unknown_codes"]
        found[0].codes = {(each["slug"], each["code"]): each["count"] for each in told}
        yield found


@pytest.fixture
def world(worlds: tuple[World, World, World]) -> World:
    return worlds[0]


@pytest.fixture(params=[*EVERY, EXPRESS])
def asked(request: pytest.FixtureRequest, worlds: tuple[World, World, World]) -> Asked:
    if request.param == EXPRESS:
        return Asked(worlds[2], "dhl", unseen=1)
    return Asked(worlds[0], request.param)


def as_told(world: World, slug: str, number: str, case: Case) -> Document:
    document = world.documents[slug, number]
    outcomes = [attempt["outcome"] for attempt in document["attempts"]]
    if case.asked_again:
        assert set(outcomes) == set(case.attempts), document["attempts"]
        assert len(outcomes) >= len(case.attempts)
    else:
        assert outcomes == list(case.attempts), document["attempts"]
    operation = f"{slug}.{number.replace('/', '-')}"
    assert world.states[operation] == case.state
    return document


@pytest.mark.parametrize("case", STORIES)
def test_what_a_courier_tells_is_stored(asked: Asked, case: str) -> None:
    world, slug, unseen = asked
    told = STORIES[case]
    document = as_told(world, slug, told.number, told)

    assert {name: document[name] for name in told.stored} == told.stored
    assert document["error"] is None
    times = [point["checkpoint_time"] for point in document["checkpoints"]]
    assert len(set(times)) == max(told.checkpoints - unseen, 0)
    assert times == sorted(times)
    assert document["delivered_at"] == (times[-1] if case == "delivered" else None)
    assert (document["next_check_at"] is None) == (case == "delivered")
    if case == "exception":
        assert document["subtag"] == SHAPES[slug].PROBLEM
    assert (slug, told.number) not in world.dead


def test_an_invalid_number_is_an_error_and_is_not_asked_for_again(asked: Asked) -> None:
    world, slug, _ = asked
    number, case = number_of(slug, "invalid number"), ENDS["invalid number"]
    document = as_told(world, slug, number, case)

    assert document["error"]["code"] == case.error
    assert (document["active"], document["next_check_at"]) == (False, None)
    called = document["attempts"][0]["http_status"] is not None
    assert called == (slug not in IMPOSSIBLE)
    assert (slug, number) not in world.dead


@pytest.mark.parametrize("case", STAYS)
def test_what_stays_broken_is_dead_with_its_reason(asked: Asked, case: str) -> None:
    world, slug, _ = asked
    told = ENDS[case]
    document = as_told(world, slug, told.number, told)

    assert document["error"]["code"] == told.error
    assert (document["tag"], document["delivered"]) == ("Pending", False)
    [record] = world.dead[slug, told.number]
    assert record["reason"] == told.error
    assert record["operations"] == [f"{slug}.{told.number}"]


def test_a_body_that_could_not_be_read_is_kept(asked: Asked) -> None:
    world, slug, _ = asked
    name = f"{slug}:{ENDS['unreadable body'].number}"
    assert (name in world.unread) == getattr(SHAPES[slug], "READ_AGAIN", True)


@pytest.mark.parametrize("slug", EVERY)
@pytest.mark.parametrize(
    ("which", "case", "waiting"), [(0, AUTH, len(REFUSED)), (1, LIMITED, 1)], ids=["auth", "rate"]
)
def test_a_courier_that_refuses_is_paused_and_its_requests_wait(
    worlds: tuple[World, World, World], slug: str, which: int, case: Case, waiting: int
) -> None:
    world, [why] = worlds[which], case.attempts
    view = world.info[slug]

    assert (view["bound_by"], view["paused_why"]) == ("paused", why)
    assert view["waiting_manual"] + view["waiting_later"] == waiting
    assert view["until_seconds"] > 0
    assert as_told(world, slug, case.number, case)["error"] is None
    assert (slug, case.number) not in world.dead


def test_mydhl_refuses_as_a_courier_does(worlds: tuple[World, World, World]) -> None:
    world = worlds[2]
    view = world.info["dhl"]

    assert view["bound_by"] == "paused"
    assert view["waiting_manual"] + view["waiting_later"] == 2
    for case in (AUTH, LIMITED):
        assert as_told(world, "dhl", case.number, case)["error"] is None
        assert ("dhl", case.number) not in world.dead


def test_status_codes_without_a_meaning_are_counted(world: World) -> None:
    assert world.codes == dict.fromkeys(UNKNOWN_CODES, 1)


def test_no_credential_is_stored_logged_or_shown(worlds: tuple[World, World, World]) -> None:
    for world in worlds:
        assert SECRET not in world.text
        assert "courier-site-" not in world.text, "a token"
