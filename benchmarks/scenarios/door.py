"""How fast requests are taken over HTTP, next to a bare handler and a bare client of the tube."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.http_load import posts_per_second
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.rig import Rig, open_rig
from benchmarks.tube import REQUESTS, requests
from benchmarks.worker_tree import spent
from devstack.nursery import Nursery
from devstack.servers import free_port

COLUMNS = (
    Column("round", "round"),
    Column("bare_posts", "bare handler, posts/s"),
    Column("posts", "door, posts/s"),
    Column("post_share", "of the bare handler's", 2),
    Column("post_us", "door's CPU, µs a post"),
    Column("bare_puts", "bare client of the tube, requests/s"),
    Column("batched", "door in batches of 100, requests/s"),
    Column("batch_share", "of the bare client's", 2),
    Column("batch_us", "door's CPU, µs a request", 1),
)
NOTE = (
    "In turn, on the same beanstalkd, which syncs each job: single posts over 64 connections to a "
    "bare aiohttp.web handler that answers a constant, and to `ingest`; then the same requests put "
    "by a bare client that pipelines, and posted to `ingest` in arrays of 100 over 8 connections. "
    "What is sent is made before. The spool lies on a disk."
)
SINGLY, IN_BATCHES, TOGETHER = 64, 8, 100
BOOT_SECONDS = 30.0
ROOT = Path(__file__).resolve().parents[2]


def run(plan: Plan) -> list[Table]:
    """Measure all four in turn, some times."""
    rows: list[dict[str, Value]] = []
    with open_rig() as rig, Nursery() as nursery, _spool() as spool:
        bare, door = free_port(), free_port()
        command = [sys.executable, "-m", "benchmarks.bare_server", str(bare)]
        nursery.start(command, Path(os.devnull), {"PYTHONPATH": str(ROOT)})
        ingest = nursery.start([sys.executable, str(ROOT / "worker.py"), "ingest"], spool / "log", {
            "TRACKER_BEANSTALKD__SERVERS": f'["{rig.stack.beanstalkd.url}"]',
            "TRACKER_INGEST__LISTEN": f"127.0.0.1:{door}",
            "TRACKER_INGEST__SPOOL": str(spool / "spool.sqlite"),
        })  # fmt: skip
        for port in (bare, door):
            wait_for(port)
        for turn in range(1, plan.pick(5, 2) + 1):
            plan.say(f"round {turn}")
            count = plan.pick(20_000, 3_000)
            rows.append({"round": turn, **_round(rig, bare, (door, ingest.pid), count)})
    return [Table("door", "Requests that are taken over HTTP", COLUMNS, rows, NOTE)]


def _round(rig: Rig, bare: int, ingest: tuple[int, int], count: int) -> dict[str, Value]:
    door, pid = ingest
    singly = [_body(number) for number in range(count)]
    bare_posts = posts_per_second(bare, singly, SINGLY)
    rig.tubes.empty(REQUESTS)
    before = spent(pid)
    posts = posts_per_second(door, singly, SINGLY)
    post_us = (spent(pid) - before) / count * 1e6
    _insist(rig, count)
    bodies = list(requests(["usps"], count))
    began = time.perf_counter()
    rig.tubes.put(REQUESTS, bodies)
    bare_puts = count / (time.perf_counter() - began)
    _insist(rig, count)
    arrays = [_array(singly[at : at + TOGETHER]) for at in range(0, count, TOGETHER)]
    before = spent(pid)
    batched = posts_per_second(door, arrays, IN_BATCHES) * TOGETHER
    batch_us = (spent(pid) - before) / count * 1e6
    _insist(rig, count)
    return {
        "bare_posts": round(bare_posts),
        "posts": round(posts),
        "post_share": posts / bare_posts,
        "post_us": round(post_us),
        "bare_puts": round(bare_puts),
        "batched": round(batched),
        "batch_share": batched / bare_puts,
        "batch_us": batch_us,
    }


def _insist(rig: Rig, count: int) -> None:
    """See that all are in the tube, none of them in the spool; and empty it."""
    if (left := rig.tubes.left(REQUESTS)) != count:
        raise RuntimeError(f"{count} were posted or put, and {left} are in the tube")
    rig.tubes.empty(REQUESTS)


def _body(number: int) -> bytes:
    return msgspec.json.encode({"slug": "usps", "number": f"N{number:09}"})


def _array(bodies: Sequence[bytes]) -> bytes:
    return b"[%b]" % b",".join(bodies)


@contextmanager
def _spool() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as folder:
        yield Path(folder)


def wait_for(port: int, seconds: float = BOOT_SECONDS) -> None:
    """Wait until somebody listens there. Raises OSError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


SCENARIO = Scenario("door", "how fast requests are taken over HTTP, next to bare ones", run)
