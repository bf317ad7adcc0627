"""`demo`: the worker at work on this machine, with made-up couriers and a proof at the end."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pymongo
from pymongo.database import Database
from rich.console import Console

from limits.connect import RedisAddress, open_redis
from limits.rules import Rules
from limits.view import SlugView, View
from service.cli.demo import screen
from service.cli.demo.proof import Evidence, figures, lost
from service.cli.demo.script import (
    CALL_TIMEOUT_SECONDS,
    COPIED,
    COURIERS,
    FAILING,
    KILL_AFTER_SECONDS,
    LEASE_SECONDS,
    MALFORMED,
    PATIENCE_SECONDS,
    PROCESSES,
    Request,
    body,
    requests,
)
from service.cli.demo.stage import RunningWorker, Stage, open_stage, start_worker
from service.cli.exits import Exit
from service.cli.producer import Producer
from service.tubes.connection import Placing
from tracking.request import Slug

LOOK_SECONDS = 0.25

Document = dict[str, Any]


def run(_: argparse.Namespace) -> int:
    """Run the demo; 1 when a figure is not what was promised."""
    console = Console(highlight=False)
    console.print(
        f"Real beanstalkd, Redis and MongoDB on loopback, {PROCESSES} worker processes, made-up "
        f"couriers. To be short, a call may take {CALL_TIMEOUT_SECONDS} s and a lease lasts "
        f"{LEASE_SECONDS} s (30 and 60 in config.toml).\n"
    )
    with ExitStack() as closing:
        stage = closing.enter_context(open_stage())
        for name, server in stage.servers.items():
            backing = server.get("backing", "made-up couriers, in a process of their own")
            console.print(f"  {name:<11} {server['url']:<32} {backing}", soft_wrap=True)
        console.print()
        stage.behave()
        client: pymongo.MongoClient[Document] = pymongo.MongoClient(
            stage.environment["TRACKER_MONGODB__URI"], tz_aware=True
        )
        closing.callback(client.close)
        worker = closing.enter_context(start_worker(stage))
        put = _put(stage)
        killed = _watch(console, stage, worker, client.get_database("bucket"), put)
        exit_code = worker.stop()
        return _tell(console, stage, client.get_database("bucket"), put, (killed, exit_code))


def _put(stage: Stage) -> list[Request]:
    put = []
    with Producer([stage.servers["beanstalkd"]["url"]]) as producer:
        for request in requests():
            producer.put(body(request), Placing())
            put.append(request)
        producer.put(MALFORMED, Placing())
    return put


def _watch(
    console: Console,
    stage: Stage,
    worker: RunningWorker,
    database: Database[Document],
    put: Sequence[Request],
) -> int:
    """Show progress until everything has ended; returns how many processes were killed."""
    began, killed, news = time.monotonic(), 0, "requests are put; limits hold the couriers' pace"
    with screen.Screen(console) as shown:
        while (seconds := time.monotonic() - began) < PATIENCE_SECONDS:
            if not killed and seconds > KILL_AFTER_SECONDS:
                pid = worker.kill_one()
                killed, news = 1, f"kill -9 {pid}: a worker process is gone in mid-call"
            stored = _count(database, "tracking")
            dead = _count(database, "dead")
            views = asyncio.run(_views(stage))
            parcels = Counter(slug for slug, _ in set(put))
            shown.show(screen.Progress(seconds, parcels, stored, dead, views, news))
            # The malformed job has no slug.
            if sum(stored.values()) + sum(dead.values()) > sum(parcels.values()):
                break
            time.sleep(LOOK_SECONDS)
    return killed


def _count(database: Database[Document], collection: str) -> Counter[str]:
    """Parcels by slug: answered ones, or dead ones ("" for a job without a slug)."""
    wanted = {"last_checked_at": {"$ne": None}} if collection == "tracking" else {}
    groups = database[collection].aggregate(
        [{"$match": wanted}, {"$group": {"_id": "$slug", "count": {"$sum": 1}}}]
    )
    return Counter({group["_id"] or "": group["count"] for group in groups})


async def _views(stage: Stage) -> list[SlugView]:
    redis = open_redis(RedisAddress(stage.environment["TRACKER_REDIS__URL"]))
    try:
        return await View(redis, lambda _: Rules()).slugs(Slug(each.slug) for each in COURIERS)
    finally:
        await redis.aclose()


def _tell(
    console: Console,
    stage: Stage,
    database: Database[Document],
    put: Sequence[Request],
    end: tuple[int, int],
) -> int:
    stored = list(database["tracking"].find())
    dead = list(database["dead"].find().sort("slug", 1))
    evidence = Evidence(put, stored, dead, stage.judged(), stage.calls_for(*COPIED), *end)
    judged = list(figures(evidence))
    answered = [document for document in stored if document["slug"] != FAILING]
    console.print(screen.results(answered[:: max(1, len(answered) // screen.SAMPLES)], dead[:2]))
    console.print(screen.proof(judged))
    for slug, number in lost(evidence):
        console.print(f"[red]lost: {slug} {number}[/red]")
    good = all(figure.kept for figure in judged)
    sys.stdout.flush()
    return Exit.DONE if good else Exit.NEGATIVE
