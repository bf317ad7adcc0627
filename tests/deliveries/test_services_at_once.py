"""Services made and changed by several at once, and beside running workers."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis.asyncio import Redis
from services_ground import KEYS, WHO, lower, make

from limits import keys
from limits.admin.line_scripts import newest_revision
from limits.workers import WorkerInfo, registration
from service.config import schema
from service.config.schema import Config
from service.operator import services
from service.operator.connections import Collections
from service.operator.services import (
    Made,
    MadeTooMany,
    ServiceConflict,
    Services,
)
from service.worker.deliveries.secret_box import SecretBox
from service.worker.deliveries.service import Service
from tracking.errors import NotDone
from tracking.request import MAIN, Account


def made_at_once(ours: Services, names: list[str]) -> list[Made | Exception]:
    begin = threading.Barrier(len(names))

    def one(name: str) -> Made | Exception:
        begin.wait()
        try:
            return make(ours, name)
        except NotDone as error:
            return error

    with ThreadPoolExecutor(len(names)) as threads:
        return list(threads.map(one, names))


def test_of_two_who_make_a_name_at_once_one_does(ours: Services) -> None:
    done = made_at_once(ours, ["erp"] * 6)

    assert sum(isinstance(each, Made) for each in done) == 1
    assert sum(isinstance(each, ServiceConflict) for each in done) == 5
    assert len(ours.of(MAIN)) == 1


def test_who_make_services_at_once_never_pass_what_an_account_may_have(
    config: Config, stores: Collections
) -> None:
    ours = Services(lower(config, services_most=5), stores)

    done = made_at_once(ours, [f"s{number}" for number in range(9)])

    assert sum(isinstance(each, Made) for each in done) == 5
    assert len(ours.of(MAIN)) == 5
    ours.delete(WHO, MAIN, ours.of(MAIN)[2].name)
    make(ours, "again")


def test_who_make_services_at_once_never_pass_what_an_account_may_make_in_a_day(
    config: Config, stores: Collections
) -> None:
    ours = Services(lower(config, made_a_day=5), stores)
    make(ours, "first")
    ours.delete(WHO, MAIN, "first")

    done = made_at_once(ours, [f"s{number}" for number in range(8)])

    assert sum(isinstance(each, Made) for each in done) == 4
    assert sum(isinstance(each, MadeTooMany) for each in done) == 4
    # Yesterday's do not count.
    stores.services.update_one({"name": "first"}, {"$set": {"made_as": "2020-01-01 000001"}})


async def told(redis: Redis, pid: int, revision: int | None) -> None:
    """A worker tells by which revision it goes."""
    seconds, _ = await redis.time()
    who = WorkerInfo("elsewhere", pid, "1", since=1.0, revision=revision or 0)
    text = json.loads(registration(who, f"token-{pid}"))
    if revision is None:
        del text["revision"]
    await redis.zadd(keys.WORKERS, {json.dumps(text): seconds * 1000 + 9_000})


async def test_a_service_is_made_once_every_live_process_knows_it(
    ours: Services, redis: Redis
) -> None:
    await told(redis, 1, 0)
    making = asyncio.create_task(asyncio.to_thread(make, ours))
    await asyncio.sleep(0.5)
    waited = not making.done()

    await told(redis, 1, await newest_revision(redis))
    made = await making

    assert waited
    assert (made.hears_from, made.late) == (None, ())


async def test_a_process_that_does_not_learn_it_is_waited_for_so_long_and_named(
    ours: Services, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services.heard_by_all, "__defaults__", (0.3,))
    await told(redis, 7, None)
    before = dt.datetime.now(dt.UTC)

    made = await asyncio.to_thread(make, ours)

    assert made.late == ("elsewhere 7",)
    assert made.hears_from is not None
    assert before < made.hears_from < before + dt.timedelta(seconds=25)


async def test_without_redis_a_service_is_made_and_heard_later(
    config: Config, stores: Collections
) -> None:
    away = Config(
        mongodb=config.mongodb,
        redis=schema.Redis(url="redis://127.0.0.1:1/0"),
        webhooks=config.webhooks,
    )

    made = await asyncio.to_thread(make, Services(away, stores))

    assert made.hears_from is not None
    assert stores.limits.find_one({"_id": "limits"})["revision"] == 1  # type: ignore[index]


async def test_a_change_holds_with_the_next_step_of_every_process(
    ours: Services, redis: Redis
) -> None:
    await asyncio.to_thread(make, ours)
    before = await newest_revision(redis)

    changed = await asyncio.to_thread(ours.change, WHO, MAIN, "erp", {"per_second": 2})

    assert changed.service.per_second == 2
    assert await newest_revision(redis) == before + 1


def test_a_secret_that_somebody_makes_meanwhile_signs_too(
    config: Config, stores: Collections, ours: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, read, others = make(ours), ours.named, list[str | None]()

    def and_meanwhile(account: Account, name: str) -> Service:
        found = read(account, name)
        if not others:
            others.append(None)
            others[0] = Services(config, stores).rotate(WHO, MAIN, "erp").secret
        return found

    monkeypatch.setattr(ours, "named", and_meanwhile)
    last = ours.rotate(WHO, MAIN, "erp")

    kept, box = last.service, SecretBox.of(KEYS)
    live = [box.opened(each, kept.id) for each in kept.live_secrets(dt.datetime.now(dt.UTC))]
    assert live == [last.secret, others[0], first.secret]


def test_no_service_is_made_where_a_lowered_setting_is_passed_already(
    config: Config, stores: Collections, ours: Services
) -> None:
    for name in "abcd":
        make(ours, name)
    ours.delete(WHO, MAIN, "a")

    with pytest.raises(ServiceConflict, match="services_most"):
        make(Services(lower(config, services_most=3), stores), "e")
