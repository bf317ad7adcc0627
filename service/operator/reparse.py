"""Answers that could not be read are read again, after a courier's module was fixed.

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

import datetime as dt
import functools
from collections.abc import Callable
from dataclasses import dataclass

from pymongo.collection import Collection

from couriers.registry import Courier, Registry
from service.config.schema import Config, recheck_for
from service.operator.catalogue import Catalogue
from service.operator.connections import collections_of
from service.worker.results.connection import Marks
from service.worker.results.database import Document
from service.worker.results.trackings import BulkWriter
from service.worker.results.unreadable import answer_in, delete_read, kept_answers, unread_of
from tracking.checkpoint import Tracking
from tracking.errors import CourierError, UnreadableAnswer
from tracking.request import Slug

READ = "read"


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading one kept answer again; `detail` is the tag, or why not."""

    slug: str
    number: str
    at: dt.datetime
    outcome: str
    detail: str


def readings(config: Config, couriers: Catalogue, slug: Slug | None, *, dry: bool) -> list[Reading]:
    """Read all that is kept, or one courier's; `dry` changes nothing. Raises ResultsDown."""
    with collections_of(config) as stores:
        marks, recheck_of = Marks(stores.forgotten), functools.partial(recheck_for, config)
        # Who follows which parcels is known to the workers, who find the marks of changes.
        writer = BulkWriter(stores, marks, recheck_of, lambda _: True)
        keep = None if dry else functools.partial(_keep, writer, stores.unreadable)
        return [
            _reading(one, couriers.registry, keep) for one in kept_answers(stores.unreadable, slug)
        ]


def _keep(
    writer: BulkWriter, unreadable: Collection[Document], document: Document, tracking: Tracking
) -> None:
    writer.write_one(answer_in(document, tracking))
    delete_read(unreadable, document)


def _reading(
    document: Document, registry: Registry, keep: Callable[[Document, Tracking], None] | None
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
