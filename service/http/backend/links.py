"""Secret links: each starts a check of one parcel, for the account that made it.

They stand in `links`. The secret has 192 random bits and leaves this process once, when it is made;
what is kept is its SHA-256, as of keys. A revoked link is deleted, so nobody can tell it from one
that never was.

========== =====================================================================================
member     is
========== =====================================================================================
_id        of the link, for its account; later ones are greater
sha256     of the secret
account    whose it is
slug       of the parcel, with its number in the one form that lists and documents have
request    what is put: members of a job's `payload`, as they were given
title      what its account calls it
made_at    when it was made
started_at when it was last used, by MongoDB's clock, null before: one clock for all processes
========== =====================================================================================
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson import ObjectId
from pymongo.collection import Collection

from service.http.backend.door import Door
from service.operator.accounts import is_served
from service.operator.audit import Operator, recorded
from service.operator.catalogue import Catalogue
from service.operator.connections import Collections
from service.operator.keys import digest
from service.operator.put import Sendable, job_of
from service.operator.stored import Stored
from service.worker.results.database import Document, in_thread
from service.worker.results.document import stored_now
from tracking.request import Account

APART_SECONDS = 1
"""A link starts at most one check in so many."""

LINKS_MOST = 10_000
"""Links of one account."""


class UnknownLink(Exception):
    """There is no such link, or it was revoked."""


class UsedJustNow(Exception):
    """The link was used less than APART_SECONDS ago: use it again later."""


class TooManyLinks(Exception):
    """The account has LINKS_MOST already: it has to revoke some."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link as its account may know it."""

    id: str
    slug: str
    number: str
    title: str | None
    made_at: dt.datetime
    started_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Started:
    """A request that a link put; `spooled`: no beanstalkd took it yet."""

    put: Sendable
    spooled: bool


class Links:
    """Makes, lists, revokes and uses them. Every method raises ResultsDown."""

    def __init__(self, stored: Stored, door: Door, catalogue: Catalogue) -> None:
        self._stores = stored.stores
        self._door = door
        self._catalogue = catalogue

    async def add(
        self, who: Operator, request: Mapping[str, Any], title: str | None
    ) -> tuple[Link, str]:
        """Make one, and tell its secret, this once. Raises MalformedJob, TooManyLinks."""
        parcel = job_of(request, self._catalogue, who.account)
        secret = secrets.token_hex(24)
        made = Link(str(ObjectId()), parcel.slug, parcel.number, title, stored_now(), None)
        document = {
            "_id": made.id,
            "sha256": digest(secret),
            "account": who.account,
            "slug": made.slug,
            "number": made.number,
            "request": dict(request),
            "title": title,
            "made_at": made.made_at,
            "started_at": None,
        }
        await in_thread(_insert, self._stores, who, document)
        return made, secret

    async def of(self, account: Account, after: str, most: int) -> Sequence[Link]:
        """List up to `most` of an account, oldest first, behind the one with the id `after`."""
        return await in_thread(_list, self._stores.links, account, after, most)

    async def find(self, account: Account, identity: str) -> Link | None:
        """Find one of an account."""
        wanted = {"_id": identity, "account": account}
        found = await in_thread(self._stores.links.find_one, wanted)
        return _read(found) if found else None

    async def revoke(self, who: Operator, identity: str) -> bool:
        """End one; false where the account has none such."""
        return await in_thread(_delete, self._stores, who, identity)

    async def start(self, secret: str, traceparent: str | None) -> Started:
        """Put its request. Raises UnknownLink, UsedJustNow, MalformedJob, SpoolDown."""
        found = await in_thread(_use, self._stores, digest(secret))
        identity = f"link-{found['_id']}.{secrets.token_hex(8)}"
        request = {**found["request"], "id": identity}
        put = job_of(request, self._catalogue, Account(found["account"]), traceparent)
        [spooled] = await self._door.take([put])
        return Started(put, spooled)


def _insert(stores: Collections, who: Operator, document: Document) -> None:
    """Insert one, and then count: of several at once none can miss another. Raises TooManyLinks."""
    links, most = stores.links, LINKS_MOST + 1
    target = {"link": document["_id"], "slug": document["slug"], "number": document["number"]}
    with recorded(stores.audit, who, "link add", target):
        links.insert_one(document)
        if links.count_documents({"account": who.account}, limit=most) >= most:
            links.delete_one({"_id": document["_id"]})
            raise TooManyLinks


def _delete(stores: Collections, who: Operator, identity: str) -> bool:
    with recorded(stores.audit, who, "link revoke", {"link": identity}) as outcome:
        gone = stores.links.delete_one({"_id": identity, "account": who.account}).deleted_count
        outcome["revoked"] = gone
        return bool(gone)


def _list(links: Collection[Document], account: Account, after: str, most: int) -> list[Link]:
    found = links.find({"account": account, "_id": {"$gt": after}}).sort("_id").limit(most)
    return list(map(_read, found))


def _read(document: Document) -> Link:
    names = ("slug", "number", "title", "made_at", "started_at")
    return Link(document["_id"], *(document[name] for name in names))


def _use(stores: Collections, sha256: str) -> Document:
    """Take the only use of a second, in one step. Raises UnknownLink, UsedJustNow."""
    before = {"$lte": ["$started_at", {"$subtract": ["$$NOW", APART_SECONDS * 1000]}]}
    found = stores.links.find_one_and_update(
        {"sha256": sha256, "$expr": before}, [{"$set": {"started_at": "$$NOW"}}]
    )
    if found is None and stores.links.find_one({"sha256": sha256}, {"_id": 1}):
        raise UsedJustNow
    # One that was being made while its account was removed is there still.
    if found is None or not is_served(stores, found["account"]):
        raise UnknownLink
    return found
