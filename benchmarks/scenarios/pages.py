"""Pages over a million parcels: how soon they are there, how large, and what open ones cost."""

from __future__ import annotations

import datetime as dt
import gzip
import http.client
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.hooked import fill as fill_deliveries
from benchmarks.open_pages import (
    BESIDE,
    BESIDE_NOTE,
    OPEN,
    PAINT,
    PAINT_NOTE,
    Pages,
    beside,
    first_paints,
    in_turn,
)
from benchmarks.plan import Column, Plan, Scenario, Table, Value
from benchmarks.rig import DATABASE, Rig, open_rig
from benchmarks.scenarios.door import ROOT, wait_for
from benchmarks.scenarios.limited import Spans
from devstack.nursery import Nursery
from devstack.servers import free_port
from service.operator.audit import Operator
from service.operator.connections import Collections
from service.operator.sessions import open_session_of
from service.operator.users import Role, User, add_user
from service.worker.deliveries.delivery import Delivery
from service.worker.results.change import EventName
from service.worker.results.database import Document, Names, indexes_for, make_indexes
from service.worker.results.document import document_id
from service.worker.results.shipments import make_indexes as make_shipment_indexes
from service.worker.results.shipments import search_of
from tracking.checkpoint import Tag
from tracking.request import MAIN, Account

COLUMNS = (
    Column("page", "page"),
    Column("p50_ms", "p50, ms", 1),
    Column("p95_ms", "p95, ms", 1),
    Column("kb", "kB"),
    Column("packed_kb", "packed, kB"),
)
NOTE = (
    "One after the other, from sending the request to the last byte, with the pages' own session. "
    "Nine parcels in ten are of `main`, whose owner looks; two in a hundred have words of their "
    "account. Each round asks for another parcel, number or place in the list."
)
SLUGS = ("ups", "usps", "dhl", "fedex", "gls", "dpd", "dpd-uk", "royal-mail", "postnl", "bpost")
WEIGHTS = [1 / (place + 1) for place in range(len(SLUGS))]
TAGS = (*[Tag.DELIVERED] * 700, *[Tag.IN_TRANSIT] * 200, *[Tag.PENDING] * 60, Tag.EXCEPTION)
PACES = ("first 2560", "then 14336", "then 81920")
SCANS = 5
BATCH = 2_000
LIVE = ("/", "/lines", "/workers", "/proof", "/lines/usps")
"""Pages with something that moves."""

EMAIL = "owner@main.example"
NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)


def run(plan: Plan) -> list[Table]:
    """Fill, then ask for each page again and again."""
    count, rounds = plan.pick(1_000_000, 20_000), plan.pick(100, 10)
    with open_rig() as rig, Nursery() as nursery, tempfile.TemporaryDirectory() as folder:
        stores = Collections(rig.mongodb, Names(rig.stack.mongodb.url, DATABASE))
        numbers = _fill(stores, count, plan)
        port = free_port()
        api = nursery.start(
            [sys.executable, str(ROOT / "worker.py"), "api"],
            Path(folder) / "log",
            _settings(rig, port, folder),
        )
        wait_for(port)
        add_user(stores, Operator(), User(EMAIL, MAIN, Role.OWNER, NOW))
        session = open_session_of(stores, EMAIL) or ""
        asking = _Asking(port, session)
        rows: list[dict[str, Value]] = []
        deliveries = fill_deliveries(stores, count, NOW, plan.say)
        pages = {**_pages(numbers, asking), **_hook_pages(deliveries, asking)}
        for name, paths in pages.items():
            measured = asking.measure(paths, rounds)
            plan.say(f"{name}: {measured['p95_ms']:.0f} ms")
            rows.append({"page": name, **measured})
        slug, number = numbers[0]
        opened = Pages(port, api.pid, session, (*LIVE, f"/parcels/{slug}/{number}"))
        plan.say("first paint")
        painted = opened._replace(paths=(*opened.paths, "/parcels", "/deliveries", "/inbox"))
        paints = first_paints(painted, plan.pick(5, 3))
        turned = _beside(rig, plan, opened)
    title = f"Pages over {count:,} parcels, operations and deliveries"
    return [
        Table("pages", title, COLUMNS, rows, NOTE),
        Table("pages_paint", "Pages: when a browser first paints", PAINT, paints, PAINT_NOTE),
        Table("pages_beside", "Pages: a worker beside open ones", BESIDE, turned, BESIDE_NOTE),
    ]


def _beside(rig: Rig, plan: Plan, opened: Pages) -> list[dict[str, Value]]:
    """Have a worker work in turn without open pages and with them."""
    spans = Spans(plan.pick(3.0, 2.0), plan.span(15.0, 5.0))
    rows = []
    for turn in range(plan.pick(4, 2)):
        pages = opened if turn % 2 else None
        plan.say(f"{OPEN if pages else 'no'} pages are open, turn {turn + 1}")
        rows.append(beside(rig, spans, plan.pick(300, 50), pages))
    return in_turn(rows)


class _Asking:
    """One connection of a browser that is logged in."""

    def __init__(self, port: int, session: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {"Cookie": f"session={session}"}

    def ask(self, path: str) -> bytes:
        """Ask for a page; raises where it is none."""
        self._connection.request("GET", path, headers=self._headers)
        answered = self._connection.getresponse()
        body = answered.read()
        if answered.status != http.client.OK:
            raise RuntimeError(f"{path} is answered by {answered.status}: {body[-2_000:]!r}")
        return body

    def following(self, path: str) -> Iterator[str]:
        """Give the addresses of the pages behind one."""
        while True:
            body = self.ask(path).decode()
            path = body.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
            yield path

    def measure(self, paths: Iterator[str], rounds: int) -> dict[str, Value]:
        """Ask for as many pages as there are rounds."""
        took, sizes = [], []
        for _ in range(rounds):
            path = next(paths)
            began = time.perf_counter()
            body = self.ask(path)
            took.append((time.perf_counter() - began) * 1000)
            sizes.append((len(body), len(gzip.compress(body))))
        whole, packed = max(sizes)
        return {
            "p50_ms": statistics.median(took),
            "p95_ms": statistics.quantiles(took, n=20)[-1],
            "kb": round(whole / 1000),
            "packed_kb": round(packed / 1000),
        }


def _pages(numbers: list[tuple[str, str]], asking: _Asking) -> Mapping[str, Iterator[str]]:
    drawn, following = random.Random(7), asking.following

    def each(form: str) -> Iterator[str]:
        while True:
            slug, number = drawn.choice(numbers)
            yield form.format(slug=slug, number=number, begun=number[:7], order=number[-5:])

    listed = "/parcels?"
    return {
        "parcels": each(listed),
        "parcels, page after page": following(listed),
        "parcels of a tag": each(f"{listed}tag=Exception"),
        "parcels of a courier": each(listed + "slug={slug}"),
        "parcels of a rare tag, by creation": each(f"{listed}tag=Exception&sort=-created"),
        "parcels by creation": each(f"{listed}sort=-created"),
        "parcels by next check": each(f"{listed}sort=next_check"),
        "search by number": each(listed + "search={number}"),
        "search by the beginning of numbers": each(listed + "search={begun}"),
        "search by order": each(listed + "search=A-{order}"),
        "parcels of a label": each(f"{listed}label=vip"),
        "a parcel": each("/parcels/{slug}/{number}"),
        **{path: each(path) for path in ("/", "/settings", "/lines", "/workers", "/dead")},
        **{path: each(path) for path in ("/statistics", "/accounts")},
    }


def _hook_pages(some: list[Delivery], asking: _Asking) -> Mapping[str, Iterator[str]]:
    drawn, listed, inbox = random.Random(8), "/deliveries?", "/inbox?"
    relayed = [each for each in some if each.type is EventName.RELAY_REQUEST]
    others = [each for each in some if each.type is not EventName.RELAY_REQUEST]

    def each(form: str, those: list[Delivery] = some) -> Iterator[str]:
        while True:
            one = drawn.choice(those)
            at = f"{one.made_at:%Y-%m-%dT%H:%M}"
            yield form.format(id=one.id, parcel=one.parcel, at=at, n=2 * drawn.randrange(10))

    return {
        "services": each("/services"),
        "a service": each("/services/shop{n}"),
        "alerts": each("/services/-/alerts"),
        "deliveries": each(listed),
        "deliveries, page after page": asking.following(listed),
        "dead deliveries": each(f"{listed}state=dead"),
        "deliveries of a service": each(listed + "service=shop{n}"),
        "deliveries of a parcel": each(listed + "parcel={parcel}", others),
        "held ones of a service until a time": each(
            listed + "service=shop{n}&state=held&until={at}"
        ),
        "how many are dead or held": each("/deliveries/all?act=resend"),
        "a delivery": each("/deliveries/{id}", others),
        "inbox": each(inbox),
        "inbox, page after page": asking.following(inbox),
        "inbox by a word": each(f"{inbox}words=refund"),
        "inbox by two words": each(f"{inbox}words=refund+paid"),
        "inbox by a status until a time": each(inbox + "status=500&until={at}"),
        "a relayed request": each("/inbox/{id}", relayed),
    }


def _settings(rig: Rig, port: int, folder: str) -> dict[str, str]:
    return {
        "TRACKER_BEANSTALKD__SERVERS": f'["{rig.stack.beanstalkd.url}"]',
        "TRACKER_REDIS__URL": rig.stack.redis.url,
        "TRACKER_MONGODB__URI": rig.stack.mongodb.url,
        "TRACKER_MONGODB__DATABASE": DATABASE,
        "TRACKER_API__LISTEN": f"127.0.0.1:{port}",
        "TRACKER_INGEST__SPOOL": f"{folder}/spool.sqlite",
        "TRACKER_INGEST__KEYS": f"{folder}/keys.json",
    }


def _fill(stores: Collections, count: int, plan: Plan) -> list[tuple[str, str]]:
    """Store parcels with an operation of each; gives some of `main`."""
    drawn = random.Random(1)
    numbers: list[tuple[str, str]] = []
    for begin in range(0, count, BATCH):
        if begin % (BATCH * 25) == 0:
            plan.say(f"{begin:,} parcels are stored")
        parcels = [_parcel(drawn, (count - n) * 2.5) for n in range(begin, begin + BATCH)]
        stores.tracking.insert_many(parcels, ordered=False)
        stores.operations.insert_many(map(_operation, parcels), ordered=False)
        own = [each for each in parcels if "account" not in each]
        numbers += [(each["slug"], each["tracking_number"]) for each in own[:20]]
        said = [_shipment(each) for each in own[:20] + own[-20:]]
        stores.shipments.insert_many(said, ordered=False)
    plan.say("indexes are made")
    wanted = indexes_for(Names(""))
    for name in ("tracking", "operations", "dead"):
        make_indexes(stores.named(name), wanted[name])
    make_shipment_indexes(stores.shipments)
    return numbers


def _parcel(drawn: random.Random, seconds: float) -> Document:
    slug, tag = drawn.choices(SLUGS, WEIGHTS)[0], drawn.choice(TAGS)
    account = MAIN if drawn.random() < 0.9 else Account("acme")  # noqa: PLR2004 - as NOTE says
    number, made = f"{drawn.randrange(10**12):012}", NOW - dt.timedelta(seconds=seconds)
    due = None if tag is Tag.DELIVERED else NOW + dt.timedelta(seconds=drawn.randrange(40_000))
    scan = {"checkpoint_time": "2026-03-01T07:15:00", "checkpoint_offset": None}
    scan |= {"message": "Arrived at the facility", "tag": str(tag), "subtag": f"{tag}_001"}
    return {
        "_id": document_id(f"{slug}:{number}", account),
        **({} if account == MAIN else {"account": account}),
        "slug": slug,
        "tracking_number": number,
        "tag": str(tag),
        "subtag": f"{tag}_001",
        "delivered": tag is Tag.DELIVERED,
        "active": due is not None,
        "checkpoints": [scan] * SCANS,
        "error": None,
        "attempts": [{"at": made, "outcome": "answered", "http_status": 200, "ms": 90.0}] * 3,
        "tracked_count": 3,
        "created_at": made,
        "updated_at": min(NOW, made + dt.timedelta(seconds=drawn.expovariate(1 / 200_000))),
        "last_checked_at": NOW,
        "next_check_at": due,
        "check_pace": due and drawn.choice(PACES),
        "observed_us": 1,
        "revision": 3,
    }


def _operation(parcel: Document) -> Document:
    account = parcel.get("account", MAIN)
    name = f"order-{parcel['tracking_number']}"
    identity = name if account == MAIN else f"{account}/{name}"
    at = parcel["created_at"]
    return {
        "_id": f"{identity}@{int(at.timestamp() * 1000)}",
        "account": account,
        "id": identity,
        "slug": parcel["slug"],
        "number": parcel["tracking_number"],
        "origin": "MANUAL",
        "state": "SUCCESS",
        "output": {"tag": parcel["tag"], "checkpoints": SCANS},
        "admitted_at": at,
        "started_at": at,
        "finished_at": at,
        "attempts": [],
    }


def _shipment(parcel: Document) -> Document:
    number = parcel["tracking_number"]
    words = {"title": "Shoes", "order_id": f"A-{number[-5:]}", "customers": [{"name": "Jane Doe"}]}
    if number.endswith("77"):
        words["shipment_tags"] = ["vip"]
    name = f"{parcel['slug']}:{number}"
    named = {"_id": name, "account": MAIN, "parcel": name, "slug": parcel["slug"]}
    said = {"number": number, "words": words, "search": search_of(number, words)}
    made = {"completed": None, "created_at": parcel["created_at"]}
    return {**named, **said, **made, "deleted": False, "updated_at": NOW}


SCENARIO = Scenario("pages", "how soon pages are answered over a million parcels", run)
