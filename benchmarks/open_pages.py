"""Pages that people have open: when a browser first paints one, and what many cost a worker.

Browsers that only look are stood in for by what they send: each open page asks for its fragments
every LIVE_SECONDS and names what it has, and keeps its stream of events. So what is measured beside
a worker is the server, and not 50 windows of a browser on the same two cores.
"""

from __future__ import annotations

import http.client
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from statistics import fmean, median
from threading import Event, Thread
from typing import NamedTuple

from benchmarks.pace import Window, judge, percentile
from benchmarks.plan import Column, Value
from benchmarks.rig import DATABASE, PAUSE_MS, Rig, feed, slugs
from benchmarks.scenarios.limited import ALLOWED, DELAY_MS, PAUSED, Spans
from benchmarks.tube import DRAINS, REQUESTS, requests
from benchmarks.worker_tree import Meter, Setting
from service.web.frame import LIVE_SECONDS

PAINT = (
    Column("page", "page"),
    Column("samples", "samples"),
    Column("answered_ms", "answered, ms", 0),
    Column("paint_ms", "first paint p50, ms", 0),
    Column("worst_ms", "worst, ms", 0),
)
PAINT_NOTE = (
    "In Chromium without a window, nothing cached, on loopback, from the start of the navigation: "
    "the last byte of the page, and what `performance.getEntriesByType('paint')` says."
)
BESIDE = (
    Column("what", "pages open"),
    Column("slugs", "couriers"),
    Column("rate", "couriers' rate", 3),
    Column("kept", "of that without", 3),
    Column("over", "slugs over"),
    Column("late_p99_ms", "late p99 ms", 1),
    Column("asked_s", "fragments/s", 1),
    Column("same", "not changed", 2),
    Column("fragment_ms", "fragment p95 ms", 1),
    Column("worker_core", "worker % of a core", 1),
    Column("api_core", "api % of a core", 1),
)
BESIDE_NOTE = (
    "In turn, a worker of its own each time, one process, shipped limits, in the same database. "
    "Open are overview, lines, workers, proof, a courier and a parcel, each several times, as one "
    "owner has them. The last row: the mean with them by the mean without."
)
OPEN = 50
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCRIPT = """() => [
  performance.getEntriesByType("navigation")[0].responseEnd,
  ...performance.getEntriesByType("paint").map((each) => each.startTime)]"""
PATIENCE = 10.0

_LIVE = re.compile(r'hx-get="([^"]+)"[^>]* data-live')
_STREAM = re.compile(r'sse-connect="([^"]+)"')


@dataclass(slots=True)
class Looks:
    """What open pages asked for: how long each fragment took, and how many had not changed."""

    took_ms: list[float] = field(default_factory=list)
    same: int = 0


class _OpenPage:
    """A page in one browser, with the connection on which it asks."""

    def __init__(self, port: int, session: str, path: str) -> None:
        self._port, self._cookie = port, {"Cookie": f"session={session}"}
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        _, text, _ = self._ask(path, {})
        self._known = dict.fromkeys(_LIVE.findall(text), "")
        self._streams = [self._listen(each) for each in _STREAM.findall(text)]

    def look(self, looks: Looks) -> None:
        """Ask for each fragment again."""
        for path, etag in self._known.items():
            began = time.perf_counter()
            status, _, self._known[path] = self._ask(path, {"If-None-Match": etag} if etag else {})
            looks.took_ms.append((time.perf_counter() - began) * 1000)
            looks.same += status == http.client.NOT_MODIFIED

    def close(self) -> None:
        """Close it."""
        for each in (self._connection, *self._streams):
            each.close()

    def _ask(self, path: str, headers: Mapping[str, str]) -> tuple[int, str, str]:
        self._connection.request("GET", path, headers={**self._cookie, **headers})
        answer = self._connection.getresponse()
        text = answer.read().decode()
        if answer.status not in {http.client.OK, http.client.NOT_MODIFIED}:
            raise RuntimeError(f"{path} is answered by {answer.status}: {text[-500:]}")
        return answer.status, text, answer.headers["ETag"] or ""

    def _listen(self, path: str) -> http.client.HTTPConnection:
        stream = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        stream.request("GET", path, headers=self._cookie)
        return stream


class Pages(NamedTuple):
    """Where pages are served, and by which process, to whom, and which of them are looked at."""

    port: int
    pid: int
    session: str
    paths: Sequence[str]


@contextmanager
def _looking(asked: Pages | None) -> Iterator[Looks]:
    """Keep OPEN pages open, of these paths in turn, and their questions evenly apart; or none."""
    looks, done, failed = Looks(), Event(), list[Exception]()
    if asked is None:
        yield looks
        return
    given = islice(cycle(asked.paths), OPEN)
    pages = [_OpenPage(asked.port, asked.session, each) for each in given]

    def look_on() -> None:
        due = time.monotonic()
        try:
            for page in cycle(pages):
                due += LIVE_SECONDS / OPEN
                if done.wait(max(0.0, due - time.monotonic())):
                    return
                page.look(looks)
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            failed.append(error)

    thread = Thread(target=look_on)
    thread.start()
    try:
        yield looks
    finally:
        done.set()
        thread.join()
        for page in pages:
            page.close()
    for error in failed:
        raise error


def beside(rig: Rig, spans: Spans, couriers: int, pages: Pages | None) -> dict[str, Value]:
    """Have couriers asked at their full rate, while pages are open or none; gives a row."""
    names = slugs(couriers)
    _forget(rig)
    rig.tubes.pause(REQUESTS, PAUSED)
    with rig.worker(Setting(names)) as worker, _looking(pages) as looks:
        feed(rig, names, requests(names, spans.backlog))
        time.sleep(PAUSE_MS / 1000 + spans.warm_up)
        meter = Meter({"worker": worker.pids, "api": [pages.pid] if pages else []})
        cpu, begin_ns, before = meter.read(), time.monotonic_ns(), len(looks.took_ms)
        time.sleep(spans.measured)
        used, window = meter.since(cpu), Window(begin_ns, time.monotonic_ns())
    told = judge(rig.courier.calls(), window, ALLOWED, couriers)
    took = looks.took_ms[before:]
    return {
        "what": OPEN if pages else "none",
        "slugs": couriers,
        "rate": told.rate,
        "over": told.over,
        "late_p99_ms": told.late_p99_ms,
        "asked_s": len(took) / window.seconds if pages else None,
        "same": looks.same / len(looks.took_ms) if took else None,
        "fragment_ms": percentile(took, 0.95) if took else None,
        "worker_core": used["worker"] / window.seconds * 100,
        "api_core": used["api"] / window.seconds * 100 if pages else None,
    }


def _forget(rig: Rig) -> None:
    """Empty all but MongoDB, and there what was measured before: its answers would still do."""
    rig.tubes.empty(REQUESTS, DRAINS)
    rig.redis.flushall()
    rig.mongodb[DATABASE]["tracking"].delete_many({"_id": {"$gte": "bench-", "$lt": "bench."}})
    rig.courier.reset(DELAY_MS)


def in_turn(rows: Sequence[dict[str, Value]]) -> list[dict[str, Value]]:
    """Add to each second row what it kept of the one before, and give the row of all."""
    rates = [float(row["rate"] or 0) for row in rows]
    for place in range(1, len(rows), 2):
        rows[place]["kept"] = rates[place] / rates[place - 1]
    kept = fmean(rates[1::2]) / fmean(rates[::2])
    return [*rows, {"what": "all", "slugs": rows[0]["slugs"], "kept": kept}]


def first_paints(pages: Pages, samples: int) -> list[dict[str, Value]]:
    """Open each page in a browser that has nothing of it; no rows where there is no browser."""
    # Of requirements-dev; most scenarios do without.
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        return []
    url, rows = f"http://127.0.0.1:{pages.port}", list[dict[str, Value]]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, sync_playwright() as lib:
        browser = lib.chromium.launch(
            executable_path=program, args=["--disable-gpu", "--no-sandbox"], env={"HOME": home}
        )
        for path in pages.paths:
            found = []
            for _ in range(samples + 1):
                context = browser.new_context(base_url=url)
                context.add_cookies([{"name": "session", "value": pages.session, "url": url}])
                page, deadline = context.new_page(), time.monotonic() + PATIENCE
                page.goto(path)
                while len(told := page.evaluate(SCRIPT)) < 2 and time.monotonic() < deadline:  # noqa: PLR2004 - the answer, and a paint
                    time.sleep(0.01)
                found.append(told)
                context.close()
            answered, paints = zip(*(each[:2] for each in found[1:]), strict=True)
            rows.append(
                {
                    "page": path,
                    "samples": samples,
                    "answered_ms": median(answered),
                    "paint_ms": median(paints),
                    "worst_ms": max(paints),
                }
            )
        browser.close()
    return rows
