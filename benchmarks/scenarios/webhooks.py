"""Webhooks: how fast and how soon they are sent, what many of them cost Redis and the couriers.

How fast one process delivers is measured in turn with the bare loop, over deliveries that wait as
it starts: from the first arrival to the last. How soon: one request after the other, from the end
of the courier's answer to the arrival at the receiver, all stamped by one stub.

A dead destination gets what it will never take while a worker tries: Redis is weighed before and
after. Beside hanging ones the couriers' rate is judged as in `limited`, in turn without and with
them: each change of some couriers' parcels goes to all of them, by the worker's own outbox.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from statistics import fmean
from typing import Any

from benchmarks.courier_stub import FEED_BODY, HOST
from benchmarks.pace import Window, judge, percentile
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.redis_figures import bytes_held
from benchmarks.rig import DATABASE, PAUSE_MS, Rig, feed, open_rig, slugs
from benchmarks.scenarios.baseline import bare_loop
from benchmarks.scenarios.limited import ALLOWED, DELAY_MS, PAUSED, Spans
from benchmarks.scenarios.unlimited import medians
from benchmarks.tube import REQUESTS, request, requests
from benchmarks.worker_tree import OPEN, Setting
from devstack.judge import Call
from devstack.servers import free_port
from service.operator.audit import Operator
from service.operator.services import Service, Services
from service.worker.deliveries.body import event_document, standard
from service.worker.deliveries.delivery import Delivery, delivery_id, document_of, event_id
from service.worker.deliveries.outbox import Told, delivery_of, insert
from service.worker.deliveries.secret_box import new_key
from service.worker.deliveries.service import Format
from service.worker.results.change import EventName
from tracking.request import MAIN

RATE = (
    Column("round", "round"),
    Column("loop_s", "loop calls/s"),
    Column("deliveries_s", "deliveries/s"),
    Column("kept", "of the loop's", 2),
    Column("worker_us", "worker µs each"),
    Column("redis_us", "Redis µs"),
    Column("mongodb_us", "mongod µs"),
    Column("loop_us", "loop µs a call"),
)
RATE_NOTE = (
    "In turn with the bare loop, one worker process, 50 destinations that answer at once, no "
    "limits. Each attempt is signed, and stored before the next one. CPU from when the worker "
    "stands ready, parent included."
)
SOON = (
    Column("what", "from a courier's answer to the receiver's first byte"),
    Column("samples", "samples"),
    Column("p50_ms", "p50 ms", 1),
    Column("p99_ms", "p99 ms", 1),
    Column("worst_ms", "worst ms", 1),
)
SOON_NOTE = "An idle worker, one request at a time; the courier answers at once."
MANY = (
    Column("deliveries", "deliveries more"),
    Column("inserted_s", "inserted/s"),
    Column("inside", "of them in Redis"),
    Column("used_kb", "Redis' used_memory more, kB"),
    Column("keys_kb", "its keys more, kB"),
    Column("attempts", "attempts meanwhile"),
)
MANY_NOTE = (
    "For one destination at which nobody listens, while a worker tries. Both are the least of some "
    "seconds, as clients' buffers come and go; before, some deliveries were made and some failed."
)
BESIDE = (
    Column("what", "destinations"),
    Column("slugs", "couriers"),
    Column("inserted_s", "deliveries inserted/s"),
    Column("hanging", "attempts that hang"),
    Column("rate", "couriers' rate", 3),
    Column("kept", "of that without", 3),
    Column("over", "slugs over"),
    Column("late_ms", "late ms", 1),
    Column("late_p99_ms", "late p99 ms", 1),
    Column("worker_core", "worker % of a core", 1),
)
BESIDE_NOTE = (
    "In turn, a worker of its own each time, one process, shipped limits of couriers and "
    "destinations. The last row: the mean with them by the mean without. Rate, slugs over, late: "
    "of couriers, as with the limits in force. Inserted by the worker itself, as it stores changes."
)
DESTINATIONS = 50
HANGING = 100
HEARD = 10
"""Couriers of whose parcels they hear: two changes a second each."""

BATCH, AT_ONCE = 1_000, 5_000
"""Changes, and bare deliveries, that are inserted together."""

PATIENCE = 900.0
LOOK_SECONDS = 0.05
LOOKED_SECONDS = 15.0
"""The filler has looked at each line twice at least."""

WEIGHED = 40
"""Times Redis is weighed."""

FAILING = 50
"""Deliveries that fail meanwhile, beside those for the dead destination: of one account together as
many as it may have open, and more would be given up."""

WHO = Operator()
DATA = json.loads(FEED_BODY)


def setting(couriers: Sequence[str], ports: Iterable[int], limits: Mapping[str, int]) -> Setting:
    """Describe a worker that may send to these ports of this machine."""
    sections = [
        f'[webhooks]\nkeys = "{new_key("a")}"\nservices_most = {HANGING}',
        '[webhooks.allowed.main]\nhttp = true\nnetworks = ["127.0.0.0/8"]',
        f"ports = {list(ports)}",
    ]
    return Setting(couriers, limits=limits, sections="\n".join(sections))


def port_of(rig: Rig) -> int:
    """Where webhooks are taken."""
    return int(rig.courier.url.rpartition(":")[2])


def make(services: Services, port: int, names: Iterable[str], **wishes: object) -> list[Service]:
    """Make services that go to this port."""
    url = f"http://{HOST}:{port}/hook"
    each = {"events": ["parcel.changed"], **wishes}
    return [
        services.make(WHO, MAIN, name, each | {"destination": f"{url}/{name}"}).service
        for name in names
    ]


def changes(services: Sequence[Service], first: int = 0) -> Iterator[Told]:
    """Make changes without end, of which all these services hear."""
    event = EventName.PARCEL_CHANGED
    while True:
        now, change = dt.datetime.now(dt.UTC), f"change-{first}"
        parcel = f"{slugs(1)[0]}:N{first:09}"
        written = event_document(
            name=event_id(change, event),
            account=MAIN,
            event=event,
            at=now,
            bodies={Format.STANDARD: standard(event, now, {"number": parcel, **DATA})},
            parcel=parcel,
        )
        told = [delivery_of(change, written, each) for each in services]
        yield Told(change, written, told, now.timestamp() * 1e6)
        first += 1


def insert_all(services: Services, told: Iterable[Told]) -> float:
    """Insert as the outbox does, in batches; seconds."""
    began, told = time.monotonic(), iter(told)
    while batch := list(islice(told, BATCH)):
        insert(services.stores, batch)
    return time.monotonic() - began


def insert_many(rig: Rig, of: Delivery, count: int) -> float:
    """Insert so many deliveries of the same event, that one among them, as documents; seconds."""
    deliveries = rig.mongodb[DATABASE]["deliveries"]
    began = time.monotonic()
    for first in range(1, count, AT_ONCE):
        names = (
            delivery_id(str(n), of.type, of.service)
            for n in range(first, min(count, first + AT_ONCE))
        )
        documents = [document_of(replace(of, id=name)) for name in names]
        deliveries.insert_many(documents, ordered=False)
    return time.monotonic() - began


def wait_until_arrived(rig: Rig, count: int) -> None:
    """Return when so many calls have arrived."""
    deadline = time.monotonic() + PATIENCE
    while (arrived := rig.courier.count()) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"of {count} deliveries {arrived} arrived after {PATIENCE:g} s")
        time.sleep(LOOK_SECONDS)


def rate(rig: Rig, count: int) -> dict[str, Value]:
    """Run the loop, then deliver so many; gives a row."""
    rig.courier.reset()
    loop = bare_loop(rig.courier, count)
    rig.clean()
    given = setting(slugs(1), [port_of(rig)], OPEN)
    wide = {"per_second": 1_000, "concurrent": 1_000}
    with rig.services(given) as services:
        made = make(services, port_of(rig), _names("well", DESTINATIONS), **wide)
        insert_all(services, islice(changes(made), count // DESTINATIONS))
    with rig.worker(given) as worker:
        meter = rig.meter(worker)
        before = meter.read()
        wait_until_arrived(rig, count)
        used = meter.since(before)
        arrived = sorted(call.arrived_ns for call in rig.courier.calls())
    per_second = count / (arrived[-1] - arrived[0]) * 1e9
    return {
        "loop_s": loop["per_second"],
        "loop_us": loop["cpu_us"],
        "deliveries_s": per_second,
        "kept": per_second / loop["per_second"],
        **{f"{name}_us": seconds / count * 1e6 for name, seconds in used.items()},
    }


def soon(rig: Rig, samples: int) -> Iterator[dict[str, Value]]:
    """Ask for one parcel after the other; gives a row for its change, and for the end."""
    rig.clean()
    names = slugs(samples + 1)
    given = setting(names, [port_of(rig)], {})
    with rig.services(given) as services:
        wide = {"per_second": 1_000, "concurrent": 100}
        make(services, port_of(rig), ["changes"], **wide)
        make(services, port_of(rig), ["ends"], **wide, events=["service.disabled"])
    with rig.worker(given):
        for index, slug in enumerate(names):
            asked = request(slug, f"ONE{index:06}", f"order-{index}", webhook="ends")
            rig.tubes.put(REQUESTS, [asked])
            wait_until_arrived(rig, 3 * (index + 1))
        calls = rig.courier.calls()
        stored = rig.mongodb[DATABASE]["deliveries"].find({}, {"parcel": 1, "operation": 1})
        parcels = {each["_id"]: each["parcel"] or each["operation"] for each in stored}
    answered = {f"{call.slug}:{call.number}": call.ended_ns or 0 for call in calls}
    answered |= {f"order-{i}": answered[f"{slug}:ONE{i:06}"] for i, slug in enumerate(names)}
    for name, what in (("changes", "parcel.changed"), ("ends", "operation.ended")):
        ways = [
            (call.arrived_ns - answered[parcels[call.number]]) / 1e6
            for call in calls
            if call.slug == name
        ][1:]  # the first one opens the connection
        yield {
            "what": what,
            "samples": len(ways),
            "p50_ms": percentile(ways, 0.5),
            "p99_ms": percentile(ways, 0.99),
            "worst_ms": max(ways),
        }


def many(rig: Rig, open_most: int) -> dict[str, Value]:
    """Insert for a dead destination what an account may have open; gives a row."""
    rig.clean()
    count = open_most - FAILING
    nobody, deliveries = free_port(), rig.mongodb[DATABASE]["deliveries"]
    attempts = rig.mongodb[DATABASE]["attempts"]
    given = setting(slugs(1), [port_of(rig), nobody], {})
    with rig.services(given) as services:
        well = make(services, port_of(rig), ["well"])
        fails = make(services, nobody, ["fails"])
        dead = make(services, nobody, ["dead"])
        with rig.worker(given):
            insert_all(services, islice(changes(well + fails), FAILING))
            wait_until_arrived(rig, FAILING)
            time.sleep(LOOKED_SECONDS)
            before, made = _weighed(rig), attempts.count_documents({})
            (told,) = islice(changes(dead, first=count), 1)
            insert(services.stores, [told])
            seconds = insert_many(rig, told.deliveries[0], count)
            time.sleep(LOOKED_SECONDS)
            after = _weighed(rig)
            inside = rig.redis.hlen(f"wait_requests:{dead[0].line}")
            open_now = deliveries.count_documents({"service": dead[0].id, "state": "open"})
            tried = attempts.count_documents({}) - made
    if open_now != count or not tried:
        raise RuntimeError(f"{open_now} of {count} are open, after {tried} attempts")
    return {
        "deliveries": count,
        "inserted_s": round(count / seconds),
        "inside": inside,
        "used_kb": (after[0] - before[0]) / 1e3,
        "keys_kb": (after[1] - before[1]) / 1e3,
        "attempts": tried,
    }


def _weighed(rig: Rig) -> tuple[int, int]:
    """Bytes that Redis uses, and those of its keys: the least of some looks."""
    used, keys = [], []
    for _ in range(WEIGHED):
        told: Any = rig.redis.info("memory")
        used.append(int(told["used_memory"]))
        keys.append(bytes_held(rig.redis))
        time.sleep(0.1)
    return min(used), min(keys)


def beside(rig: Rig, couriers: int, spans: Spans, *, hanging: bool) -> dict[str, Value]:
    """Have couriers asked at their full rate, beside hanging destinations or none; gives a row."""
    names, deliveries = slugs(couriers), rig.mongodb[DATABASE]["deliveries"]
    rig.clean(DELAY_MS)
    rig.tubes.pause(REQUESTS, PAUSED)
    given = setting(names, [port_of(rig)], {})
    if hanging:
        with rig.services(given) as services:
            make(services, port_of(rig), _names("hang", HANGING), slugs=names[:HEARD])
    with rig.worker(given) as worker:
        feed(rig, names, requests(names, spans.backlog))
        time.sleep(PAUSE_MS / 1000 + spans.warm_up)
        meter, inserted = rig.meter(worker), deliveries.estimated_document_count()
        cpu, begin_ns = meter.read(), time.monotonic_ns()
        time.sleep(spans.measured)
        used, window = meter.since(cpu), Window(begin_ns, time.monotonic_ns())
        inserted = deliveries.estimated_document_count() - inserted
        calls = rig.courier.calls()
    hung, asked = _split(calls)
    told = judge(asked, window, ALLOWED, couriers)
    return {
        "what": f"{HANGING} that hang" if hanging else "none",
        "slugs": couriers,
        "inserted_s": round(inserted / window.seconds),
        "hanging": len(hung),
        "rate": told.rate,
        "over": told.over,
        "proven": told.proven,
        "late_ms": told.late_ms,
        "late_p99_ms": told.late_p99_ms,
        "worker_core": used["worker"] / window.seconds * 100,
    }


def _split(calls: Iterable[Call]) -> tuple[list[Call], list[Call]]:
    """The calls of webhooks, and those of couriers."""
    hung, asked = list[Call](), list[Call]()
    for each in calls:
        (hung if each.slug.startswith("hang") else asked).append(each)
    return hung, asked


def _in_turn(rows: Sequence[dict[str, Value]]) -> dict[str, Value]:
    """Add to each row with what it kept of the one before, and give the row of all."""
    without, beside_them = rows[::2], rows[1::2]
    for before, row in zip(without, beside_them, strict=True):
        row["kept"] = _of(row) / _of(before)
    kept = fmean(map(_of, beside_them)) / fmean(map(_of, without))
    return {"what": "all", "slugs": rows[0]["slugs"], "kept": kept}


def _of(row: Mapping[str, Value]) -> float:
    return float(row["rate"] or 0)


def _names(kind: str, count: int) -> list[str]:
    return [f"{kind}{index}" for index in range(count)]


def run(plan: Plan) -> list[Table]:
    """Measure all of it."""
    count, rounds, turns = plan.pick(20_000, 3_000), plan.pick(5, 1), plan.pick(2, 1)
    waiting, couriers = plan.pick(1_000_000, 20_000), plan.pick(300, 50)
    spans = Spans(plan.pick(4.0, 2.0), plan.span(60.0, 6.0))
    rates, turned = [], []
    with open_rig() as rig:
        plan.say(f"{waiting:,} deliveries for a dead destination")
        backlog = [many(rig, waiting)]
        for number in range(1, rounds + 1):
            plan.say(f"{count:,} deliveries and the bare loop, round {number} of {rounds}")
            rates.append(rate(rig, count))
        plan.say("from an answer to the receiver's first byte")
        ways = list(soon(rig, plan.pick(200, 30)))
        for number in range(2 * turns):
            plan.say(f"{HANGING if number % 2 else 'no'} destinations hang, turn {number + 1}")
            turned.append(beside(rig, couriers, spans, hanging=bool(number % 2)))
    rows = [{"round": str(number), **row} for number, row in enumerate(rates, 1)]
    rows.append({"round": "median", **medians(rates)})
    return [
        Table("webhooks_rate", "Webhooks: how fast one process delivers", RATE, rows, RATE_NOTE),
        Table("webhooks_soon", "Webhooks: how soon they are sent", SOON, ways, SOON_NOTE),
        Table(
            "webhooks_beside",
            "Webhooks: couriers beside destinations that hang",
            BESIDE,
            [*turned, _in_turn(turned)],
            BESIDE_NOTE,
        ),
        Table("webhooks_many", "Webhooks: what many cost Redis", MANY, backlog, MANY_NOTE),
    ]


SCENARIO = Scenario("webhooks", "how fast webhooks are sent, and what many of them cost", run)
