"""What a process has done so far, in plain integers, and their way to the process that serves them.

The log's events are what is counted, so both tell the same. A worker process hands what it counted
to its parent as lines of text, `name TAB label … TAB amount`; the parent adds up, so no counter
goes back when a worker process is started again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from service.observe.events import Event
from service.observe.metrics import BOUNDS_US, DEAD, ENDED, REPAIRS, RETRIES, SAVED, TROUBLE

Key = tuple[str, ...]
"""The name of a metric and its labels; of a histogram also a bucket's index or SUM_US."""

SUM_US = "us"
"""In the place of a bucket: the sum of all that was measured."""

WEBHOOKS = "~"
"""The label of all lines of services."""

_BUCKETS = tuple(map(str, range(len(BOUNDS_US) + 1)))


class Counts:
    """Sums that only grow. An addition of another thread may get lost; nearly none makes one."""

    def __init__(self) -> None:
        self.sums: dict[Key, int] = {}
        self.begun: Callable[[], None] = lambda: None
        """Is called with the first that is counted after all was handed over."""

    def add(self, key: Key, by: int = 1) -> None:
        """Count something `by` times."""
        if not self.sums:
            self.begun()
        self.sums[key] = self.sums.get(key, 0) + by

    def time(self, name: str, label: str, us: int) -> None:
        """Note one measurement of a histogram, in microseconds."""
        self.add((name, label, _BUCKETS[bisect_left(BOUNDS_US, us)]))
        self.add((name, label, SUM_US), us)

    def of_events(self) -> Mapping[Event, Callable[[Mapping[str, Any]], None]]:
        """Give what counts each event that is counted, by its fields: for `emitter`."""
        return {event: partial(count, self) for event, count in _COUNTED.items()}

    def news(self, most: int) -> bytes:
        """Hand over what was counted: lines of at most so many bytes, none when nothing is left."""
        frame = b""
        while self.sums and len(frame) < most:
            key, total = self.sums.popitem()
            line = "\t".join((*key, f"{total}\n")).encode()
            if len(frame) + len(line) > most:
                self.sums[key] = total
                break
            frame += line
        return frame

    def take(self, news: bytes) -> None:
        """Add what was counted elsewhere, or could not be handed over."""
        for line in filter(None, news.decode().split("\n")):
            *key, more = line.split("\t")
            self.add(tuple(key), int(more))


_Count = Callable[[Counts, Mapping[str, Any]], None]


def _label(line: str) -> str:
    """Name a line in a metric: all services by one label, as they come and go."""
    return WEBHOOKS if line[:1] == WEBHOOKS else line


def _called(counts: Counts, fields: Mapping[str, Any]) -> None:
    # As `add` and `time` do it, at half of their cost: every call comes by here.
    sums, slug, us = counts.sums, _label(fields["slug"]), fields["ms"] * 1_000
    if not sums:
        counts.begun()
    key: Key = ("tracker_courier_calls_total", slug, fields["outcome"])
    sums[key] = sums.get(key, 0) + 1
    key = ("tracker_courier_call_duration_seconds", slug, _BUCKETS[bisect_left(BOUNDS_US, us)])
    sums[key] = sums.get(key, 0) + 1
    key = ("tracker_courier_call_duration_seconds", slug, SUM_US)
    sums[key] = sums.get(key, 0) + us


def _answered(counts: Counts, fields: Mapping[str, Any]) -> None:
    slug, requests = _label(fields["slug"]), fields["requests"]
    counts.add((ENDED.name, slug, "answered"), requests)
    if requests > 1:
        counts.add((SAVED.name, slug, "merging"), requests - 1)


def _fresh(counts: Counts, fields: Mapping[str, Any]) -> None:
    counts.add((ENDED.name, _label(fields["slug"]), "fresh"))
    counts.add((SAVED.name, _label(fields["slug"]), "freshness"))


def _ended(outcome: str) -> _Count:
    return lambda counts, fields: counts.add(
        (ENDED.name, _label(fields["slug"]), outcome), fields.get("requests", 1)
    )


def _dead(*, reason: str = "", told_as: str = "") -> _Count:
    def count(counts: Counts, fields: Mapping[str, Any]) -> None:
        slug = _label(fields.get("slug", ""))
        counts.add((ENDED.name, slug, "dead"), fields.get("requests", 1))
        counts.add((DEAD.name, slug, reason or fields[told_as]))

    return count


def _retried(counts: Counts, fields: Mapping[str, Any]) -> None:
    counts.add((RETRIES.name, _label(fields["slug"]), fields["error"]))


def _swept(counts: Counts, fields: Mapping[str, Any]) -> None:
    made = {"call": fields["calls"], "drain": int(fields["drain"]), "given_up": fields["dying"]}
    for kind, times in made.items():
        if times:
            counts.add((REPAIRS.name, kind), times)


def _repaired(kind: str) -> _Count:
    return lambda counts, _: counts.add((REPAIRS.name, kind))


def _both(one: _Count, two: _Count | None) -> _Count:
    def count(counts: Counts, fields: Mapping[str, Any]) -> None:
        one(counts, fields)
        if two is not None:
            two(counts, fields)

    return count


def _line_of_log(event: Event) -> _Count:
    key = (TROUBLE.name, event.level, event.value)
    return lambda counts, _: counts.add(key)


_TOLD: Mapping[Event, _Count] = {
    Event.CALLED: _called,
    Event.ANSWERED: _answered,
    Event.SERVED_FRESH: _fresh,
    Event.CANCELLED: _ended("cancelled"),
    Event.REFUSED: _ended("refused"),
    Event.ATTEMPT_FAILED: _ended("refused"),
    Event.DEAD: _dead(told_as="error"),
    Event.MALFORMED: _dead(told_as="why"),
    Event.FULL: _dead(reason="wait_list_full"),
    Event.TOO_LATE: _dead(reason="too_late"),
    Event.ID_REUSED: _dead(reason="id_reused"),
    Event.RETRIED: _retried,
    Event.PAUSED: _retried,
    Event.NO_CREDENTIALS: _retried,
    Event.AUTH_FAILED: _retried,
    Event.SWEPT: _swept,
    Event.TASK_ENDED: _repaired("task"),
    Event.CHILD_DIED: _repaired("process"),
    Event.CHILD_SILENT: _repaired("process"),
}

_TROUBLE = tuple(event for event in Event if event.level in {"warning", "error"})

_COUNTED: Mapping[Event, _Count] = MappingProxyType(
    {**_TOLD, **{event: _both(_line_of_log(event), _TOLD.get(event)) for event in _TROUBLE}}
)

NOTHING_YET: Mapping[Key, int] = MappingProxyType(
    {
        **{(TROUBLE.name, event.level, event.value): 0 for event in _TROUBLE},
        **{(REPAIRS.name, kind): 0 for kind in ("call", "drain", "given_up", "task", "process")},
    }
)
"""What a worker's parent tells from its start on: of a series that begins with 1 Prometheus sees no
increase."""
