"""What a run left behind, gathered once nothing moves any more."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.arena import FIRST, SECOND, Arena
from chaos.hooks import Delivered, delivered
from chaos.nemesis import Done
from chaos.producer import Put
from chaos.proxy import Release
from chaos.quiet import Quiet, waiting
from chaos.sampler import Lease, Look
from chaos.scale import Scale
from chaos.tallies import tallies
from chaos.workers import Line
from devstack.judge import Call
from devstack.site.remote import call_of
from tracking.tally import tally_of

Document = Mapping[str, Any]

AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Judged:
    """A call as the courier site saw it, and whether the site spoiled it on purpose."""

    call: Call
    spoiled: bool


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """What was seen while the faults went on.

    `heard` tells by server when workers had answers of it, `releases` by worker how beanstalkd let
    go of the connections that it left, `kills` by worker when its processes were killed (-9),
    `deaths` when parents noticed that a process had died (seconds of `time.monotonic()`), `logged`
    what workers logged of each operation, by its id.
    """

    done: Sequence[Done] = ()
    looks: Sequence[Look] = ()
    leases: Mapping[tuple[str, str], Lease] = field(default_factory=dict)
    breaches: Sequence[str] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    defects: Sequence[str] = ()
    heard: Mapping[str, Sequence[float]] = field(default_factory=dict)
    releases: Mapping[str, Sequence[Release]] = field(default_factory=dict)
    kills: Mapping[str, Sequence[float]] = field(default_factory=dict)
    deaths: Sequence[float] = ()
    logged: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the judge looks at.

    `states` holds the end of every operation by its id, `counts` what `tracking:stats2:<slug>`
    holds by slug, `tallies` how many ended how as each place tells, by (place, slug), "" being all;
    `archived` slug and end of each archived operation, by its id (None: nobody looked); `left` what
    never came to an end, `late` what did after its time only, `quiet_seconds` how long that took,
    `waiting` the parcels that still wait or run (slug:number).
    `forgotten` names what nobody else had when Redis was emptied: (slug, number) and ids.
    `cancelled` holds the ids that an operator wanted to cancel.
    `delivered` is what became of webhooks.
    """

    scale: Scale
    puts: Sequence[Put]
    documents: Sequence[Document]
    dead: Sequence[Document]
    states: Mapping[str, str]
    counts: Mapping[str, Mapping[str, int]]
    calls: Sequence[Judged]
    left: Sequence[str]
    quiet_seconds: float
    meanwhile: Meanwhile
    forgotten: frozenset[str] = frozenset()
    cancelled: frozenset[str] = frozenset()
    tallies: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    archived: Mapping[str, Sequence[tuple[str, str]]] | None = None
    late: Sequence[str] = ()
    waiting: frozenset[str] = frozenset()
    delivered: Delivered = field(default_factory=Delivered)


def gather(arena: Arena, meanwhile: Meanwhile, quiet: Quiet) -> Evidence:
    """Read everything, past the proxies."""
    puts = [*arena.producer.log, *arena.pushed]
    with arena.bucket() as bucket:
        documents = list(bucket["tracking"].find())
        dead = [*bucket["dead"].find(), *_kept_aside(bucket, "dead")]
    return Evidence(
        scale=arena.scale,
        puts=puts,
        documents=documents,
        dead=dead,
        states=_states(arena, {put.wish.id for put in puts if put.wish.id}),
        counts=_counts(arena),
        calls=_calls(arena),
        left=quiet.left,
        late=quiet.late,
        waiting=waiting(arena),
        quiet_seconds=quiet.seconds,
        meanwhile=meanwhile,
        forgotten=frozenset(arena.forgotten),
        cancelled=frozenset(arena.cancelled),
        tallies=tallies(arena),
        archived=_archived(arena),
        delivered=delivered(arena),
    )


def _states(arena: Arena, ids: Iterable[str]) -> dict[str, str]:
    wanted = sorted(ids)
    found: dict[str, str] = {}
    with arena.redis() as client:
        for begin in range(0, len(wanted), AT_ONCE):
            names = wanted[begin : begin + AT_ONCE]
            texts = client.mget([f"tracking:status:{name}" for name in names])
            found |= {
                name: json.loads(text)["status"]
                for name, text in zip(names, texts, strict=True)
                if text
            }
    return found


def _counts(arena: Arena) -> dict[str, dict[str, int]]:
    with arena.redis() as client:
        return {
            courier.slug: dict(
                tally_of(
                    map(client.hgetall, client.keys(f"tracking:stats2:{courier.slug}:[0-9]*"))
                ).counts
            )
            for courier in arena.scale.couriers
        }


def _archived(arena: Arena) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    with arena.bucket() as bucket:
        ended = bucket["operations"].find({}, {"id": 1, "slug": 1, "state": 1})
        for each in (*ended, *_kept_aside(bucket, "operations")):
            found.setdefault(each["id"], []).append((each["slug"], each["state"]))
    return found


def _kept_aside(bucket: Any, collection: str) -> list[Document]:
    """What MongoDB refuses to have where it belongs."""
    return [each["document"] for each in bucket["refused"].find({"collection": collection})]


def _calls(arena: Arena) -> list[Judged]:
    return [
        Judged(call_of(entry), entry["fault"] is not None)
        for entry in arena.site.entries()
        if entry["kind"] == "call"
    ]


def heard_of(arena: Arena) -> dict[str, list[float]]:
    """By server, when workers had answers of it."""
    return {name: arena.network.heard(name, arena.scale.names) for name in arena.servers}


def releases_of(arena: Arena) -> dict[str, list[Release]]:
    """By worker, how both beanstalkd let go of the connections that it left."""
    return {
        name: [each for server in (FIRST, SECOND) for each in arena.network.releases(name, server)]
        for name in arena.scale.names
    }


def events_of(arena: Arena) -> Counter[str]:
    """How often each event was logged by all workers."""
    total: Counter[str] = Counter()
    for worker in arena.workers.values():
        total += worker.events()
    return total


def deaths_of(arena: Arena) -> list[float]:
    """When processes of workers died, as their parents logged it."""
    behind = time.time() - time.monotonic()
    return [
        dt.datetime.fromisoformat(line["ts"]).timestamp() - behind
        for _, line in _lines(arena, "process died")
    ]


def logged_of(arena: Arena) -> dict[str, list[str]]:
    """What workers logged of each operation, by its id, in order: a loss is explained by it."""
    lines = [
        (line["ts"], line["operation"], f"{line['ts']} {name}: {_worded(line)}")
        for name, line in _lines(arena)
        if "operation" in line
    ]
    found: dict[str, list[str]] = {}
    for _, operation, text in sorted(lines):
        found.setdefault(operation, []).append(text)
    return found


def _worded(line: Mapping[str, Any]) -> str:
    shown = ("event", "why", "reason", "detail", "error")
    return ", ".join(str(line[name]) for name in shown if name in line)


def defects_of(arena: Arena) -> list[str]:
    """What no worker may log: our own tracebacks, complaints of libraries, what is no JSON."""
    bad = {"unexpected error", "library message", "no JSON"}
    return [
        f"{name}: {json.dumps(line)[:1500]}" for name, line in _lines(arena) if line["event"] in bad
    ]


def _lines(arena: Arena, event: str = "") -> Iterator[tuple[str, Line]]:
    """All that workers logged, of one event or all, each with the worker's name."""
    for worker in arena.workers.values():
        for run in range(1, worker.starts + 1):
            for line in worker.lines(run, event):
                yield worker.name, line
