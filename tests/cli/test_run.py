"""`run` whole: a parent, real workers, real servers and a made-up courier."""

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


def test_a_request_that_lacks_credentials_is_reported_to_the_command_that_waits(
    started: tuple[Started, Path], addresses: dict[str, str]
) -> None:
    start, log = started
    start()
    with subprocess.Popen(
        [sys.executable, "worker.py", "put", "usps", "9405903699300184125060", "--wait"],
        cwd=ROOT,
        env={**os.environ, **addresses},
        stderr=subprocess.PIPE,
        text=True,
    ) as putting:
        assert putting.stderr is not None
        told = "worker.py: usps: paused because it has no credentials, until "
        assert any(line.startswith(told) for line in putting.stderr), log.read_text()
        putting.terminate()


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
