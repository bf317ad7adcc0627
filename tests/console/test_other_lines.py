"""A line that is no courier's harms no verb: it is shown, and what waits on it waits."""

from __future__ import annotations

import json

import pytest
import redis
from command_line import Run

from limits.keys import of_line
from tracking.line import Line

SHOP = Line("~shop")
KEYS = of_line(SHOP)
OPEN = {"status": "WAITING", "tracking": "~shop:N001", "at": 1}


@pytest.fixture
def _waiting(store: redis.Redis) -> None:
    """Two numbers wait, one of an account; a third one runs, and the line is paused."""
    for number in ("N001", "N002@acme"):
        store.rpush(KEYS.wait_list, number)
        waits = {"since": 1, "anon": {"id": "job-1", "count": 1, "at": 1}}
        store.hset(KEYS.wait_requests, number, json.dumps(waits))
    flies = {"n": "N003", "since": 1, "at": "1", "granted": "1", "newest": ["op-3"], "ids": 1}
    store.hset(KEYS.wait_inflight, mapping={"w-1": json.dumps(flies), "=N003": "w-1"})
    store.set(KEYS.calls_paused, "no_credentials", px=60_000)
    store.sadd(KEYS.lines, SHOP)
    store.set(f"{KEYS.status}op-1", json.dumps(OPEN))


@pytest.mark.usefixtures("_waiting")
def test_info_shows_it_and_says_that_it_waits(run: Run) -> None:
    (look,) = run("info", "--json").json

    (line,) = look["couriers"]
    assert (line["slug"], line["waiting_manual"], line["bound_by"]) == (SHOP, 2, "not_configured")
    (worry,) = look["worries"]
    assert worry == (
        "2 numbers wait on ~shop, a line of a kind that this version does not know: "
        "they go on once a worker knows it"
    )
    assert SHOP in run("info").out


@pytest.mark.usefixtures("_waiting")
def test_its_calls_are_among_those_that_run(run: Run) -> None:
    (look,) = run("info", "--running", "--json").json

    (call,) = look["running"]
    assert (call["slug"], call["number"], call["operations"]) == (SHOP, "N003", ["op-3"])


@pytest.mark.usefixtures("_waiting")
@pytest.mark.parametrize("identity", ["op-1", "~shop:N001:job-1"])
def test_show_finds_a_request_of_it_by_its_id(run: Run, store: redis.Redis, identity: str) -> None:
    store.set(f"{KEYS.status}{identity}", json.dumps(OPEN))

    (shown,) = run("show", "--id", identity, "--json").json

    assert shown["operation"]["tracking"] == "~shop:N001"
    assert shown["place"]["list"] == "manual"
    assert run("show", "--id", identity).code == 0


@pytest.mark.usefixtures("_waiting")
def test_cancel_ends_one_request_of_it_by_its_id(run: Run, store: redis.Redis) -> None:
    (done,) = run("cancel", "--id", "op-1", "--json").json

    assert (done["slug"], done["number"], done["cancelled"]) == (SHOP, "N001", 1)
    assert store.hexists(KEYS.wait_requests, "N002@acme")


@pytest.mark.usefixtures("_waiting")
def test_cancel_for_all_couriers_leaves_it_alone(run: Run, store: redis.Redis) -> None:
    assert run("cancel", "--older-than", "1s", "--yes").code == 1

    assert store.llen(KEYS.wait_list) == 2


@pytest.mark.usefixtures("_waiting")
@pytest.mark.parametrize(
    "verb",
    [
        ("cancel", "--slug", SHOP, "--yes"),
        ("pause", SHOP),
        ("show", SHOP, "N001"),
        ("limits", "set", SHOP, "per_second=1"),
    ],
)
def test_verbs_for_couriers_refuse_it_and_change_nothing(
    run: Run, store: redis.Redis, verb: tuple[str, ...]
) -> None:
    before = sorted(store.keys())

    done = run(*verb)

    assert (done.code, done.out) == (2, "")
    assert SHOP in done.err
    assert sorted(store.keys()) == before


@pytest.mark.usefixtures("_waiting")
def test_check_and_doctor_answer_as_ever(run: Run) -> None:
    assert run("check").lines[0].startswith("ok")

    assert "Traceback" not in run("doctor").err
