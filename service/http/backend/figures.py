"""The figures of a process that serves HTTP: of its stores, beside its own counts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from limits.admin.snapshot import LineSnapshot, LineSnapshots
from limits.admin.violations import Violations
from service.http.backend.door import Door
from service.observe.counts import Key
from service.observe.metrics import (
    BEHIND,
    BOUND,
    DELIVERIES,
    DELIVERIES_ENDED,
    DUE,
    GUARD,
    HELD,
    MADE,
    MAILS,
    NUMBERS,
    OLDEST,
    QUOTA,
    REDIS,
    SERVICES,
    SPOOLED,
    TAKING,
    UNUSED,
    VIOLATIONS,
    WAITING,
)
from service.worker.deliveries.delivery import FINAL, DeliveryState
from service.worker.deliveries.standing import Standing
from service.worker.results.queries import Behind
from tracking.errors import LimitsBroken, LimitsDown
from tracking.line import courier_line
from tracking.request import Slug

PATIENCE_SECONDS = 5.0
"""How long Redis may take: Prometheus gives a scrape 10 s, and is to hear that Redis hangs."""


async def figures_of_door(door: Door) -> dict[Key, float]:
    """Measure the door: whether a beanstalkd takes requests, and how many are spooled if known."""
    health = await door.health()
    figures: dict[Key, float] = {(TAKING.name,): not health.tubes}
    if health.spooled is not None:
        figures[SPOOLED.name,] = health.spooled
    return figures


async def figures_of_lines(snapshots: LineSnapshots, couriers: Sequence[Slug]) -> dict[Key, float]:
    """Measure the lines, as Redis knows them; while Redis is away, only that it is."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            lines = await snapshots.busy(map(courier_line, couriers))
            guards = await snapshots.guards()
    except (LimitsBroken, LimitsDown, TimeoutError):
        return {(REDIS.name,): 0}
    figures: dict[Key, float] = {(REDIS.name,): 1}
    for line in lines:
        figures |= of_line(line)
    return figures | {(GUARD.name, slug): ms / 1000 for slug, ms in guards.items()}


def figures_of_plans(behind: Mapping[str, Behind] | None) -> dict[Key, float]:
    """Tell how far re-checks are behind; nothing while MongoDB does not answer."""
    figures: dict[Key, float] = {}
    for slug, (due, seconds) in (behind or {}).items():
        figures |= {(DUE.name, slug): due, (BEHIND.name, slug): seconds}
    return figures


def figures_of_webhooks(standing: Standing | None) -> dict[Key, float]:
    """Tell how webhooks stand; nothing while MongoDB does not answer."""
    if standing is None:
        return {}
    figures: dict[Key, float] = {(MAILS.name,): standing.mails}
    for state in DeliveryState:
        metric = DELIVERIES_ENDED if state in FINAL else DELIVERIES
        figures[metric.name, state.value] = standing.deliveries[state]
    for name, count in standing.services.items():
        figures[SERVICES.name, name] = count
    return figures


def figures_of_violations(violations: Violations) -> dict[Key, float]:
    """Count how often limits were broken, since this process watches."""
    return {(VIOLATIONS.name, *each): count for each, count in violations.counts.items()}


def of_line(told: LineSnapshot) -> dict[Key, float]:
    """Tell how one line stands."""
    slug = told.line
    figures: dict[Key, float] = {
        (WAITING.name, slug, "manual"): told.waiting_manual,
        (WAITING.name, slug, "automatic"): told.waiting_automatic,
        (WAITING.name, slug, "later"): told.waiting_later,
        (OLDEST.name, slug): told.oldest_age_seconds or 0.0,
        (HELD.name, slug): told.running,
        (UNUSED.name, slug): told.rate_unused,
    }
    if told.together > 1:
        figures |= {(NUMBERS.name, slug): told.numbers, (MADE.name, slug): told.calls}
    if told.bound_by:
        figures[BOUND.name, slug, told.bound_by] = 1
    for quota, left in (("hour", told.hour_left), ("day", told.day_left)):
        if left is not None:
            figures[QUOTA.name, slug, quota] = left
    return figures
