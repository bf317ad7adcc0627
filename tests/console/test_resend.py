"""Requests that are dead or have ended, asked again: as new operations, and only when meant."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import greenstalk
import pytest
import redis
from command_line import NUMBER, Run, bodies, dead

Tube = greenstalk.Client[bytes]


def stands(store: redis.Redis, identity: str, status: str, at: int = 1, **members: Any) -> None:
    """An operation of this parcel."""
    told = {"status": status, "tracking": f"usps:{NUMBER}", "at": at, **members}
    store.set(f"tracking:status:{identity}", json.dumps(told))
    store.zadd(f"tracking:operations:usps:{NUMBER}", {identity: at})


def test_a_dead_request_is_resent_by_the_id_that_died(
    run: Run, collections: Any, tube: Tube
) -> None:
    dead(collections, "a")

    done = run("resend", "--id", "order-1", "--json")

    (body,) = bodies(tube)
    identity = body["payload"].pop("id")
    assert body["payload"] == {"slug": "usps", "number": NUMBER, "resend_of": "order-1"}
    told = {"slug": "usps", "number": NUMBER, "resend_of": "order-1", "why": "courier_down"}
    assert done.json == [{"id": identity, **told}, {"resent": 1, "failed": 0}]
    assert (done.code, collections.dead.count_documents({})) == (0, 0)


def test_an_operation_that_ended_is_asked_again_with_what_is_stored_of_its_parcel(
    run: Run, collections: Any, store: redis.Redis, tube: Tube
) -> None:
    fields = {"tracking_postal_code": "8000"}
    collections.tracking.insert_one({"_id": f"usps:{NUMBER}", "fields": fields})
    stands(store, "order-1", "ERROR", output={"code": "invalid_number"})

    done = run("resend", "--id", "order-1")

    (body,) = bodies(tube)
    assert body["payload"].pop("id").startswith("order-1.kick-")
    asked = {"slug": "usps", "number": NUMBER, "max_age": 0.0, "resend_of": "order-1"}
    assert body["payload"] == asked | fields
    assert done.lines[0].endswith("repeats order-1 (ERROR: invalid_number)")
    assert done.code == 0


@pytest.mark.parametrize("status", ["WAITING", "RUNNING"])
@pytest.mark.parametrize("which", [["--id", "order-2"], ["usps", NUMBER]])
def test_what_has_not_ended_is_not_asked_twice(
    run: Run, store: redis.Redis, tube: Tube, status: str, which: list[str]
) -> None:
    stands(store, "order-1", "SUCCESS")
    stands(store, "order-2", status, at=2)

    done = run("resend", *which)

    assert done.code == 1
    assert f"order-2 is {status}" in done.err
    assert bodies(tube) == []


@pytest.mark.parametrize("which", [["--id", "order-9"], ["usps", NUMBER]])
def test_of_what_nothing_is_known_nothing_is_resent(run: Run, tube: Tube, which: list[str]) -> None:
    done = run("resend", *which)

    assert (done.code, bodies(tube)) == (1, [])
    assert "known" in done.err


def test_of_a_parcel_what_is_dead_is_resent_or_else_what_ended_last(
    run: Run, collections: Any, store: redis.Redis, tube: Tube
) -> None:
    stands(store, "order-2", "CANCELLED")
    stands(store, "order-3", "SUCCESS", at=2)
    dead(collections, "a")
    dead(collections, "of another", number="94000002")

    assert run("resend", "usps", NUMBER).code == 0
    assert run("resend", "usps", NUMBER).code == 0

    assert [body["payload"]["resend_of"] for body in bodies(tube)] == ["order-1", "order-3"]
    assert [each["_id"] for each in collections.dead.find()] == ["of another"]


@pytest.fixture
def four(collections: Any) -> None:
    dead(collections, "new")
    dead(collections, "old", hours=3)
    dead(collections, "of gls", slug="gls")
    dead(collections, "bad", reason="unreadable_answer")


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("which", "resent"),
    [
        (["--reason", "courier_down"], {"new", "old", "of gls"}),
        (["--since", "2h"], {"new", "of gls", "bad"}),
        (["--reason", "courier_down", "--since", "2h"], {"new", "of gls"}),
        (["usps", "--reason", "courier_down"], {"new", "old"}),
        (["usps", NUMBER, "--since", "2h"], {"new", "bad"}),
    ],
)
def test_a_reason_and_a_time_choose_of_the_dead(
    run: Run, collections: Any, tube: Tube, which: list[str], resent: set[str]
) -> None:
    listed = run("resend", *which, "--dry-run", "--json").json
    assert collections.dead.count_documents({}) == 4

    done = run("resend", *which, "--yes")

    assert done.lines[-1] == f"resent {len(resent)}, failed 0"
    assert len(listed) == len(bodies(tube)) == len(resent)
    assert {each["_id"] for each in collections.dead.find()} == {
        "new",
        "old",
        "of gls",
        "bad",
    } - resent


@pytest.mark.usefixtures("four")
def test_many_are_asked_about_first_and_a_dry_run_says_which(
    run: Run, collections: Any, tube: Tube
) -> None:
    dry = run("resend", "--since", "2h", "--dry-run")
    refused = run("resend", "--since", "2h", stdin="n\n", at_terminal=True)

    assert dry.lines[-1] == "would resend 3 requests; nothing was put"
    assert "Resend 3 requests?" in refused.err
    assert (dry.code, refused.code) == (0, 1)
    assert (bodies(tube), collections.dead.count_documents({})) == ([], 4)


@pytest.mark.parametrize(
    "which", [[], ["usps"], ["--id", "a", "--since", "2h"], ["usps", NUMBER, "--id", "a"]]
)
def test_what_is_not_said_is_not_resent(offline: Run, which: list[str]) -> None:
    assert offline("resend", *which).code == 2


def test_nothing_dead_is_a_negative_finding_that_tells_what_there_is(
    run: Run, collections: Any
) -> None:
    none = run("resend", "--reason", "courier_down", "--dry-run")
    dead(collections, "a")
    other = run("resend", "--reason", "courier_dwn", "--yes")

    assert (none.code, none.err) == (1, "tracker: no dead request fits this; there are none\n")
    assert none.lines == ["would resend 0 requests; nothing was put"]
    assert other.code == 1
    assert "there are courier_down: 1; `dead list` shows them" in other.err


def test_a_record_that_is_put_twice_makes_one_operation(
    run: Run, collections: Any, tube: Tube
) -> None:
    """The first time the process vanished before it deleted the record."""
    at = dt.datetime.now(dt.UTC)
    for verb in (["resend", "--id", "order-1"], ["dead", "kick", "a"]):
        dead(collections, "a", at=at)
        assert run(*verb).code == 0

    first, second = (body["payload"]["id"] for body in bodies(tube))
    assert first == second


def test_a_record_stays_when_its_request_cannot_be_put(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(collections, "a")
    monkeypatch.setenv("TRACKER_BEANSTALKD__SERVERS", '["127.0.0.1:1"]')

    done = run("resend", "--id", "order-1")

    assert (done.code, done.lines) == (1, ["resent 0, failed 1"])
    assert collections.dead.count_documents({}) == 1


def test_an_operation_of_months_ago_is_resent_out_of_the_archive(
    run: Run, collections: Any, tube: Tube
) -> None:
    at = dt.datetime.now(dt.UTC) - dt.timedelta(days=60)
    ended = {"id": "order-1", "slug": "usps", "number": NUMBER, "state": "CANCELLED"}
    times = {"admitted_at": at, "started_at": None, "finished_at": at}
    output = {"code": "expired", "message": ""}
    collections.operations.insert_one({"_id": "order-1@1", "output": output, **ended, **times})

    assert run("resend", "--id", "order-1").code == 0
    assert run("resend", "usps", NUMBER).code == 0

    assert [body["payload"]["resend_of"] for body in bodies(tube)] == ["order-1", "order-1"]


def ended(hours: float) -> str:
    """When an operation ended so long ago, as its status has it."""
    at = dt.datetime.now(dt.UTC) - dt.timedelta(hours=hours)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def left(collections: Any) -> list[str]:
    return [each["_id"] for each in collections.dead.find(sort=["_id"])]


def test_a_request_that_was_refused_because_its_id_is_anothers_is_not_what_the_id_means(
    run: Run, collections: Any, store: redis.Redis, tube: Tube
) -> None:
    stands(store, "order-1", "SUCCESS", finishedAt=ended(2))
    dead(collections, "of another", number="94000002", reason="id_reused")

    done = run("resend", "--id", "order-1")

    assert (done.code, left(collections)) == (0, ["of another"])
    (body,) = bodies(tube)
    assert (body["payload"]["number"], body["payload"]["resend_of"]) == (NUMBER, "order-1")


def test_of_an_operation_that_died_its_record_is_resent_and_goes(
    run: Run, collections: Any, store: redis.Redis, tube: Tube
) -> None:
    stands(store, "order-1", "ERROR", finishedAt=ended(0), output={"code": "courier_down"})
    dead(collections, "a", hours=0.1)
    dead(collections, "of another", number="94000002", reason="id_reused")

    done = run("resend", "--id", "order-1")

    assert (done.code, left(collections)) == (0, ["of another"])
    assert [body["payload"]["number"] for body in bodies(tube)] == [NUMBER]


def test_an_operation_that_got_an_id_again_after_one_that_died_is_what_the_id_means(
    run: Run, collections: Any, store: redis.Redis, tube: Tube
) -> None:
    dead(collections, "a", hours=30)
    stands(store, "order-1", "RUNNING")
    running = run("resend", "--id", "order-1")
    stands(store, "order-1", "SUCCESS", finishedAt=ended(1))
    over = run("resend", "--id", "order-1")

    assert (running.code, "order-1 is RUNNING" in running.err) == (1, True)
    assert (over.code, over.lines[0].endswith("repeats order-1 (SUCCESS)")) == (0, True)
    assert left(collections) == ["a"]
    assert len(bodies(tube)) == 1


def test_a_record_of_an_earlier_operation_that_died_of_the_same_is_not_what_the_id_means(
    run: Run, collections: Any, store: redis.Redis, tube: Tube
) -> None:
    dead(collections, "earlier", hours=30)
    died = {"startedAt": ended(2), "finishedAt": ended(1), "output": {"code": "courier_down"}}
    stands(store, "order-1", "ERROR", **died)

    assert run("resend", "--id", "order-1").code == 0
    assert left(collections) == ["earlier"]
    assert len(bodies(tube)) == 1


def test_a_request_that_could_not_be_read_later_is_what_the_id_means(
    run: Run, collections: Any, store: redis.Redis
) -> None:
    stands(store, "order-1", "SUCCESS", finishedAt=ended(2))
    dead(collections, "later", hours=1, slug=None, number=None, reason="bad_number")

    done = run("resend", "--id", "order-1", "--dry-run", "--json")

    assert done.json[0]["why"] == "bad_number"


def test_a_request_for_the_same_parcel_that_was_refused_later_is_what_the_id_means(
    run: Run, collections: Any, store: redis.Redis
) -> None:
    stands(store, "order-1", "SUCCESS", finishedAt=ended(2))
    dead(collections, "later", hours=1, reason="too_late")

    assert run("resend", "--id", "order-1").code == 0
    assert left(collections) == []


def test_of_several_records_of_an_id_one_is_meant(run: Run, collections: Any, tube: Tube) -> None:
    dead(collections, "new")
    dead(collections, "old", hours=30)

    assert run("resend", "--id", "order-1").lines[-1] == "resent 1, failed 0"

    assert left(collections) == ["old"]
    assert len(bodies(tube)) == 1


def test_the_id_of_a_record_means_that_record(
    run: Run, collections: Any, store: redis.Redis, tube: Tube
) -> None:
    stands(store, "order-1", "SUCCESS", finishedAt=ended(0))
    dead(collections, "a", reason="id_reused")

    assert run("resend", "--id", "a").code == 0

    assert left(collections) == []
    assert len(bodies(tube)) == 1
