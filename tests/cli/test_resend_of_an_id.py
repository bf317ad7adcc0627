"""`resend --id`: of all that ever had an id, its newest operation is meant."""

from __future__ import annotations

import datetime as dt
from typing import Any

import greenstalk
import redis
from command_line import Run, bodies
from resend_ground import NUMBER, dead, stands

Tube = greenstalk.Client[bytes]


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
