"""`pause` and `resume`, and what `info` and `show` say of a courier that is paused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock

import pytest
import redis
from command_line import Run

from service import PROGRAM
from service.config.schema import Config
from service.operator import audit, connections
from tracking.errors import LimitsDown, ResultsDown

NUMBER = "9405903699300184125060"
WORKER = {"token": "t", "host": "h", "pid": 1, "version": "v", "since": 0}


def test_a_courier_is_paused_until_it_is_resumed(run: Run, store: redis.Redis) -> None:
    done = run("pause", "usps", "--why", "they move house")
    assert done.code == 0
    assert done.lines[0].startswith("usps is paused until it is resumed")
    assert "resume usps" in done.lines[1]
    assert store.ttl("calls_held:usps") == -1

    done = run("resume", "usps")
    assert done.code == 0
    assert done.lines == ["usps goes on within seconds; it was paused: by hand"]
    assert not store.exists("calls_held:usps")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1.5d", 129600)]
)
def test_a_pause_lasts_for_the_time_that_is_named(
    run: Run, store: redis.Redis, text: str, seconds: int
) -> None:
    done = run("pause", "usps", "--for", text, "--json")
    assert done.json == [{"slug": "usps", "paused": True, "seconds": seconds, "why": ""}]
    assert seconds - 5 <= store.ttl("calls_held:usps") <= seconds


@pytest.mark.parametrize("text", ["", "soon", "0", "-5", "5w", "1e9d", "nan"])
def test_a_time_that_is_none_is_refused_with_the_way_to_write_it(
    run: Run, store: redis.Redis, text: str
) -> None:
    done = run("pause", "usps", f"--for={text}")
    assert done.code == 2
    assert "90s, 15m, 2h or 3d" in done.err
    assert not store.exists("calls_held:usps")


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_courier_that_nobody_knows_gets_a_suggestion(run: Run, verb: str) -> None:
    done = run(verb, "uspss")
    assert done.code == 2
    assert "did you mean usps?" in done.err


def test_an_alias_means_its_courier(run: Run, store: redis.Redis) -> None:
    assert run("pause", "hkpost").code == 0
    assert store.exists("calls_held:hong-kong-post")


def test_a_courier_that_was_not_paused_is_a_negative_finding(run: Run) -> None:
    done = run("resume", "usps", "--json")
    assert done.code == 1
    assert done.json == [{"slug": "usps", "by_hand": False, "why": ""}]
    assert "was not paused" in run("resume", "usps").out


def test_info_and_show_name_who_paused_it_why_and_what_resumes_it(
    run: Run, store: redis.Redis
) -> None:
    run("pause", "usps", "--for", "2h", "--why", "they move house")
    store.zadd("tracking:workers", {json.dumps(WORKER): time.time() * 1000 + 10_000})
    store.rpush("wait_list:usps", NUMBER)

    info = run("info")
    assert "paused: by_hand (they move house), until " in info.out
    assert "resume SLUG" in info.out
    (told,) = (each for each in run("info", "--json").json[0]["couriers"] if each["slug"] == "usps")
    assert (told["bound_by"], told["paused_why"]) == ("paused", "by_hand")
    assert told["paused_note"] == "they move house"
    shown = run("show", "usps", NUMBER)
    assert "paused by hand (they move house), until " in shown.out
    assert f"`{PROGRAM} resume usps` lets it go on" in shown.out


@pytest.mark.parametrize("held", ["calls_paused", "calls_brake"])
def test_of_a_courier_without_credentials_nobody_is_sent_to_resume(
    run: Run, store: redis.Redis, held: str
) -> None:
    brake = {"why": "no_credentials", "pauses": 1}
    store.set(f"{held}:usps", "no_credentials" if held == "calls_paused" else json.dumps(brake))
    store.zadd("tracking:workers", {json.dumps(WORKER): time.time() * 1000 + 10_000})
    store.sadd("wait_slugs", "usps")
    store.rpush("wait_list:usps", NUMBER)

    info, shown = run("info"), run("show", "usps", NUMBER)

    assert "no_credentials" in info.out
    assert f"`{PROGRAM} doctor` names them" in info.out
    assert f"`{PROGRAM} doctor` names them; set them, then restart the workers" in shown.out
    assert "resume" not in info.out + shown.out
    store.set("calls_paused:gls", "auth_failed")
    store.sadd("wait_slugs", "gls")
    both = run("info").out
    assert "resume SLUG" in both
    assert f"`{PROGRAM} doctor` names them" in both


def test_who_resumes_a_courier_without_credentials_hears_what_it_needs(
    run: Run, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set("calls_paused:usps", "no_credentials")
    first, second = run("resume", "usps").lines
    monkeypatch.setenv("TRACKER_COURIERS__USPS__CLIENT_ID", "id")
    monkeypatch.setenv("TRACKER_COURIERS__USPS__CLIENT_SECRET", "secret")
    store.set("calls_paused:usps", "no_credentials")
    again = run("resume", "usps")

    assert first == "usps goes on within seconds; it was paused: no_credentials"
    assert second.startswith("it stops again with its next call: usps needs TRACKER_COURIERS__USPS")
    assert "restart the workers" in second
    assert again.lines == [first]


def test_pauses_and_resumes_of_the_command_line_stand_in_audit(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("pause", "hkpost", "--for", "90", "--why", "they move house")
    run("resume", "hkpost")
    monkeypatch.setenv("TRACKER_REDIS__URL", "redis://127.0.0.1:1/0")
    failed = run("resume", "hkpost")

    pause, resume, again = collections.audit.find(sort=["at"])

    slug = {"slug": "hong-kong-post"}
    wanted = slug | {"seconds": 90.0, "reason": "they move house"}
    assert (pause["act"], pause["target"], pause["outcome"]) == ("pause", wanted, {})
    assert (resume["act"], resume["target"]) == ("resume", slug)
    assert resume["outcome"] == {"by_hand": True, "why": ""}
    assert failed.code == 3
    assert "Redis" in again["outcome"]["error"]
    assert {(each["via"], each["account"], each["key"]) for each in (pause, resume, again)} == {
        ("cli", "main", None)
    }


def test_while_mongodb_is_away_a_courier_is_paused_all_the_same_and_somebody_hears_of_it(
    run: Run, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_MONGODB__URI", "mongodb://127.0.0.1:1")
    monkeypatch.setattr(connections, "PATIENCE_MS", 300)

    paused = run("pause", "usps")
    held = store.exists("calls_held:usps")
    resumed = run("resume", "usps", "--json")

    assert (paused.code, held) == (0, 1)
    assert "audit has no whole record of it: MongoDB " in paused.err
    assert (resumed.code, resumed.json[0]["by_hand"]) == (0, True)
    assert "audit has no whole record of it" in resumed.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("tls=true&tlsCAFile=/nowhere.pem", "/nowhere.pem"),
        ("tls=true&tlsInsecure=true&tlsAllowInvalidCertificates=true", "tlsInsecure"),
        ("loadBalanced=true&replicaSet=rs", "loadBalanced"),
    ],
)
def test_an_act_is_done_also_where_the_driver_cannot_use_the_address(
    run: Run, store: redis.Redis, monkeypatch: pytest.MonkeyPatch, options: str, why: str
) -> None:
    monkeypatch.setenv("TRACKER_MONGODB__URI", f"mongodb://127.0.0.1:1/?{options}")

    paused = run("pause", "usps")

    assert (paused.code, store.exists("calls_held:usps")) == (0, 1)
    assert why in paused.err


def test_an_act_that_failed_is_not_done_again_when_that_cannot_be_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []

    @contextmanager
    def going_away(_: Config) -> Iterator[Any]:
        store = MagicMock()
        store.audit.update_one.side_effect = ResultsDown("MongoDB went away", "Start it.")
        yield store

    def step(outcome: dict[str, Any]) -> None:
        done.append(outcome)
        raise LimitsDown("Redis went away", "Start it.")

    monkeypatch.setattr(audit, "collections_of", going_away)
    with pytest.raises(LimitsDown):
        audit.recorded_where_possible(Config(), "pause", {"slug": "usps"}, step)

    assert len(done) == 1
