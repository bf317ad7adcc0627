"""info, show, check, doctor, config show: what they tell, and that nothing goes wrong in them."""

from __future__ import annotations

import datetime as dt
import json
import time
from pathlib import Path
from typing import Any

import greenstalk
import pytest
import redis
from command_line import Run

from service.config.call_budget import call_budget
from service.config.schema import Worker

NUMBER = "9405903699300184125060"
CHECKED = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def tracked(collections: Any, **members: Any) -> None:
    document = {
        "_id": f"usps:{NUMBER}",
        "slug": "usps",
        "tracking_number": NUMBER,
        "tag": "InTransit",
        "subtag": "InTransit_001",
        "checkpoints": [
            {"checkpoint_time": "2026-11-18T08:00:00", "message": "first", "tag": "InfoReceived"},
            {
                "checkpoint_time": "2026-11-19T09:30:00",
                "checkpoint_offset": "-05:00",
                "message": "second \x1b[2J",
                "tag": "InTransit",
                "city": "ALBANY",
                "country_name": "USA",
            },
        ],
        "error": None,
        "last_checked_at": CHECKED,
    }
    collections.tracking.insert_one(document | members)


def test_info_tells_what_waits_and_what_binds_it(
    run: Run, store: redis.Redis, tube: greenstalk.Client[bytes]
) -> None:
    store.rpush("wait_list:usps", *(f"9400000{index}" for index in range(7)))
    store.rpush("wait_list_automatic:usps", "94000009")
    tube.put(b"{}")
    assert "no_worker" in run("info").out
    lives(store)
    done = run("info")
    assert done.code == 0
    (usps,) = [line.split() for line in done.lines if line.startswith("usps")]
    assert usps[1:5] == ["0/20", "0/2", "7", "1"]
    assert "rate," in usps
    (look,) = run("info", "--json").json
    (courier,) = look["couriers"]
    assert (courier["slug"], courier["waiting_manual"], courier["bound_by"]) == ("usps", 7, "rate")
    assert [(each["ready"], each["error"]) for each in look["tubes"]] == [(1, "")]


def test_info_with_nothing_to_tell_says_so(run: Run) -> None:
    assert "nothing runs, nothing waits" in run("info").out


def lives(store: redis.Redis, prefix: str = "tok-1", **members: Any) -> None:
    """A worker told this Redis just now that it lives."""
    who = {"token": prefix, "host": "host-1", "pid": 11, "version": "9.9.9", "since": 0.0}
    store.zadd("tracking:workers", {json.dumps(who | members): time.time() * 1000 + 10_000})


def test_info_and_check_name_each_live_worker_with_its_calls(run: Run, store: redis.Redis) -> None:
    lives(store)
    lives(store, "tok-2", host="host-2", pid=22)
    store.sadd("wait_slugs", "usps")
    store.zadd("calls_leases:usps", {"tok-1-7": 9e15, "tok-1-8:1": 9e15, "tok-2-1": 9e15})
    done, checked = run("info"), run("check")
    rows = [line.split() for line in done.lines if line.startswith("host-")]
    assert [[row[0], row[1], row[2], row[-1]] for row in rows] == [
        ["host-1", "11", "9.9.9", "2"],
        ["host-2", "22", "9.9.9", "1"],
    ]
    assert len(checked.lines) == 1
    assert "host-1 11 (9.9.9, since " in checked.out
    assert "2 calls), host-2 22" in checked.out
    (first, _) = run("info", "--json").json[0]["workers"]
    assert first == run("check", "--json").json[0]["workers"][0]
    assert (first["pid"], first["calls"]) == (11, 2)


def test_info_and_check_say_when_no_worker_lives(run: Run, store: redis.Redis) -> None:
    store.zadd("tracking:workers", {"{}": 1.0})
    for verb in ("info", "check"):
        done = run(verb)
        assert done.code == 0
        assert "no worker lives" in done.out
        assert run(verb, "--json").json[0]["workers"] == []


def test_info_goes_on_when_one_beanstalkd_is_away(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_BEANSTALKD__SERVERS", '["127.0.0.1:1"]')
    done = run("info")
    assert done.code == 0
    assert "Connection refused" in done.out


def test_show_prints_the_newest_checkpoint_first(run: Run, collections: Any) -> None:
    tracked(collections)
    done = run("show", "usps", f" {NUMBER[:4]}-{NUMBER[4:]} ".lower())
    assert done.code == 0
    assert done.lines[0] == f"usps {NUMBER}: InTransit (InTransit_001)"
    rows = [line for line in done.lines if line.startswith("2026-11-1")]
    assert [row.split()[0] for row in rows] == ["2026-11-19T09:30:00-05:00", "2026-11-18T08:00:00"]
    assert "ALBANY, USA" in rows[0]
    assert "\x1b" not in done.out


def test_show_prints_what_another_account_has_of_a_parcel(run: Run, collections: Any) -> None:
    tracked(collections, _id=f"usps:{NUMBER}@shop", account="shop")
    assert "no answer is stored" in run("show", "usps", NUMBER).out
    assert "InTransit" in run("show", "usps", NUMBER, "--account", "shop").lines[0]


def test_show_tells_the_details_of_a_parcel_and_none_that_it_lacks(
    run: Run, collections: Any
) -> None:
    told = {"service": "Ground", "reference": "Order 7", "weight_grams": 1250}
    tracked(
        collections,
        **told,
        sub_parcels=["B", "C"],
        proof_of_delivery="https://proof.example/7",
        fields={"tracking_postal_code": "8000", "tracking_state": "ZH"},
    )
    collections.tracking.insert_one({"_id": "usps:OLDER", "tag": "InTransit", "checkpoints": []})

    lines = [line.strip() for line in run("show", "usps", NUMBER).lines]
    assert "weight       1.25 kg" in lines
    assert "parcels      B, C" in lines
    assert "asked with   postal_code 8000, state ZH" in lines
    assert "proof        https://proof.example/7" in lines
    older = run("show", "usps", "OLDER").out
    assert not {"weight", "parcels", "proof", "service"} & set(older.split())


def test_show_tells_where_a_request_waits(run: Run, store: redis.Redis) -> None:
    store.rpush("wait_list:usps", "94000001", NUMBER)
    done = run("show", "usps", NUMBER, "--json")
    assert done.json[0]["tracking"] is None
    place = done.json[0]["place"]
    assert (place["state"], place["list"], place["ahead"]) == ("WAITING", "manual", 1)


def test_show_knows_nothing_of_a_number_nobody_asked_for(run: Run) -> None:
    assert run("show", "usps", NUMBER).code == 1


def test_show_prints_what_is_stored_while_redis_is_away(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked(collections)
    monkeypatch.setenv("TRACKER_REDIS__URL", "redis://127.0.0.1:1/0")
    done = run("show", "usps", NUMBER)
    assert done.code == 3
    assert "InTransit" in done.out
    assert "Redis" in done.err


def test_show_of_a_number_with_its_last_error(run: Run, collections: Any) -> None:
    tracked(collections, error={"code": "courier_down", "message": "503", "at": CHECKED})
    assert "courier_down: 503" in run("show", "usps", NUMBER).out


def test_show_of_an_operation(run: Run, store: redis.Redis) -> None:
    status = {"status": "SUCCESS", "output": {"tag": "Delivered", "checkpoints": 1}}
    store.set("tracking:status:order-1", json.dumps(status))
    assert run("show", "--id", "order-1").lines[0] == "order-1: SUCCESS  Delivered, 1 checkpoint"
    assert run("show", "--id", "order-2").code == 1


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["show", "usps"], ["show", "usps", NUMBER, "--id", "x"], ["show", "nobody", NUMBER]],
)
def test_show_of_nothing_in_particular_is_refused(offline: Run, arguments: list[str]) -> None:
    assert offline(*arguments).code == 2


def test_check_is_one_line_and_a_code(run: Run) -> None:
    done = run("check")
    assert (done.code, len(done.lines)) == (0, 1)


def test_check_names_what_is_away(offline: Run) -> None:
    done = offline("check")
    assert (done.code, len(done.lines)) == (1, 1)
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
    assert done.code == 0
    assert "usps needs TRACKER_COURIERS__USPS__CLIENT_SECRET" in done.out
    assert "hunter22" not in done.out
    (told,) = run("doctor", "--json").json
    (usps,) = [each for each in told["couriers"] if each["slug"] == "usps"]
    assert (usps["missing"], usps["unused"]) == (["client_secret"], ["client_secrt"])
    (row,) = [line for line in done.lines if line.startswith("usps  ")]
    assert "missing: client_secret; not read: client_secrt" in row
    at = done.lines.index("usps does not read [couriers.usps] client_secrt")
    assert done.lines[at + 1].strip() == "-> Did you mean client_secret?"
    assert {each["server"] for each in told["findings"]} >= {"Redis", "MongoDB", "program"}


def test_a_wrong_password_is_told_as_that_with_the_setting(
    run: Run, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_REDIS__URL", redis_url.replace("://", "://nobody:hunter22@"))
    looked, checked, explained = run("info"), run("check"), run("doctor")
    assert (looked.code, checked.code, explained.code) == (3, 1, 1)
    assert "Redis refuses the user name or the password. Correct them in redis.url" in looked.err
    assert "Redis refuses the user name or the password at redis://nobody:***@" in checked.out
    assert "-> Correct them in redis.url" in explained.out
    assert "hunter22" not in looked.err + checked.out + explained.out


def test_doctor_says_how_many_calls_this_machine_carries(run: Run) -> None:
    assert "calls in flight per process, bound by" in run("doctor").out


def test_doctor_works_when_nothing_else_does(offline: Run) -> None:
    done = offline("doctor")
    assert done.code == 1
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


def test_a_broken_key_of_one_courier_is_named_and_all_others_are_shown(
    run: Run, store: redis.Redis
) -> None:
    store.rpush("wait_list:usps", "94000001")
    store.sadd("wait_list:ups", "1Z1")
    store.hset("wait_unreadable:usps", "wait_requests:usps 94000002", "{")
    what = "wait_list:ups is a set, not a list"

    told, check, doctor = run("info"), run("check"), run("doctor")
    (look,) = run("info", "--json").json
    (checked,) = run("check", "--json").json

    bound = {each["slug"]: each["bound_by"] for each in look["couriers"]}
    assert (told.code, bound["ups"], bound["usps"]) == (0, "broken", "no_worker")
    assert look["worries"][0].partition(". ")[0] == what
    assert "94000002" in look["worries"][1]
    assert f"{what}. Look at it, then move it away: redis-cli RENAME" in told.out
    assert (check.code, what in check.out, what in doctor.out) == (0, True, True)
    assert what in checked["broken"][0]
    store.delete("wait_list:ups")
    assert run("check", "--json").json[0]["broken"] == checked["broken"][1:]
