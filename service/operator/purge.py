"""The purge by hand: deletes or counts now what the workers purge by themselves."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

from service.config.schema import Config
from service.operator.connections import collections_of
from service.operator.producer import Producer
from service.worker.deliveries.purging import kinds_of_deliveries
from service.worker.results.database import names_of
from service.worker.results.retention import REST, Kind, count_old, kinds, purge_some
from service.worker.upkeep.purge import old_jobs
from tracking.errors import TubesDown


@dataclass(slots=True)
class Purged:
    """The counts of what was old, by kind; `failed` says which servers could not be asked.

    `buried_jobs`: of a purge those that went, of a dry run all that lie there.
    """

    counts: dict[str, int] = field(default_factory=dict)
    buried_jobs: int = 0
    failed: list[str] = field(default_factory=list)


def purge(config: Config, progress: Callable[[str, int, int], None], *, dry: bool) -> Purged:
    """Purge; `progress` hears of each batch: kind, how many so far, of all. Raises ResultsDown.

    Documents that grow old meanwhile wait for the next purge.
    """
    purged, names = Purged(), names_of(config)
    with collections_of(config) as stores:
        now = dt.datetime.now(dt.UTC)
        every = chain(kinds(stores, names, now), kinds_of_deliveries(stores, names, now))
        old = [(each, count_old(each)) for each in every]
        for kind, count in old:
            done = count if dry else _purge(kind, count, progress)
            purged.counts[kind.name] = purged.counts.get(kind.name, 0) + done
        for server in config.beanstalkd.servers if not dry else ():
            try:
                gone = old_jobs(server, stores.dead, names.dead_keep_days)
                purged.buried_jobs += sum(1 for _ in gone)
            except TubesDown as error:
                purged.failed.append(f"{server}: {error}")
    if dry:
        _count_buried(config, purged)
    return purged


def _purge(kind: Kind, count: int, progress: Callable[[str, int, int], None]) -> int:
    total, more = 0, count > 0
    while more:
        began = time.monotonic()
        done, more = purge_some(kind)
        total += done
        progress(kind.name, total, count)
        time.sleep(REST * (time.monotonic() - began) if more else 0.0)
    return total


def _count_buried(config: Config, purged: Purged) -> None:
    with Producer(config.beanstalkd.servers) as producer:
        for tubes in producer.tubes():
            purged.buried_jobs += tubes.buried
            purged.failed += [f"{tubes.server}: {tubes.error}"] if tubes.error else []
