"""What was kept long enough goes, by an index and a few documents at a time, and nothing else."""

from __future__ import annotations

import datetime as dt

import greenstalk
import pytest

from devstack.servers import Server
from service.worker.results import retention
from service.worker.results.connection import Store
from service.worker.results.database import Document, Names, indexes_for, make_indexes
from service.worker.results.retention import Kind, count_old, kinds, purge_some
from service.worker.tubes.envelope import DRAINS_TUBE, REQUESTS_TUBE
from service.worker.upkeep.purge import Purge, old_jobs

NOW = dt.datetime.now(dt.UTC)
NAMES = Names("", operations_keep_days=90, dead_keep_days=30, results_keep_days=60, excerpt_days=30)
BODY = b'{"type": "requests_flow"}'


def ago(days: float) -> dt.datetime:
    return NOW - dt.timedelta(days=days)


def bury(tube: greenstalk.Client[bytes], body: bytes = BODY) -> int:
    tube.put(body)
    job = tube.reserve(timeout=1)
    tube.bury(job)
    return job.id


def one(store: Store, name: str, collection: str = "") -> Kind:
    found = [each for each in kinds(store, NAMES, NOW) if each.name == name]
    return next(each for each in found if collection in each.collection.name)


async def test_only_what_is_older_than_its_setting_goes(store: Store) -> None:
    for days in (89, 91):
        store.operations.insert_one({"_id": f"o{days}", "finished_at": ago(days)})
    for days in (29, 31):
        store.dead.insert_one({"_id": f"d{days}", "at": ago(days)})
        store.unreadable.insert_one({"_id": f"u{days}", "at": ago(days)})
    for days in (59, 61):
        store.past.insert_one({"_id": f"p{days}", "updated_at": ago(days)})
        for active in (True, False):
            name = f"t{days}{'' if active else ' ended'}"
            store.tracking.insert_one({"_id": name, "active": active, "updated_at": ago(days)})

    await Purge(store, NAMES, ()).look()

    left = [
        sorted(collection.distinct("_id"))
        for collection in (
            store.operations,
            store.dead,
            store.unreadable,
            store.past,
            store.tracking,
        )
    ]
    assert left == [["o89"], ["d29"], ["u29"], ["p59"], ["t59", "t59 ended", "t61"]]


async def test_results_that_are_kept_for_ever_are_of_no_kind(store: Store) -> None:
    named = {each.name for each in kinds(store, Names("", results_keep_days=0), NOW)}

    assert named == {"operations", "dead", "unreadable", "excerpts"}


async def test_a_batch_is_small_and_is_asked_again_until_nothing_is_old(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH_SIZE", 3)
    store.operations.insert_many({"_id": str(n), "finished_at": ago(91 + n)} for n in range(7))
    kind = one(store, "operations")

    assert count_old(kind) == 7
    assert [purge_some(kind) for _ in range(4)] == [(3, True), (3, True), (1, False), (0, False)]


async def test_a_batch_costs_the_same_however_much_is_old(store: Store) -> None:
    """Of half a million each took seconds: MongoDB looked at all that was old."""
    store.operations.insert_many(
        {"_id": f"{n * 7_919 % 5_000:04}", "finished_at": ago(91 + n / 1000)} for n in range(5_000)
    )
    bucket = store.operations.database
    bucket.command("profile", 2)

    assert purge_some(one(store, "operations")) == (500, True)

    bucket.command("profile", 0)
    looks = bucket["system.profile"].find({"ns": f"{bucket.name}.operations"})
    assert {each["op"]: each["docsExamined"] for each in looks} == {"query": 500, "remove": 500}


def tracking(*attempts: tuple[float, str]) -> Document:
    return {
        "_id": "usps:N001",
        "updated_at": ago(40),
        "revision": 7,
        "attempts": [
            {"at": ago(days), "outcome": "courier_down", "excerpt": excerpt, "ms": 5}
            for days, excerpt in attempts
        ],
    }


async def test_an_old_excerpt_is_emptied_and_its_attempt_stays(store: Store) -> None:
    before = tracking((40, "<html>old</html>"), (31, ""), (29, "<html>new</html>"))
    for collection in (store.tracking, store.past):
        collection.insert_one(before)

    await Purge(store, NAMES, ()).look()

    (after,) = store.tracking.find()
    assert [each["excerpt"] for each in after["attempts"]] == ["", "", "<html>new</html>"]
    # A writer that has read it before does not bring the excerpt back.
    assert after["revision"] == 8
    assert {**after, "revision": 7, "attempts": 0} == {
        **before,
        "updated_at": after["updated_at"],
        "attempts": 0,
    }
    assert abs(after["updated_at"] - before["updated_at"]) < dt.timedelta(seconds=1)
    assert store.past.count_documents({"attempts.0.excerpt": ""}) == 1


async def test_each_kind_is_found_by_an_index(store: Store) -> None:
    for attribute, wanted in indexes_for(NAMES).items():
        make_indexes(store.named(attribute), wanted)
    young = {"finished_at": NOW, "at": NOW, "updated_at": NOW, "active": False}
    old = {"finished_at": ago(99), "at": ago(99), "updated_at": ago(99), "active": False}
    quoting = {"attempts": [{"at": ago(99), "excerpt": "old"}]}
    for collection in (store.operations, store.dead, store.unreadable, store.tracking, store.past):
        collection.insert_many({**young, "n": n} for n in range(200))
        collection.insert_many({**old, **quoting, "n": n} for n in range(5))

    for kind in kinds(store, NAMES, NOW):
        told = kind.collection.find(kind.old).explain()
        # MongoDB itself may have deleted some just now.
        stats = told["executionStats"]
        assert stats["nReturned"] == stats["totalDocsExamined"] <= 5, kind.name
        assert told["queryPlanner"]["winningPlan"]["inputStage"]["stage"] == "IXSCAN", kind.name


async def test_buried_jobs_go_at_that_age_whatever_tube_they_lie_in(
    store: Store, beanstalkd: Server, tube: greenstalk.Client[bytes]
) -> None:
    bury(tube)
    tube.use(DRAINS_TUBE)
    tube.watch(DRAINS_TUBE)
    bury(tube, b"no drain job")
    waits = tube.put(b"it is not buried")

    assert list(old_jobs(beanstalkd.url, store.dead, 1)) == []
    assert len(list(old_jobs(beanstalkd.url, store.dead, 0))) == 2

    assert tube.peek_ready().id == waits
    assert tube.stats()["current-jobs-buried"] == 0


async def test_a_buried_job_whose_record_is_younger_stays_as_long_as_that(
    store: Store, beanstalkd: Server, tube: greenstalk.Client[bytes]
) -> None:
    """It waited in its tube before somebody read it. Kicked, it needs its body."""
    first, second = bury(tube), bury(tube)
    tomorrow = NOW + dt.timedelta(days=1)
    record = {"server": beanstalkd.url, "job": second, "body": BODY.decode(), "at": tomorrow}
    store.dead.insert_one(record)

    assert list(old_jobs(beanstalkd.url, store.dead, 0)) == [first]

    store.dead.update_one({}, {"$set": {"at": ago(1)}})
    assert list(old_jobs(beanstalkd.url, store.dead, 0)) == [second]


async def test_a_beanstalkd_that_is_away_keeps_nothing_else_from_being_purged(
    store: Store, beanstalkd: Server, tube: greenstalk.Client[bytes]
) -> None:
    bury(tube)
    forgetful = Names("", dead_keep_days=0)

    await Purge(store, forgetful, ("127.0.0.1:1", beanstalkd.url)).look()

    assert tube.stats_tube(REQUESTS_TUBE)["current-jobs-buried"] == 0
