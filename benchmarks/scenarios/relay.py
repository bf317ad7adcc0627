"""How fast and how soon foreign requests are taken, and what a thousand slow senders cost."""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.http_load import latencies, post_of, posts_per_second, requests_per_second
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.rig import DATABASE, Rig, open_rig
from benchmarks.scenarios.door import ROOT, wait_for
from benchmarks.worker_tree import spent
from devstack.nursery import Nursery
from devstack.servers import free_port
from service.operator.ingest_labels import ingest_key
from service.worker.deliveries.foreign_request import BODY_MOST, WEBHOOKS_TUBE
from service.worker.deliveries.ingest_label import (
    KEY_BYTES,
    PATH,
    IngestLabel,
    is_genuine,
    new_label,
    parse_label,
)
from service.worker.deliveries.service import (
    Ingest,
    Service,
    ServiceType,
    document_of,
    new_service_id,
)
from service.worker.results.database import Collections, Names
from service.worker.results.document import stored_now
from tracking.request import MAIN

COLUMNS = (
    Column("round", "round"),
    Column("bare_posts", "bare handler, posts/s"),
    Column("posts", "relay, posts/s"),
    Column("post_share", "of the bare handler's", 2),
    Column("post_us", "door's CPU, µs a post"),
    Column("p50_ms", "at 500 a second: p50, ms", 1),
    Column("p99_ms", "p99, ms", 1),
)
SLOW_COLUMNS = (
    Column("senders", "slow senders of 1 MiB at once"),
    Column("before", "memory before, MiB"),
    Column("most", "at most, MiB"),
    Column("more", "more, MiB"),
)
FORGED_COLUMNS = (
    Column("judged", "labels a second that one core judges"),
    Column("answered", "requests a second that are answered 404"),
    Column("share", "of the bare handler's", 2),
    Column("us", "door's CPU, µs a request"),
    Column("jobs", "jobs put"),
    Column("written", "bytes that the door wrote to disk"),
    Column("more", "memory more, MiB"),
)
NOTE = (
    "In turn, on a beanstalkd that syncs each job: posts of 1 KiB over 64 connections to a bare "
    "aiohttp.web handler that answers a constant, and to a relay of `ingest`; then 500 a second to "
    "the relay, from when each is due to its answer."
)
SLOW_NOTE = (
    "Each sends 32 KiB every half second, until all but the last byte has come; then a tenth send "
    "that, at once. Memory is the resident set of `ingest`, which the kernel notes the most of."
)
FORGED_NOTE = (
    "Each under another label, which has the form of one and was never given: what judges them, "
    "alone in a process, then requests over 64 connections. What the kernel counts of `ingest` "
    "(`/proc/PID/io`), and beanstalkd of jobs, before and after."
)
CONNECTIONS, BODY = 64, b"x" * 1_024
PER_SECOND = 500
PIECE, PAUSE_SECONDS = 32 << 10, 0.5
MIB = 1 << 20
_ENOUGH = 1_000_000


def run(plan: Plan) -> list[Table]:
    """Measure the slow ones first, while the process is fresh."""
    with open_rig() as rig, Nursery() as nursery, _folder() as folder:
        label = _relay(rig)
        bare, door = free_port(), free_port()
        command = [sys.executable, "-m", "benchmarks.bare_server", str(bare)]
        nursery.start(command, Path(os.devnull), {"PYTHONPATH": str(ROOT)})
        command = [sys.executable, str(ROOT / "worker.py"), "ingest"]
        ingest = nursery.start(command, folder / "log", {
            "TRACKER_BEANSTALKD__SERVERS": f'["{rig.stack.beanstalkd.url}"]',
            "TRACKER_MONGODB__URI": rig.stack.mongodb.url,
            "TRACKER_INGEST__LISTEN": f"127.0.0.1:{door}",
            "TRACKER_INGEST__SPOOL": str(folder / "spool.sqlite"),
            "TRACKER_INGEST__KEYS": str(folder / "keys.json"),
            "TRACKER_HTTP__CONNECTIONS": "5000",
        })  # fmt: skip
        for port in (bare, door):
            wait_for(port)
        _wait_for_key(folder / "keys.json")
        plan.say("slow senders")
        slow = _slow(plan.pick(1_000, 100), (door, ingest.pid), label)
        rig.tubes.empty(WEBHOOKS_TUBE)
        plan.say("forged labels")
        forged = _forged(rig, plan.pick(100_000, 2_000), bare, (door, ingest.pid))
        rows = []
        for turn in range(1, plan.pick(3, 1) + 1):
            plan.say(f"round {turn}")
            row = _round(rig, plan, bare, (door, ingest.pid), label)
            rows.append({"round": turn, **row})
    return [
        Table("relay", "Foreign requests that are taken", COLUMNS, rows, NOTE),
        Table("relay_slow", "Slow senders", SLOW_COLUMNS, [slow], SLOW_NOTE),
        Table("relay_forged", "Forged labels", FORGED_COLUMNS, [forged], FORGED_NOTE),
    ]


def _round(
    rig: Rig, plan: Plan, bare: int, ingest: tuple[int, int], label: IngestLabel
) -> dict[str, Value]:
    (door, pid), count, path = ingest, plan.pick(20_000, 2_000), f"{PATH}{label}"
    bodies = [BODY] * count
    bare_posts = posts_per_second(bare, bodies, CONNECTIONS)
    before = spent(pid)
    posts = posts_per_second(door, bodies, CONNECTIONS, path)
    post_us = (spent(pid) - before) / count * 1e6
    _insist(rig, count)
    seconds = plan.span(20.0, 2.0)
    times = latencies(door, post_of(BODY, path), PER_SECOND, seconds)
    _insist(rig, len(times))
    return {
        "bare_posts": round(bare_posts),
        "posts": round(posts),
        "post_share": posts / bare_posts,
        "post_us": round(post_us),
        "p50_ms": statistics.median(times) * 1_000,
        "p99_ms": statistics.quantiles(times, n=100)[-1] * 1_000,
    }


def _insist(rig: Rig, count: int) -> None:
    """See that all are in the tube, none of them in the spool; and empty it."""
    if (left := rig.tubes.left(WEBHOOKS_TUBE)) != count:
        raise RuntimeError(f"{count} were posted, and {left} are in the tube")
    rig.tubes.empty(WEBHOOKS_TUBE)


def _forged(rig: Rig, count: int, bare: int, ingest: tuple[int, int]) -> dict[str, Value]:
    door, pid = ingest
    key, other = secrets.token_bytes(KEY_BYTES), secrets.token_bytes(KEY_BYTES)
    labels = [str(new_label(MAIN, "bench", key)) for _ in range(count)]
    began = time.process_time()
    if any(is_genuine(label, other) for label in filter(None, map(parse_label, labels))):
        raise RuntimeError("a forged label is taken for a genuine one")
    judged = count / (time.process_time() - began)
    bare_posts = posts_per_second(bare, [b""] * min(count, 20_000), CONNECTIONS)
    requests = [post_of(b"", f"{PATH}{label}") for label in labels]
    requests_per_second(door, requests[:CONNECTIONS], CONNECTIONS, [404])
    before = spent(pid), _written(pid), _resident(pid, "VmRSS"), rig.tubes.stats()["cmd-put"]
    answered = requests_per_second(door, requests, CONNECTIONS, [404])
    return {
        "judged": round(judged),
        "answered": round(answered),
        "share": answered / bare_posts,
        "us": round((spent(pid) - before[0]) / count * 1e6),
        "written": _written(pid) - before[1],
        "more": round((_resident(pid, "VmRSS") - before[2]) / MIB),
        "jobs": rig.tubes.stats()["cmd-put"] - before[3],
    }


def _written(pid: int) -> int:
    rows = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("write_bytes:"))


def _slow(senders: int, ingest: tuple[int, int], label: IngestLabel) -> dict[str, Value]:
    door, pid = ingest
    before = _resident(pid, "VmRSS")
    taken = asyncio.run(_send_slowly(door, senders, post_of(b"x" * BODY_MOST, f"{PATH}{label}")))
    most = _resident(pid, "VmHWM")
    if taken != senders // 10:
        raise RuntimeError(f"{taken} were taken, not {senders // 10}")
    return {
        "senders": senders,
        "before": round(before / MIB),
        "most": round(most / MIB),
        "more": round((most - before) / MIB),
    }


async def _send_slowly(port: int, senders: int, request: bytes) -> int:
    """Send all but the last byte of each, then a tenth of these bytes; tells how many are taken."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(senders)]

    async def send(number: int, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(number / senders * PAUSE_SECONDS)
        for at in range(0, len(request) - 1, PIECE):
            writer.write(request[at : min(at + PIECE, len(request) - 1)])
            await writer.drain()
            await asyncio.sleep(PAUSE_SECONDS)

    await asyncio.gather(*(send(number, writer) for number, (_, writer) in enumerate(opened)))
    chosen = opened[: senders // 10]
    for _, writer in chosen:
        writer.write(request[-1:])
    answers = await asyncio.gather(*(reader.readline() for reader, _ in chosen))
    for _, writer in opened:
        writer.close()
    return sum(answer.startswith(b"HTTP/1.1 202") for answer in answers)


def _resident(pid: int, of: str) -> int:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith(f"{of}:")) * 1024


def _relay(rig: Rig) -> IngestLabel:
    """Make a relay, with rates out of the way."""
    stores = Collections(rig.mongodb, Names("", database=DATABASE))
    label = new_label(MAIN, "bench", ingest_key(stores))
    service = Service(new_service_id(), MAIN, "bench", "", (), stored_now(), type=ServiceType.RELAY)
    ingest = Ingest(label.random, per_second=_ENOUGH, bytes_per_second=_ENOUGH * 1_000)
    stores.services.insert_one(document_of(replace(service, ingest=ingest)))
    return label


def _wait_for_key(file: Path, seconds: float = 30.0) -> None:
    """Wait until the door knows the key of labels. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the door does not know the key of labels")
        time.sleep(0.05)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as folder:
        yield Path(folder)


SCENARIO = Scenario("relay", "how fast and how soon foreign requests are taken, and slow ones", run)
