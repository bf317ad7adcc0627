"""`reparse`: answers that could not be read are read again, after a courier's module was fixed.

============== ================================================= ==================================
outcome        means                                             and then
============== ================================================= ==================================
read           the module reads it now                           stored (newer stays), deleted here
unreadable     it still does not; or only the beginning is kept  kept
refused        the module reads an error out of it               kept
no_courier     no courier has this slug any more                 kept
============== ================================================= ==================================
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

from pymongo.collection import Collection

from couriers.courier import Courier
from couriers.registry import Registry
from service.cli.catalogue import Catalogue
from service.cli.exit_codes import Exit
from service.cli.output import moment, say, say_json, table
from service.cli.settings import loaded
from service.client.connections import collections_of
from service.config.per_slug import recheck_for
from service.results.bulk import BulkWriter
from service.results.connection import Document
from service.results.forgetting import Marks
from service.results.unreadable import each, forget, save, unread_of
from tracking.checkpoint import Tracking
from tracking.errors import CourierError, UnreadableAnswer

READ = "read"


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading one kept answer again; `detail` is the tag, or why not."""

    slug: str
    number: str
    at: dt.datetime
    outcome: str
    detail: str


def run(options: argparse.Namespace) -> int:
    """Read all that is kept, or one courier's; 1 when some of it stays unread."""
    setting = loaded(options)
    couriers = Catalogue(setting)
    registry = couriers.registry
    slug = couriers.slug(options.slug) if options.slug else None
    recheck_of = functools.partial(recheck_for, setting.config)
    with collections_of(setting.config) as stores:
        writer = BulkWriter(stores.tracking, stores.past, Marks(stores.forgotten), recheck_of)
        keep = None if options.dry_run else functools.partial(_keep, writer, stores.unreadable)
        readings = [_reading(one, registry, keep) for one in each(stores.unreadable, slug)]
    if options.json:
        for reading in readings:
            say_json(asdict(reading))
    else:
        _print(readings, dry=options.dry_run)
    return Exit.DONE if all(reading.outcome == READ for reading in readings) else Exit.NEGATIVE


def _keep(
    writer: BulkWriter, unreadable: Collection[Document], document: Document, tracking: Tracking
) -> None:
    save(writer, document, tracking)
    forget(unreadable, document)


def _reading(
    document: Document,
    registry: Registry,
    keep: Callable[[Document, Tracking], None] | None,
) -> Reading:
    """Read one answer and store what it says; `keep` None changes nothing."""
    told = functools.partial(Reading, document["slug"], document["number"], document["at"])
    slug = registry.resolve(document["slug"])
    if slug is None:
        return told("no_courier", "no courier has this slug")
    try:
        tracking = _parse(document, registry.courier(slug))
        if keep is not None:
            keep(document, tracking)
    except UnreadableAnswer as error:
        return told("unreadable", error.message)
    except CourierError as error:
        return told("refused", f"{error.code}: {error.message}")
    return told(READ, tracking.tag.value)


def _parse(document: Document, courier: Courier) -> Tracking:
    """Read a kept answer. Raises CourierError, also for a module that breaks."""
    unread = unread_of(document)
    try:
        return courier.parse(unread.status, unread.headers, unread.body, unread.number)
    except CourierError:
        raise
    except Exception as fault:
        what = f"the parser failed: {type(fault).__name__}: {fault}"
        raise UnreadableAnswer(what) from fault


def _print(readings: list[Reading], *, dry: bool) -> None:
    if readings:
        rows = [
            (one.slug, one.number, moment(one.at), one.outcome, one.detail[:60]) for one in readings
        ]
        table(("courier", "number", "at", "outcome", "detail"), rows)
        say("")
    counts = Counter(reading.outcome for reading in readings)
    told = ", ".join(f"{outcome}: {count}" for outcome, count in sorted(counts.items()))
    say(f"{len(readings)} kept answers ({told or 'none'}){'; nothing was changed' if dry else ''}")
