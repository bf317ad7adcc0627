"""`info`: what runs and waits, what binds it, and the calls in flight; on a terminal, too."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import greenstalk
import pytest
import redis
from command_line import Run
from rich.console import Console

from limits import connect
from limits.admin.snapshot import LineSnapshot
from service import PROGRAM
from service.console.drawing import drawn
from service.console.info import CODES_SHOWN_MOST
from service.console.wording import reason
from tracking.line import Line

NUMBER = "9405903699300184125060"


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


def test_info_tells_how_far_re_checks_are_behind_and_how_full_calls_are(
    run: Run, store: redis.Redis, collections: Any
) -> None:
    assert "re-checks due" not in run("info").out
    store.hset("tracking:counts:fedex", mapping={"calls": 2, "numbers": 45})
    due = dt.datetime.now(dt.UTC) - dt.timedelta(hours=2)
    collections.tracking.insert_many(
        {"slug": "usps", "active": True, "next_check_at": due, "_id": f"usps:{n}"} for n in range(3)
    )

    done = run("info")
    rows = [" ".join(line.split()) for line in done.lines]
    assert "usps 3 2 h -" in rows
    assert "fedex 0 22.5/30" in rows
    found = {each["slug"]: each for each in run("info", "--json").json[0]["couriers"]}
    assert found["usps"]["checks_due"] == 3
    assert 7_200 <= found["usps"]["checks_behind_seconds"] < 7_300
    assert (found["fedex"]["numbers_a_call"], found["fedex"]["together"]) == (22.5, 30)


def test_who_waits_for_company_is_told_so_in_words() -> None:
    view = LineSnapshot(Line("usps"), 20, 2, "filling", until_seconds=42.0)

    assert reason(view).startswith("those who wait are to have one call together, until ")
    assert reason(view).endswith("(42 s)")


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


ROOT = Path(__file__).parents[2]


def test_info_tells_of_one_courier_alone(run: Run, store: redis.Redis) -> None:
    for slug in ("usps", "ups", "gone"):
        store.rpush(f"wait_list:{slug}", "94000001")
        store.sadd("wait_slugs", slug)
    done = run("info", "usps")
    assert "usps" in done.out
    assert "\nups" not in done.out
    (look,) = run("info", "usps", "--json").json
    assert [each["slug"] for each in look["couriers"]] == ["usps"]
    (look,) = run("info", "gone", "--json").json
    assert [each["bound_by"] for each in look["couriers"]] == ["not_configured"]
    assert run("info", "fedex").lines[2] == "nothing runs, nothing waits, nothing was asked yet"
    refused = run("info", "usp")
    assert refused.code == 2
    assert "did you mean usps?" in refused.err


def test_a_redis_that_is_silent_is_waited_for_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("TRACKER_REDIS__URL", f"redis://127.0.0.1:{port}/0")

        done = run("show", "--id", "x")

        assert done.code == 3
        assert "Redis does not answer (no answer in time)" in done.err
        silent.setblocking(False)  # noqa: FBT003 - its only parameter
        asked = 0
        with suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                asked += 1
    assert asked == 1


def test_a_narrow_terminal_cuts_nothing() -> None:
    shown = io.StringIO()
    table = drawn(("courier", "bound by"), [["my-courier", "no_worker"]])
    Console(file=shown, width=12).print(table)
    assert "…" not in shown.getvalue()
    letters = "".join(line[6:] for line in shown.getvalue().splitlines()).replace(" ", "")
    assert letters.endswith("no_worker")


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_info_is_shown_again_and_again_also_on_a_dumb_terminal(
    addresses: dict[str, str], term: str
) -> None:
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(
        [sys.executable, "worker.py", "info", "--watch", "0.2"],
        cwd=ROOT,
        env={**os.environ, **addresses, "TERM": term, "NO_COLOR": "1"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as watching:
        os.close(theirs)
        while shown.count(b"nothing was asked yet" if term == "dumb" else b"bound by") < 2:
            assert select.select([ours], [], [], 10.0)[0], shown
            shown += os.read(ours, 65_536)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10.0) == 130
    os.close(ours)
    assert (b"\x1b" in shown) is (term == "xterm")


WHO = {"token": "tok-1", "host": "host-1", "pid": 11, "version": "9.9.9", "since": 0.0}


def test_info_lists_the_calls_in_flight_and_those_that_never_ended(
    run: Run, store: redis.Redis
) -> None:
    assert run("info", "--running").lines == ["no call runs"]
    store.zadd("tracking:workers", {json.dumps(WHO): time.time() * 1000 + 10_000})
    began_us = (time.time() - 300) * 1e6
    record = {"n": NUMBER, "at": f"{began_us:.0f}", "newest": ["a", "b", "c"], "ids": 200}
    later = {"n": "N002", "at": f"{began_us + 9e6:.0f}", "anon": {"id": "job-7"}, "tries": 2}
    store.sadd("wait_slugs", "usps")
    for call, each in {"tok-1-8": later, "tok-1-7": record}.items():
        store.hset("wait_inflight:usps", call, json.dumps(each))
        store.hset("wait_inflight:usps", f"={each['n']}", call)
    store.zadd("calls_leases:usps", {"tok-1-7": 9e15})

    first, second = run("info", "--running").lines[1:]

    assert "5 min" in first
    assert "a, b and 198 more" in first
    assert first.endswith("host-1 11")
    assert "over: a sweep brings it back" in second
    (told,) = run("info", "--running", "--json").json
    assert [(each["slug"], each["number"], each["attempt"]) for each in told["running"]] == [
        ("usps", NUMBER, 1),
        ("usps", "N002", 3),
    ]
    assert told["running"][1]["operations"] == ["usps:N002:job-7"]
    assert told["running"][1]["lease_seconds"] is None
    times = [each["seconds"] for each in told["running"]] + [told["running"][0]["lease_seconds"]]
    assert times == [round(seconds, 3) for seconds in times]
    assert run("info", "fedex", "--running").lines == ["no call runs"]


FIRST = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)


LAST = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def counted(collections: Any, slug: str, code: str, count: int) -> None:
    collections.unknown_codes.insert_one(
        {
            "_id": f"{slug}:{code}",
            "slug": slug,
            "code": code,
            "count": count,
            "first_seen": FIRST,
            "last_seen": LAST,
        }
    )


def test_info_shows_unknown_codes_the_most_frequent_first(run: Run, collections: Any) -> None:
    counted(collections, "gls", "INBOUN.NORMAL", 3)
    counted(collections, "ups", "ZZ", 12)
    lines = run("info").lines
    begin = next(index for index, line in enumerate(lines) if "unknown code" in line)

    rows = [line.split() for line in lines[begin + 1 :]]
    assert [row[:3] for row in rows] == [["ups", "ZZ", "12"], ["gls", "INBOUN.NORMAL", "3"]]
    (look,) = run("info", "--json").json
    assert look["unknown_codes"][0] == {
        "slug": "ups",
        "code": "ZZ",
        "count": 12,
        "first_seen": FIRST.isoformat(),
        "last_seen": LAST.isoformat(),
    }


def test_info_shows_the_first_of_many(run: Run, collections: Any) -> None:
    for index in range(CODES_SHOWN_MOST + 2):
        counted(collections, "ups", f"Z{index}", index + 1)

    assert "and 2 more: --json" in run("info").out
    (look,) = run("info", "--json").json
    assert len(look["unknown_codes"]) == CODES_SHOWN_MOST + 2


def test_info_without_unknown_codes_says_nothing_of_them(run: Run) -> None:
    assert "unknown code" not in run("info").out
    (look,) = run("info", "--json").json
    assert look["unknown_codes"] == []


def test_info_goes_on_without_mongodb(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKER_MONGODB__URI", "mongodb://127.0.0.1:1/?timeoutMS=200")
    done = run("info", "--json")

    assert done.code == 0
    (look,) = done.json
    assert look["unknown_codes"] is None


def test_doctor_names_the_courier_whose_table_has_gaps(run: Run, collections: Any) -> None:
    for index in range(5):
        counted(collections, "ups", f"Z{index}", 9 - index)
    done = run("doctor")

    [line] = [each for each in done.lines if each.startswith("note  ups:")]
    assert "Z0 (9 times), Z1 (8 times), Z2 (7 times) and 2 more" in line
    assert "docs/couriers.md" in done.lines[done.lines.index(line) + 1]


NUMBERS = ("AB12345601", "AB12345602", "AB12345603")


@pytest.fixture
def _waiting(store: redis.Redis) -> None:
    """Three numbers of which one was requested; the others were pushed by hand."""
    store.rpush("wait_list:pigeon-post", *NUMBERS)
    waits = {"since": 1, "anon": {"id": "job-1", "count": 1, "at": 1}}
    store.hset("wait_requests:pigeon-post", NUMBERS[0], json.dumps(waits))
    store.sadd("wait_slugs", "pigeon-post")


@pytest.mark.usefixtures("_waiting")
def test_info_names_it_and_says_what_to_do(run: Run) -> None:
    shown = run("info")
    (look,) = run("info", "--json").json

    assert shown.lines[0] == (
        "pigeon-post is not configured any more, and 3 numbers wait for it. Configure it again "
        "([couriers.pigeon-post]), and they go on; or end them: "
        f"{PROGRAM} cancel --slug pigeon-post"
    )
    assert look["worries"] == [shown.lines[0]]
    assert [each["bound_by"] for each in look["couriers"]] == ["not_configured"]


@pytest.mark.usefixtures("_waiting")
def test_cancel_ends_what_waits_for_it(run: Run, store: redis.Redis) -> None:
    done = run("cancel", "--slug", "pigeon-post", "--yes")

    assert done.code == 0
    assert done.lines[0] == "cancelled 3 requests for 3 numbers of pigeon-post"
    assert store.exists("wait_list:pigeon-post", "wait_requests:pigeon-post") == 0
    assert run("info", "--json").json[0]["worries"] == []


@pytest.mark.parametrize("slug", ["pigeon-post", "Pigeon Post"])
def test_a_courier_that_never_was_is_refused_as_before(run: Run, slug: str) -> None:
    done = run("cancel", "--slug", slug, "--yes")

    assert done.code == 2
    assert slug in done.err
