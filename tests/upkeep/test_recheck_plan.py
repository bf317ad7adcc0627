"""One process plans the checks of a courier: who comes first, and which ones fill a call."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import pytest
from due_checks import DUE, NOW, RESETS, UPS, USPS, Leases, Room, parcel, parcels, put_on
from redis.asyncio import Redis

from devstack.servers import Server
from limits import keys
from limits.workers import Planners
from service.worker.results.connection import Store
from service.worker.results.database import Document
from service.worker.tubes.put_servers import Putter
from service.worker.upkeep import recheck
from service.worker.upkeep.recheck import PUT_OFF, Recheck
from tracking.request import Account, TrackingRequest


async def test_only_who_plans_a_courier_puts_its_checks(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    store.tracking.insert_many([*parcels("ups", 2), *parcels("usps", 2)])
    one, other = Leases(USPS), Leases(UPS)

    assert await Recheck(store, putter, [UPS, USPS], None, one).look(lambda: NOW) == 2
    assert [payload["slug"] for payload in put_on(beanstalkd)] == ["usps", "usps"]
    assert await Recheck(store, putter, [UPS, USPS], None, other).look(lambda: NOW) == 2
    assert [payload["slug"] for payload in put_on(beanstalkd)] == ["ups", "ups"]
    assert [sorted(each) for each in one.asked] == [[UPS, USPS], [UPS]]


async def test_two_processes_share_the_couriers_and_the_second_takes_over_when_the_lease_ends(
    store: Store, putter: Putter, beanstalkd: Server, redis: Redis
) -> None:
    one, other = (
        Recheck(store, putter, [USPS], None, Planners(redis, who)) for who in ("one", "other")
    )
    store.tracking.insert_many(parcels("usps", 1))
    assert [await one.look(lambda: NOW), await other.look(lambda: NOW)] == [1, 0]
    store.tracking.update_one({}, {"$set": {"next_check_at": DUE}})

    assert await other.look(lambda: NOW) == 0
    await redis.delete(keys.planner(USPS))  # as its end does
    assert await other.look(lambda: NOW) == 1

    # Nobody answered the first: it is the same check.
    assert len({payload["id"] for payload in put_on(beanstalkd)}) == 1


class Slow(Putter):
    """While it puts, time goes by, and others look."""

    def __init__(self, address: str, meanwhile: Callable[[], Awaitable[object]]) -> None:
        super().__init__([address])
        self.meanwhile = meanwhile

    async def put_rechecks(self, requests: Iterable[TrackingRequest]) -> None:
        await self.meanwhile()
        await super().put_rechecks(requests)


async def test_who_lost_its_lease_puts_no_more_than_what_it_puts_just_then_under_the_same_ids(
    store: Store, putter: Putter, beanstalkd: Server, beanstalkd_address: str
) -> None:
    store.tracking.insert_many(parcels("usps", 2 * recheck.TOGETHER_MOST))
    late = NOW + recheck.HELD_FOR
    times = iter([NOW, NOW])
    another = Recheck(store, putter, [USPS])
    slow = Slow(beanstalkd_address, lambda: another.look(lambda: late))

    lost = Recheck(store, slow, [USPS], None, Leases(USPS))
    assert await lost.look(lambda: next(times, late)) == recheck.TOGETHER_MOST
    slow.close()

    ids = Counter(payload["id"] for payload in put_on(beanstalkd))
    assert len(ids) == 2 * recheck.TOGETHER_MOST
    assert sorted(ids.values()) == [1] * recheck.TOGETHER_MOST + [2] * recheck.TOGETHER_MOST
    assert {each["next_check_at"] for each in store.tracking.find()} == {late + PUT_OFF}


HOUR = 3_600


def soon(count: int, pace: str = "then 36000", seconds: float = 1.0) -> list[Document]:
    """Parcels that are due soon, one each so many seconds."""
    return [
        parcel("usps", f"S{n:05}", NOW + dt.timedelta(seconds=seconds * n), check_pace=pace)
        for n in range(1, count + 1)
    ]


async def test_checks_that_are_due_soon_fill_the_last_call(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    store.tracking.insert_many([*parcels("usps", 33), *soon(50)])
    lines = Room({"usps": 1_000}, {"usps": 30})

    assert await Recheck(store, putter, [USPS], lines).look(lambda: NOW) == 60

    numbers = [payload["number"] for payload in put_on(beanstalkd)]
    assert numbers[33:] == [f"S{n:05}" for n in range(1, 28)]
    off = store.tracking.count_documents({"next_check_at": NOW + PUT_OFF})
    assert off == 60


async def test_no_check_is_put_more_than_a_tenth_of_its_time_too_soon(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    store.tracking.insert_many([
        *parcels("usps", 1),
        *soon(3, seconds=HOUR / 2),  # the third is due in an hour and a half
        parcel("usps", "PUT01", NOW + dt.timedelta(minutes=1), check_pace="then 36000 put"),
        parcel("usps", "OLD01", NOW + dt.timedelta(minutes=1)),
        soon(60)[-1] | {"asked_alone": True},
    ])  # fmt: skip
    lines = Room({"usps": 1_000}, {"usps": 30})

    assert await Recheck(store, putter, [USPS], lines).look(lambda: NOW) == 3

    numbers = [payload["number"] for payload in put_on(beanstalkd)]
    assert numbers == ["N000000", "S00001", "S00002"]


@pytest.mark.parametrize(
    "case", [(30, 99, 30, 30), (1, 99, 1, 1), (0, 99, 30, 0), (10, 12, 30, 12), (40, 35, 30, 35)]
)
async def test_a_call_is_filled_only_where_there_is_room_and_something_is_due(
    store: Store, putter: Putter, case: tuple[int, int, int, int]
) -> None:
    due, room, together, put = case
    store.tracking.insert_many([*parcels("usps", due), *soon(50)])
    lines = Room({"usps": room}, {"usps": together})

    assert await Recheck(store, putter, [USPS], lines).look(lambda: NOW) == put


async def test_a_parcel_that_was_asked_for_by_hand_meanwhile_is_not_put_off(
    store: Store, beanstalkd_address: str
) -> None:
    store.tracking.insert_many([*parcels("usps", 1), *soon(1)])
    asked = NOW + dt.timedelta(minutes=30)

    async def answered() -> None:
        store.tracking.update_many({}, {"$set": {"next_check_at": asked}})

    slow = Slow(beanstalkd_address, answered)
    await Recheck(store, slow, [USPS], Room({"usps": 99}, {"usps": 2})).look(lambda: NOW)
    slow.close()

    assert [each["next_check_at"] for each in store.tracking.find()] == [asked, asked]


async def test_where_more_is_due_than_its_line_takes_who_goes_first_is_put_first(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    paces = ("first 2560", "then 12288")
    store.tracking.insert_many(
        parcel("usps", f"{'FT'[n % 2]}{n:05}", DUE, check_pace=paces[n % 2]) for n in range(40)
    )
    planner = Recheck(store, putter, [USPS], Room({"usps": 6}))

    looks = [await planner.look(lambda: NOW) for _ in range(2)]

    numbers = [payload["number"][0] for payload in put_on(beanstalkd)]
    assert (looks, "".join(numbers)) == ([6, 6], "FFFTFFFTFFFT")
    off = store.tracking.distinct("check_pace", {"next_check_at": NOW + PUT_OFF})
    assert off == ["first 3600 put", "then 3600 put"]


async def test_of_an_account_without_calls_left_no_check_is_put_before_it_has_some_again(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    others = [parcel("usps", f"A{n:03}", account="shop") for n in range(30)]
    store.tracking.insert_many(
        [each | {"_id": f"{each['_id']}@shop"} for each in others] + parcels("usps", 3)
    )
    lines = Room({"usps": 4})
    lines.used_up = frozenset({Account("shop")})

    put = await Recheck(store, putter, [USPS], lines).look(lambda: NOW)  # type: ignore[arg-type]

    assert put == 3
    assert [payload.get("account") for payload in put_on(beanstalkd)] == [None] * 3
    of_shop = store.tracking.find({"account": "shop"})
    assert {each["next_check_at"] for each in of_shop} == {RESETS}


async def test_an_account_that_has_calls_again_before_the_day_ends_goes_on(
    store: Store, putter: Putter, beanstalkd: Server
) -> None:
    shop, other = Account("shop"), Account("other")
    for account in (shop, other):
        named = parcel("usps", account=account)
        store.tracking.insert_one(named | {"_id": f"{named['_id']}@{account}"})
    lines = Room({"usps": 4})
    lines.used_up = frozenset({shop, other})
    planner = Recheck(store, putter, [USPS], lines)  # type: ignore[arg-type]
    none = await planner.look(lambda: NOW)

    lines.used_up = frozenset({other})
    one = await planner.look(lambda: NOW)

    assert (none, one) == (0, 1)
    assert [payload.get("account") for payload in put_on(beanstalkd)] == [shop]
    assert [each["next_check_at"] for each in store.tracking.find({"account": other})] == [RESETS]
