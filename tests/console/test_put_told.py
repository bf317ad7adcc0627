"""What `put` says: what was put, how to go on, what the requests wait for."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import greenstalk
import pytest
import redis
from command_line import Run, bodies, dead

from service.console import put
from service.operator.producer import JobRef, NotPut, Producer

ROOT = Path(__file__).parents[2]
USPS = ("9405903699300184125060", "9405903699300184125077")
MANY = [f"94{n:020}" for n in range(2_000)]
"""Their lines fill a pipe twice that nobody reads: a put of them cannot end unnoticed."""
COLUMNS = "TRACKER_COURIERS__USPS__"


def sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def numbers(tube: greenstalk.Client[bytes]) -> list[str]:
    return [body["payload"]["number"] for body in bodies(tube)]


def many(folder: Path) -> Path:
    """A file with a header and a row for each of MANY."""
    file = folder / "many.csv"
    file.write_text("slug,number\n" + "".join(f"usps,{number}\n" for number in MANY))
    return file


@pytest.mark.parametrize("text", ["", "slug,number\n", "slug,number\n\n,\n"])
def test_a_file_without_a_request_is_told_and_refused(
    text: str, offline: Run, tmp_path: Path
) -> None:
    file = tmp_path / "numbers.csv"
    file.write_text(text)
    for slug in ([], ["--slug", "usps"]):
        done = offline("put", "--csv", str(file), *slug)
        assert done.code == 2
        assert f"{file} holds no request" in done.err


def test_an_input_without_a_line_is_told_and_refused(offline: Run) -> None:
    done = offline("put", "usps", stdin="\n\n")
    assert done.code == 2
    assert "standard input holds no request" in done.err


def test_from_row_counts_as_complaints_and_spreadsheets_do(
    run: Run, tube: greenstalk.Client[bytes], tmp_path: Path
) -> None:
    file = tmp_path / "numbers.csv"
    file.write_text(f"slug,number\nusps,!!\nusps,{USPS[0]}\n")
    assert f"{file}:2" in run("put", "--csv", str(file)).err
    assert run("put", "--csv", str(file), "--from-row", "3").code == 0
    assert run("put", "usps", *USPS, "--from-row", "2").code == 0
    assert run("put", "usps", "--from-row", "2", stdin="\n".join(USPS)).code == 0
    assert numbers(tube) == [USPS[0], USPS[1], USPS[1]]
    beyond = run("put", "--csv", str(file), "--from-row", "4")
    assert beyond.code == 2
    assert "no request from row 4 on" in beyond.err


def test_ctrl_c_tells_how_many_were_put_and_from_where_to_go_on(
    run: Run, addresses: dict[str, str], tube: greenstalk.Client[bytes], tmp_path: Path
) -> None:
    file = many(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-u", "worker.py", "put", "--csv", str(file)],
        cwd=ROOT,
        env={**os.environ, **addresses},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as putting:
        assert putting.stdout is not None
        first = os.read(putting.stdout.fileno(), 1).decode()
        putting.send_signal(signal.SIGINT)
        out, err = putting.communicate(timeout=30)
    before = numbers(tube)
    assert putting.returncode == 130, err
    assert 0 < len(before) < len(MANY)
    assert len((first + out).splitlines()) == len(before)
    assert f"{len(before)} of 2000 were put" in err
    row = err.rpartition("--from-row ")[2].split()[0]
    assert run("put", "--csv", str(file), "--from-row", row).code == 0
    assert before + numbers(tube) == MANY


def test_a_second_ctrl_c_ends_a_put_at_once() -> None:
    with put.between_puts() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("own_ids", [True, False])
def test_servers_that_go_away_tell_from_where_to_go_on(
    own_ids: bool,  # noqa: FBT001 - a parameter of the test
    offline: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def took(*_: Any) -> list[JobRef]:
        taken = [JobRef("server", 1), JobRef("server", 2), None, None, None]
        raise NotPut("no beanstalkd took the job", "Start one.", taken)

    monkeypatch.setattr(Producer, "put", took)
    rows = [f"usps,{number},{f'id-{n}' if own_ids else ''}" for n, number in enumerate(MANY[:5])]
    done = offline("put", "--csv", "-", stdin="\n".join(["slug,number,id", *rows]))
    assert done.code == 3
    assert "2 of 5 were put" in done.err
    assert "--from-row 4" in done.err
    assert ("own ids" in done.err) == own_ids


def test_what_was_put_behind_a_request_that_no_server_took_is_counted_and_named(
    offline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def took(*_: Any) -> list[JobRef]:
        taken = [JobRef("server", 1), None, JobRef("server", 3), JobRef("server", 4), None]
        raise NotPut("no beanstalkd took the job", "Start one.", taken)

    monkeypatch.setattr(Producer, "put", took)
    done = offline("put", "usps", *MANY[:5])
    assert done.code == 3
    assert [line.rpartition(" ")[2] for line in done.lines] == [MANY[0], MANY[2], MANY[3]]
    assert "3 of 5 were put; put the rest with --from-row 2, which puts 2 of them again" in done.err


@pytest.mark.parametrize("lines_go_to", ["a file", "the terminal"])
def test_a_large_put_shows_its_rate_and_the_time_left_and_loses_no_id(
    lines_go_to: str, addresses: dict[str, str], tmp_path: Path
) -> None:
    terminal, theirs = pty.openpty()
    ids = tmp_path / "ids"
    with (
        ids.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "worker.py", "put", "--csv", str(many(tmp_path))],
            cwd=ROOT,
            env={**os.environ, **addresses, "TERM": "xterm", "COLUMNS": "60"},
            stdout=file if lines_go_to == "a file" else theirs,
            stderr=theirs,
        ) as putting,
    ):
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(terminal), b"")).decode()
    os.close(terminal)
    assert putting.returncode == 0, shown
    told = shown if lines_go_to == "the terminal" else ids.read_text()
    assert [number for number in MANY if f"  usps {number}" not in told] == []
    assert "2000/2000" in shown
    assert "/s" in shown
    assert "0:00:00" in shown, "the time that is left"


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # nobody writes any more
        return b""


def test_put_says_at_once_which_credentials_are_missing_and_puts_all_the_same(
    run: Run, tube: greenstalk.Client[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{COLUMNS}CLIENT_ID", "hunter22")
    done = run("put", "usps", *USPS)
    assert done.code == 0
    assert done.err.count("warning") == 1
    assert f"{COLUMNS}CLIENT_SECRET" in done.err
    assert f"{COLUMNS}CLIENT_ID" not in done.err
    assert "developers.usps.com" in done.err
    assert numbers(tube) == list(USPS)
    monkeypatch.setenv(f"{COLUMNS}CLIENT_SECRET", "hunter22")
    assert run("put", "usps", *USPS).err == ""


def test_waiting_tells_the_made_up_id_and_how_to_ask_for_it_before_it_waits(
    run: Run, tube: greenstalk.Client[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_REDIS__URL", "redis://127.0.0.1:1/0")
    done = run("put", "usps", USPS[0], "--wait", "5")
    (body,) = bodies(tube)
    assert done.code == 3
    assert f"{body['payload']['id']}  usps {USPS[0]}" in done.err
    assert "show --id" in done.err
    assert done.err.index("show --id") < done.err.index("Redis")


def test_waiting_prints_each_outcome(run: Run, store: redis.Redis) -> None:
    ended = {
        "good": {"status": "SUCCESS", "output": {"tag": "Delivered", "checkpoints": 3}},
        "bad": {"status": "ERROR", "output": {"code": "invalid_number", "message": "no"}},
    }

    def worker() -> None:
        time.sleep(0.3)  # the requests are being waited for by then, or will find it
        for identity, operation in ended.items():
            store.set(f"tracking:status:{identity}", json.dumps(operation))

    thread = threading.Thread(target=worker)
    thread.start()
    csv = f"slug,number,id\nusps,{USPS[0]},good\nusps,{USPS[1]},bad\n"
    done = run("put", "--csv", "-", "--wait", "20", stdin=csv)
    thread.join()
    assert done.code == 1
    assert "good  usps" not in done.err, "who gave an id knows it"
    assert sorted(done.lines) == [
        f"ERROR     usps {USPS[1]}  invalid_number: no",
        f"SUCCESS   usps {USPS[0]}  Delivered, 3 checkpoints",
    ]


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_waiting_for_an_id_of_another_parcel_tells_that_the_request_was_refused(
    run: Run, store: redis.Redis, collections: Any, *, is_forgotten: bool
) -> None:
    first = f"usps:{USPS[1]}"
    of_another = {"tracking": None, "hash": sha1(f"twice {first}")} if is_forgotten else {}
    ended = {"status": "SUCCESS", "tracking": first, "output": {"tag": "Delivered"}} | of_another
    store.set("tracking:status:twice", json.dumps(ended))
    dead(collections, "of another", number=USPS[0], operations=["twice"], reason="id_reused")

    done = run("put", "usps", USPS[0], "--id", "twice", "--wait", "20")

    assert done.code == 1
    (line,) = done.lines
    assert line.startswith(f"DEAD      usps {USPS[0]}  id_reused")


def test_waiting_takes_the_end_of_a_parcel_that_was_forgotten_meanwhile(
    run: Run, store: redis.Redis
) -> None:
    cancelled = {"status": "CANCELLED", "hash": sha1(f"gone usps:{USPS[0]}")}
    store.set("tracking:status:gone", json.dumps(cancelled))

    done = run("put", "usps", USPS[0], "--id", "gone", "--wait", "20")

    assert (done.code, done.lines[0].split()[0]) == (1, "CANCELLED")


def test_a_request_that_stays_in_the_tube_says_that_no_worker_lives(run: Run) -> None:
    done = run("put", "usps", USPS[0], "--wait", "0.2")
    assert done.code == 4
    assert "no worker lives" in done.err
    assert done.lines == [f"NOT YET   usps {USPS[0]}  no worker has taken it from the tube"]
    (told,) = run("put", "usps", USPS[0], "--wait", "0", "--json").json
    assert (told["status"], told["bound_by"]) == ("NOT YET", "no_worker")


def waits(store: redis.Redis, identity: str) -> None:
    """A worker lives, and parked the request of this id because of a pause."""
    who = {"token": "t", "host": "host-1", "pid": 11, "version": "9.9.9", "since": 0.0}
    store.zadd("tracking:workers", {json.dumps(who): time.time() * 1000 + 10_000})
    record = {"n": USPS[0], "newest": [identity], "since": time.time() * 1000}
    store.hset("wait_requests:usps", USPS[0], json.dumps(record))
    waiting = {"status": "WAITING", "tracking": f"usps:{USPS[0]}", "at": 1}
    store.set(f"tracking:status:{identity}", json.dumps(waiting))
    store.rpush("wait_list:usps", USPS[0])
    store.sadd("wait_slugs", "usps")
    store.set("calls_paused:usps", "no_credentials", px=50_000)


def test_waiting_says_on_the_way_and_at_the_end_what_binds(run: Run, store: redis.Redis) -> None:
    waits(store, "order-1")
    done = run("put", "usps", USPS[0], "--id", "order-1", "--wait", "0.3")
    assert done.code == 4
    assert "usps: paused because it has no credentials" in done.err
    (line,) = done.lines
    assert line.startswith(f"WAITING   usps {USPS[0]}  waits in the manual list, 0 ahead")
    assert "paused because it has no credentials, until " in line
    (told,) = run("put", "usps", USPS[0], "--id", "order-1", "--wait", "0", "--json").json
    assert (told["bound_by"], told["paused_why"]) == ("paused", "no_credentials")
    assert 0 < told["until_seconds"] <= 50


def test_show_says_what_binds_a_request_that_waits(run: Run, store: redis.Redis) -> None:
    waits(store, "order-1")
    for asked in (["usps", USPS[0]], ["--id", "order-1"]):
        done = run("show", *asked)
        assert "paused because it has no credentials, until " in done.out
        assert f"{COLUMNS}CLIENT_ID" in done.out
        (told,) = run("show", *asked, "--json").json
        assert (told["bound_by"], told["paused_why"]) == ("paused", "no_credentials")
    store.delete("tracking:workers")
    assert "no worker lives" in run("show", "usps", USPS[0]).out
    assert "no worker lives" in run("show", "--id", "order-1").out


def test_show_of_what_nobody_took_from_the_tube_says_that_no_worker_lives(run: Run) -> None:
    for asked in (["usps", USPS[0]], ["--id", "order-2"]):
        done = run("show", *asked)
        assert done.code == 1
        assert "no worker lives" in done.out


def test_waiting_that_is_interrupted_ends_with_130(
    addresses: dict[str, str], store: redis.Redis
) -> None:
    waits(store, "order-1")
    with subprocess.Popen(
        [sys.executable, "worker.py", "put", "usps", USPS[0], "--id", "order-1", "--wait"],
        cwd=ROOT,
        env={**os.environ, **addresses},
        stderr=subprocess.PIPE,
        text=True,
    ) as putting:
        assert putting.stderr is not None
        assert any("paused" in line for line in putting.stderr)
        putting.send_signal(signal.SIGINT)
        assert putting.wait(30) == 130
