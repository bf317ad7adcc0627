"""The run of the demo: requests are put and watched, a process is killed, the figures judged."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, NoReturn

import pymongo
from pymongo.database import Database
from rich.console import Console

from service.config.schema import Config
from service.console.arguments import Exit, Options
from service.console.demo import screen
from service.console.demo.proof import Evidence, figures, lost
from service.console.demo.script import (
    COPIED,
    COURIERS,
    FAILING,
    FURTHER_SECONDS,
    HOOKED,
    KILL_AFTER_SECONDS,
    MALFORMED,
    PATIENCE_SECONDS,
    POSTED,
    SLOW,
    Request,
    body,
    further,
    posted,
    requests,
)
from service.console.demo.stage import (
    Door,
    RunningWorker,
    Stage,
    open_stage,
    start_door,
    start_worker,
)
from service.operator.connections import view_of
from service.operator.look import LineSnapshot
from service.operator.producer import Producer, PutOptions
from service.worker.supervisor.lifeline import end_with
from tracking.line import courier_line
from tracking.request import Slug

LOOK_SECONDS = 0.25

Document = dict[str, Any]


def run(options: Options) -> int:
    """Run the demo; 1 when a figure is not what was promised."""
    _unwind_on_signals()
    if options.end_with:
        end_with(options.end_with)
    console = Console(highlight=False)
    console.print(screen.introduction())
    try:
        with ExitStack() as closing:
            code = _show(console, closing, stay=options.open)
    except KeyboardInterrupt:
        console.print("Interrupted. Servers and workers are stopped, nothing is left of them.")
        raise
    console.print("Servers and workers are stopped, their data is removed.")
    return code


def _unwind_on_signals() -> None:
    """End like after an exception, so that servers and workers are stopped in good order."""

    def unwind(number: int, _frame: object) -> NoReturn:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` asks to outlive a terminal
            signal.signal(number, unwind)


def _show(console: Console, closing: ExitStack, *, stay: bool) -> int:
    stage = closing.enter_context(open_stage())
    console.print(screen.servers(stage.servers))
    stage.behave()
    client: pymongo.MongoClient[Document] = pymongo.MongoClient(
        stage.environment["TRACKER_MONGODB__URI"], tz_aware=True
    )
    closing.callback(client.close)
    secret, password = stage.make_service(), stage.make_user()
    worker = closing.enter_context(start_worker(stage))
    door = closing.enter_context(start_door(stage))
    console.print(screen.pages(door.url, password))
    put = list(requests())
    taken = _put(stage, door, put)
    killed = _watch(console, stage, worker, client.get_database("bucket"), put)
    if stay:
        console.print(screen.STAYING, screen.pages(door.url, password), sep="\n")
        return _stay(worker, door)
    exit_codes = worker.stop(), door.process.stop()
    end = killed, *exit_codes, taken, stage.webhooks(), secret
    return _tell(console, stage, client.get_database("bucket"), put, end)


def _put(stage: Stage, door: Door, put: Sequence[Request]) -> int:
    """Put most on the tube, and post the rest; tells how many of these the door took."""
    mine = [body(request) for request in put if request[0] not in {*POSTED, SLOW}]
    _on_the_tube(stage, [*mine, MALFORMED])
    return door.post([posted(request) for request in put if request[0] in POSTED])


def _on_the_tube(stage: Stage, jobs: Sequence[bytes]) -> None:
    with Producer([stage.servers["beanstalkd"]["url"]]) as producer:
        producer.put(jobs, PutOptions())


def _watch(
    console: Console,
    stage: Stage,
    worker: RunningWorker,
    database: Database[Document],
    put: Sequence[Request],
) -> int:
    """Show progress until everything has ended; returns how many processes were killed."""
    began, killed = time.monotonic(), 0
    news = f"All but {SLOW}'s are put. What is over a limit waits."
    parcels = Counter(slug for slug, _ in set(put))
    config = stage.config()
    with screen.Screen(console) as shown:
        while (seconds := time.monotonic() - began) < PATIENCE_SECONDS:
            worker.check()
            if not killed and worker.pids and seconds > KILL_AFTER_SECONDS:
                pid = worker.kill_one()
                _on_the_tube(stage, [body(request) for request in put if request[0] == SLOW])
                killed, news = 1, f"kill -9 {pid}: a worker process is gone, with its calls."
            stored = _count(database, "tracking")
            dead = _count(database, "dead")
            views = asyncio.run(_views(config))
            shown.show(screen.Progress(seconds, parcels, stored, dead, views, news))
            # The malformed job is no parcel.
            ended = sum(stored.values()) + sum(dead.values()) > sum(parcels.values())
            if ended and _delivered(database) >= parcels[HOOKED]:
                return killed
            time.sleep(LOOK_SECONDS)
    console.print(f"[red]Not everything has ended after {PATIENCE_SECONDS:.0f} s.[/red]")
    return killed


def _count(database: Database[Document], collection: str) -> Counter[str]:
    """Parcels by slug: answered ones, or dead ones ("" for a job without a slug)."""
    wanted = {"last_checked_at": {"$ne": None}} if collection == "tracking" else {}
    groups = database[collection].aggregate(
        [{"$match": wanted}, {"$group": {"_id": "$slug", "count": {"$sum": 1}}}]
    )
    return Counter({group["_id"] or "": group["count"] for group in groups})


def _delivered(database: Database[Document]) -> int:
    """How many webhooks were taken."""
    return database["deliveries"].count_documents({"state": "delivered"})


async def _views(config: Config) -> list[LineSnapshot]:
    async with view_of(config) as view:
        return await view.lines(courier_line(Slug(each.slug)) for each in COURIERS)


def _stay(worker: RunningWorker, door: Door) -> int:
    """Post a request now and then until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        for request in further():
            worker.check()
            door.process.check()
            door.post([posted(request)])
            time.sleep(FURTHER_SECONDS)
    return Exit.DONE


def _tell(
    console: Console,
    stage: Stage,
    database: Database[Document],
    put: Sequence[Request],
    end: tuple[int, int, int, int, Sequence[Document], str],
) -> int:
    stored = list(database["tracking"].find())
    dead = list(database["dead"].find().sort("slug", 1))
    evidence = Evidence(put, stored, dead, stage.judged(), stage.calls_for(*COPIED), *end)
    judged = list(figures(evidence))
    answered = [document for document in stored if document["tracking_number"] != FAILING[1]]
    console.print(screen.results(answered[:: max(1, len(answered) // screen.SAMPLES)], dead[:2]))
    if evidence.webhooks:
        console.print(screen.webhook(evidence.webhooks[0], evidence.secret))
    console.print(screen.proof(judged))
    for slug, number in lost(evidence):
        console.print(f"[red]lost: {slug} {number}[/red]")
    console.print(screen.explanation(evidence))
    good = all(figure.kept for figure in judged)
    console.print(screen.KEPT if good else screen.BROKEN)
    return Exit.DONE if good else Exit.NEGATIVE
