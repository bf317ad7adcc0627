"""`check`, `doctor` and `config show`: whether servers and settings are well, and what to do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import greenstalk
import pytest
import redis
from command_line import Run

from service.config.load import load
from service.config.machine import call_budget
from service.config.schema import Config, Limits, SlugLimits, Worker
from service.operator.health import Grade, archive_finding, findings_here
from tracking.request import Slug

USPS = "9405903699300184125060"
WORKER = {"token": "t", "host": "h", "pid": 1, "version": "v", "since": 0}


def test_check_is_one_line_and_a_code(run: Run) -> None:
    done = run("check")
    assert (done.code, len(done.lines)) == (0, 1)


def test_check_names_what_is_away(offline: Run) -> None:
    done = offline("check")
    assert (done.code, len(done.lines)) == (3, 1)
    assert all(name in done.out for name in ("beanstalkd 127.0.0.1:1", "Redis", "MongoDB"))
    assert "worker" not in done.out, "only Redis knows"
    (told,) = offline("check", "--json").json
    assert (told["ok"], told["workers"]) == (False, None)


def test_check_is_well_with_one_beanstalkd_of_several(
    run: Run, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = json.loads(addresses["TRACKER_BEANSTALKD__SERVERS"])
    monkeypatch.setenv("TRACKER_BEANSTALKD__SERVERS", json.dumps(["127.0.0.1:1", *servers]))
    assert run("check").code == 0


def test_check_is_not_well_with_a_redis_that_forgets(run: Run, store: redis.Redis) -> None:
    store.config_set("appendfsync", "everysec")
    try:
        done = run("check")
    finally:
        store.config_set("appendfsync", "always")
    assert done.code == 1
    assert "appendfsync everysec" in done.out


def test_doctor_explains_servers_and_credentials(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKER_COURIERS__USPS__CLIENT_ID", "hunter22-id")
    monkeypatch.setenv("TRACKER_COURIERS__USPS__CLIENT_SECRT", "hunter22-secret")
    done = run("doctor")
    assert done.code == 1
    assert "usps needs TRACKER_COURIERS__USPS__CLIENT_SECRET" in done.out
    assert "hunter22" not in done.out
    (told,) = run("doctor", "--json").json
    (usps,) = [each for each in told["couriers"] if each["slug"] == "usps"]
    assert (usps["missing"], usps["unused"]) == (["client_secret"], ["client_secrt"])
    (row,) = [line for line in done.lines if line.startswith("usps  ")]
    assert "missing: client_secret; not read: client_secrt" in row
    at = done.lines.index("BAD   settings: usps does not read [couriers.usps] client_secrt")
    assert done.lines[at + 1].strip() == "-> Did you mean client_secret?"
    assert not any(line.startswith("fedex") for line in done.lines)
    assert run("check").code == 1
    alone = run("doctor", "usps")
    assert alone.code == 1
    assert "usps needs TRACKER_COURIERS__USPS__CLIENT_SECRET" in alone.out
    assert {each["server"] for each in told["findings"]} >= {"Redis", "MongoDB", "program"}


def test_a_wrong_password_is_told_as_that_with_the_setting(
    run: Run, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_REDIS__URL", redis_url.replace("://", "://nobody:hunter22@"))
    looked, checked, explained = run("info"), run("check"), run("doctor")
    assert (looked.code, checked.code, explained.code) == (3, 3, 3)
    assert "Redis refuses the user name or the password. Correct them in redis.url" in looked.err
    assert "Redis refuses the user name or the password at redis://nobody:***@" in checked.out
    assert "-> Correct them in redis.url" in explained.out
    assert "hunter22" not in looked.err + checked.out + explained.out


@pytest.fixture
def usps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLIENT_ID", "CLIENT_SECRET"):
        monkeypatch.setenv(f"TRACKER_COURIERS__USPS__{name}", "x")


@pytest.mark.usefixtures("usps")
def test_a_courier_is_tried_by_a_request_that_asks_it_whatever_is_stored(
    run: Run, store: redis.Redis, tube: greenstalk.Client[bytes]
) -> None:
    without = run("doctor", "usps", "--try", USPS)
    assert (without.code, "no worker lives" in without.err) == (1, True)
    with pytest.raises(greenstalk.TimedOutError):
        tube.reserve(timeout=0)
    store.zadd("tracking:workers", {json.dumps(WORKER): time.time() * 1000 + 10_000})
    taken: list[dict[str, Any]] = []

    def worker() -> None:
        taken.append(json.loads(tube.reserve(timeout=10).body)["payload"])
        ended = {"status": "SUCCESS", "startedAt": "2026-05-04T08:00:00.000Z"}
        ended |= {"output": {"tag": "Delivered", "checkpoints": 3}}
        store.set(f"tracking:status:{taken[0]['id']}", json.dumps(ended))

    thread = threading.Thread(target=worker)
    thread.start()
    done = run("doctor", "usps", "--try", USPS)
    thread.join()

    assert (done.code, done.lines) == (0, [f"usps {USPS}: SUCCESS  Delivered, 3 checkpoints"])
    assert taken[0]["max_age"] == 0
    alone = run("doctor", "usps", "--json").json[0]
    assert alone["tried"][1] == "Delivered"
    [row] = [each for each in run("doctor").lines if each.startswith("usps ")]
    assert row.endswith(": Delivered")


def test_a_courier_without_credentials_is_not_tried(run: Run) -> None:
    done = run("doctor", "usps", "--try", USPS)
    assert (done.code, "TRACKER_COURIERS__USPS__CLIENT_SECRET" in done.err) == (2, True)


def test_doctor_says_how_many_calls_this_machine_carries(run: Run) -> None:
    assert "calls in flight per process, bound by" in run("doctor").out


def test_doctor_works_when_nothing_else_does(offline: Run) -> None:
    done = offline("doctor")
    assert done.code == 3
    assert done.out.count("does not answer") == 3


def test_config_show_tells_where_each_value_was_set(offline: Run, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text('[couriers.usps]\nclient_id = "hunter22"\n[limits]\nper_second = 1\n')
    (told,) = offline("config", "show", "--sources", "--json", "--config", str(file)).json
    assert told["limits.per_second"] == {"value": 1, "source": f"{file}:4"}
    assert told["limits.concurrent"] == {"value": 20, "source": "default"}
    here = call_budget(Worker())
    assert told["here.concurrency"] == {"value": here.calls, "source": here.bound_by}
    assert told["redis.url"]["source"] == "TRACKER_REDIS__URL"
    assert told["couriers.usps.client_id"]["value"] == "***"
    plain = offline("--config", str(file), "config", "show")
    assert plain.code == 0
    assert "calls in flight per process on this machine: bound by" in plain.out
    assert "hunter22" not in plain.out


@pytest.mark.parametrize(
    ("guards", "grade", "words"),
    [
        ({}, "ok", "no courier's answers scatter by more than its guard_ms"),
        ({"usps": 80}, "ok", "usps 80 ms. Workers keep it by themselves"),
        ({"usps": 80, "gls": 520}, "note", "gls 520 ms (kept: 100), usps 80 ms"),
    ],
)
def test_doctor_names_the_guard_that_fits(
    run: Run, store: redis.Redis, guards: dict[str, int], grade: str, words: str
) -> None:
    for worker, told in (("a", guards), ("b", dict.fromkeys(guards, 30))):
        who = json.dumps({"token": worker, "guards": told})
        store.zadd("tracking:workers", {who: time.time() * 1000 + 10_000, "no worker": 9e15})

    (line,) = [line for line in run("doctor").lines if "pacing:" in line]

    assert line.startswith(f"{grade:<5} pacing: ")
    assert words in line


@pytest.mark.parametrize(
    ("text", "mode", "warnings"),
    [
        ('[redis]\nsentinel_password = ""\nurl = "redis://127.0.0.1:1/0"\n', 0o644, 0),
        ('[redis]\nurl = "redis://:pass-word@127.0.0.1:1/0"\n', 0o644, 1),
        ('[couriers.usps]\nclient_id = "abcd"\n', 0o644, 1),
        ('[couriers.usps]\nclient_id = "abcd"\n', 0o640, 0),
    ],
)
def test_doctor_warns_of_secrets_in_a_file_that_everybody_may_read(
    tmp_path: Path, text: str, mode: int, warnings: int
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    file.chmod(mode)
    setting = load(str(file), {}, tmp_path)
    told = [each.fix for each in findings_here(setting) if "everybody may read" in each.what]
    assert [f"chmod o-r {file}" in fix for fix in told] == [True] * warnings


def told(run: Run) -> str:
    (line,) = [line for line in run("doctor").lines if "archive:" in line]
    return line


def test_doctor_says_how_many_operations_wait_and_what_a_day_of_them_needs(
    run: Run, store: redis.Redis
) -> None:
    store.zadd("tracking:to_archive", {"order-1": time.time() * 1000, "order-2": 9e15})

    line = told(run)

    assert line.startswith(
        "ok    archive: 2 operations that ended wait for MongoDB; a day of calls"
    )
    assert "GiB of Redis" in line


def test_doctor_names_what_waits_for_too_long(run: Run, store: redis.Redis) -> None:
    store.zadd("tracking:to_archive", {"order-1": (time.time() - 7_250) * 1000})

    assert told(run).startswith("note  archive: 1 operations")
    assert "The oldest: 7,2" in told(run)


def test_doctor_names_what_mongodb_refuses_and_what_to_do(run: Run, collections: Any) -> None:
    for name in ("a", "b"):
        collections.refused.insert_one(
            {"_id": f"operations:{name}", "collection": "operations", "why": "Document failed"}
        )

    done = run("doctor")

    (at,) = [n for n, line in enumerate(done.lines) if "refuses 2 documents" in line]
    assert done.lines[at].startswith("note  MongoDB: refuses 2 documents of ")
    assert done.lines[at].endswith(".refused. Document failed")
    assert 'runCommand({collMod: "operations", validator: {}})' in done.lines[at + 1]


@pytest.mark.parametrize(
    ("seconds", "grade"), [(0.0, Grade.FINE), (119.0, Grade.FINE), (121.0, Grade.UNSURE)]
)
def test_the_memory_follows_from_the_limits(seconds: float, grade: Grade) -> None:
    config = Config(limits=Limits(per_second=2, slugs={"ups": SlugLimits(per_second=10)}))

    found = archive_finding(config, [Slug("usps"), Slug("ups")], 0, seconds)

    assert found.grade is grade
    # 12 a second, 86,400 seconds, 512 bytes each.
    assert "a day of calls at all limits (12/s) would take 0.5 GiB of Redis" in found.what


FIX = "Raise its maxmemory, or look why so much waits (info)."


@pytest.fixture
def _full(store: redis.Redis) -> Iterator[None]:
    store.config_set("maxmemory", 2**19)
    yield
    store.config_set("maxmemory", 0)


@pytest.mark.usefixtures("_full")
def test_a_full_redis_is_named_with_the_fix(run: Run) -> None:
    told = run("info")
    (look,) = run("info", "--json").json
    check, doctor = run("check"), run("doctor")

    assert (told.code, check.code, doctor.code) == (0, 1, 1)
    for worry in (told.lines[0], *look["worries"]):
        assert worry.endswith(f" of 0.5 MiB): new requests stay in beanstalkd. {FIX}")
    assert len(look["worries"]) == 1
    assert "Redis is full (" in check.out
    at = next(index for index, line in enumerate(doctor.lines) if line.startswith("FULL "))
    assert doctor.lines[at + 1].strip() == f"-> {FIX}"


def test_a_redis_with_room_worries_nobody(run: Run) -> None:
    (look,) = run("info", "--json").json

    assert look["worries"] == []
