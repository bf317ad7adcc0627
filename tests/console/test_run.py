"""`run` whole, with real workers and servers and a made-up courier; `ingest` and `api` likewise."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import greenstalk
import pytest
import redis
from command_line import Run
from portion import TIMES

from devstack.site.remote import CourierSite
from service.config.address import is_loopback
from service.http import serve as serve_module

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
AT_ONCE = 5.0
"""Judged where times are (tests/portion.py)."""


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split()]


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.05)


def scraped(listen: str) -> str:
    with urllib.request.urlopen(f"http://{listen}/metrics", timeout=PATIENCE) as reply:
        return str(reply.read(), "utf-8")


Started = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def started(
    addresses: dict[str, str], site: CourierSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Started, Path]]:
    """A function that starts `worker.py`, and the file with what it says."""
    log = tmp_path / "log"
    monkeypatch.setenv("TRACKER_COURIERS__ACME__MODULE", "json_feed")
    monkeypatch.setenv("TRACKER_COURIERS__ACME__BASE_URL", f"{site.url}/feed")
    running: list[subprocess.Popen[bytes]] = []

    def start(unread: int | None = None, **variables: str) -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "worker.py"],
                cwd=ROOT,
                env={**os.environ, **addresses, **variables},
                stdout=unread or out,
                stderr=out,
            )
        running.append(process)
        return process

    yield start, log
    for process in running:
        if process.poll() is None:
            left = children_of(process.pid)
            process.kill()
            process.wait()
            for pid in left:
                # It gets its own SIGTERM when the parent dies.
                until(lambda pid=pid: gone(pid), "the child ended")


def test_a_worker_answers_what_is_put_and_stops_in_good_order(
    started: tuple[Started, Path],
    run: Run,
    tube: greenstalk.Client[bytes],
    collections: Any,
) -> None:
    start, log = started
    with socket.create_server(("127.0.0.1", 0)) as free:
        figures = f"127.0.0.1:{free.getsockname()[1]}"
    process = start(TRACKER_WORKER__PROCESSES="2", TRACKER_METRICS__LISTEN=figures)
    done = run("put", "acme", "AB12345601", "AB12345602", "--wait", "30", "--json")
    assert done.code == 0, done.out + done.err + log.read_text()
    shown = run("show", "acme", "AB12345601", "--json")
    assert shown.json[0]["tracking"]["_id"] == "acme:AB12345601"
    assert "acme" in run("info").out
    assert '"level":"warning"' not in log.read_text()
    live = run("info", "--json").json[0]["workers"]
    traced = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    payload = {"slug": "acme", "number": "AB12345603"}
    tube.put(json.dumps({"type": "requests_flow", "payload": payload, "meta": traced}).encode())
    told = 'tracker_courier_calls_total{outcome="answered",slug="acme"} 3.0'
    until(lambda: told in scraped(figures), "all calls are counted, of both processes")
    until(lambda: traced["traceparent"] in log.read_text(), "the log names the trace of its call")
    assert "tracker_worker_processes_beating 2.0" in scraped(figures)
    pids = children_of(process.pid)
    workers = [pid for pid in pids if b"--child" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert sorted(each["pid"] for each in live) == sorted(workers)
    assert (len(workers), len(pids)) == (2, 3)  # and one archives
    until(lambda: collections.operations.count_documents({}) == 3, "what ended is archived")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert all(gone(pid) for pid in pids)
    assert run("info", "--json").json[0]["workers"] == []


def test_a_worker_whose_lines_nobody_reads_answers_what_is_put_and_stops(
    started: tuple[Started, Path],
    run: Run,
    unread: int,
) -> None:
    start, _ = started
    process = start(unread)
    assert run("put", "acme", "AB12345601", "--wait", "30").code == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_a_worker_refuses_a_redis_that_forgets_and_tells_the_fix(
    started: tuple[Started, Path], redis_url: str
) -> None:
    start, log = started
    with redis.Redis.from_url(redis_url) as admin:
        admin.config_set("appendfsync", "everysec")
        try:
            assert start().wait(PATIENCE) == 2
        finally:
            admin.config_set("appendfsync", "always")
    assert "CONFIG SET appendfsync always" in log.read_text()


def test_an_index_of_somebody_else_that_is_in_the_way_is_named_at_once_at_the_start_and_by_check(
    started: tuple[Started, Path], run: Run, collections: Any, measured: dict[str, list[str]]
) -> None:
    start, log = started
    collections.dead.create_index("at", name="by_somebody")
    began = time.monotonic()
    assert start().wait(PATIENCE) == 2
    start_ended = time.monotonic()
    fix = 'getCollection("dead").dropIndex("by_somebody")'
    assert fix in log.read_text().replace("\\", "")
    check_began = time.monotonic()
    checked = run("check")
    took = [start_ended - began, time.monotonic() - check_began]
    assert checked.code == 1
    assert fix in checked.out
    measured["a foreign index ends start and check after"] = [f"{each:.2f} s" for each in took]
    assert max(took) < AT_ONCE or not TIMES


def test_a_worker_stops_in_good_order_while_its_servers_are_away(
    started: tuple[Started, Path],
) -> None:
    start, log = started
    process = start(TRACKER_REDIS__URL="redis://127.0.0.1:1/0")
    until(lambda: "server is away" in log.read_text(), "the worker found Redis away")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


EACH = pytest.mark.parametrize("verb", ["ingest", "api"])


EVERYWHERE = "0.0.0.0:8081"


@EACH
def test_without_keys_a_door_opens_for_this_machine_only(
    run: Run, monkeypatch: pytest.MonkeyPatch, disk: Path, verb: str
) -> None:
    monkeypatch.setenv(f"TRACKER_{verb.upper()}__LISTEN", EVERYWHERE)
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    monkeypatch.setenv("TRACKER_INGEST__KEYS", str(disk / "keys.json"))

    done = run(verb)

    assert done.code == 2
    assert f"{verb}.listen" in done.err
    assert "key add main" in done.err
    assert "127.0.0.1" in done.err
    assert len(done.err.splitlines()) == 1


def test_while_nobody_knows_whether_there_is_a_key_a_door_opens_for_nobody_else(
    offline: Run, monkeypatch: pytest.MonkeyPatch, disk: Path
) -> None:
    monkeypatch.setenv("TRACKER_INGEST__LISTEN", EVERYWHERE)
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    monkeypatch.setenv("TRACKER_INGEST__KEYS", str(disk / "keys.json"))

    done = offline("ingest")

    assert done.code == 3
    assert "ingest.listen" in done.err
    assert "MongoDB" in done.err


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.com", "[::]"])  # noqa: S104 - not bound
def test_only_addresses_of_this_machine_are_its_own(host: str) -> None:
    assert not is_loopback(f"{host}:8081")
    assert is_loopback("127.0.0.1:8081")


@EACH
def test_a_spool_in_memory_is_refused(
    offline: Run, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", "/dev/shm/spool.sqlite")  # noqa: S108 - refused

    done = offline(verb)

    assert done.code == 2
    assert "ingest.spool" in done.err
    assert "on a disk" in done.err


def test_a_spool_lies_beside_the_configuration(
    offline: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TRACKER_INGEST__SPOOL")
    file = tmp_path / "config.toml"
    file.write_text('[ingest]\nspool = "missing/spool.sqlite"\n')

    done = offline("--config", str(file), "ingest")

    assert done.code == 2
    assert f"{tmp_path.resolve()}/missing" in done.err


def test_an_address_that_somebody_has_is_told(
    offline: Run, monkeypatch: pytest.MonkeyPatch, disk: Path
) -> None:
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("TRACKER_INGEST__LISTEN", address)

        done = offline("ingest")

    assert done.code == 2
    assert done.lines == []
    assert done.err == (
        f"tracker: ingest.listen: cannot listen at {address} (Address already in use). "
        "Stop what listens there, or set another address\n"
    )


@pytest.mark.parametrize("listen", ["8081", "127.0.0.1", "127.0.0.1:0", "http://127.0.0.1:8081"])
def test_a_listen_that_is_no_address_stops_every_verb(
    offline: Run, monkeypatch: pytest.MonkeyPatch, listen: str
) -> None:
    monkeypatch.setenv("TRACKER_API__LISTEN", listen)

    done = offline("config", "show")

    assert done.code == 2
    assert "api.listen" in done.err


@EACH
def test_ingest_is_the_door_alone(
    offline: Run, monkeypatch: pytest.MonkeyPatch, disk: Path, verb: str
) -> None:
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    given: dict[str, object] = {}
    monkeypatch.setattr(serve_module, "serve", lambda *_, **options: given.update(options) or True)

    assert offline(verb).code == 0

    assert given["door_alone"] is (verb == "ingest")


@EACH
def test_one_that_stops_by_itself_ends_with_1(
    offline: Run, monkeypatch: pytest.MonkeyPatch, disk: Path, verb: str
) -> None:
    """So that its service manager starts another."""
    monkeypatch.setenv("TRACKER_INGEST__SPOOL", str(disk / "spool.sqlite"))
    monkeypatch.setattr(serve_module, "serve", lambda *_, **__: False)

    assert offline(verb).code == 1
