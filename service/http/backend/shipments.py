"""Shipments: what an account says of parcels, and asks for by that. For a process that serves.

A request is put before anything is written, so that no shipment is there for which nobody asked;
one that is put and whose shipment is then not written has been asked for once too often. A retrack
counts before it is put, as there may be three, and is uncounted where it cannot be put.
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import msgspec

from service.http.backend.door import Door
from service.operator.catalogue import Catalogue, Sign
from service.operator.put import MissingField, job_of
from service.operator.stored import Stored
from service.worker.results import shipments as collection
from service.worker.results.database import Document, in_thread
from service.worker.results.document import stored_now
from service.worker.results.shipments import Exists, Filters, Position, asked_as, search_of
from tracking.errors import MalformedJob, StoreError
from tracking.request import Account, Number, Slug, account_and_id, operation_id

__all__ = ["Filters", "Position"]

RETRACKS_MOST = 3
"""AfterShip's bound."""

WORDS_MOST = 32_768
"""Bytes that an account may say of a shipment: a page shows 200 of them."""

ENDS: Mapping[str, tuple[str, str]] = {
    "DELIVERED": ("Delivered", "Delivered_001"),
    "LOST": ("Exception", "Exception_013"),
    "RETURNED_TO_SENDER": ("Exception", "Exception_011"),
}
"""What an account may say how a parcel ended: the tag and the subtag that its shipment gets."""

AFTERSHIP_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "tracking_postal_code": "destination_postal_code",
        "tracking_ship_date": "tracking_ship_date",
        "tracking_account_number": "tracking_account_number",
        "tracking_key": "tracking_key",
        "tracking_origin_country": "origin_country_region",
        "tracking_destination_country": "destination_country_region",
        "tracking_state": "destination_state",
    }
)
"""What AfterShip calls the fields of requests now, by the names of `tracking.request.FIELDS`."""

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?!\d)")
_NOW = {"max_age": 0}


class Code(IntEnum):
    """AfterShip's codes for why a shipment is not made or changed, or a request not read."""

    BAD_JSON = 4001
    EXISTS = 4003
    UNKNOWN = 4004
    BAD_NUMBER = 4005
    NO_NUMBER = 4007
    BAD_VALUE = 4008
    NO_VALUE = 4009
    BAD_SLUG = 4010
    MISSING_FIELD = 4011
    BAD_COURIER = 4012
    STILL_ACTIVE = 4013
    BAD_ID = 4015
    RETRACKED = 4016


_CODES = {"bad_slug": Code.BAD_SLUG, "unknown_slug": Code.BAD_SLUG, "bad_number": Code.BAD_NUMBER}


class ShipmentError(Exception):
    """A shipment cannot be made or changed; `other` is the id of the one that is there already."""

    def __init__(self, code: Code, detail: str, other: str = "") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.other = other


class Shipments:
    """All shipments; each method is for one account and raises StoreError.

    Shipments are given as `service.worker.results.shipments.find` finds them, with their parcels.
    """

    def __init__(self, stored: Stored, door: Door, catalogue: Catalogue) -> None:
        self._stores = stored.stores
        self._shipments = stored.stores.shipments
        self._door = door
        self._catalogue = catalogue
        self._prepared = False

    async def find(self, account: Account, identity: str | tuple[str, str]) -> Document:
        """Find one by its id, or by slug and number of its parcel. Raises ShipmentError."""
        if isinstance(identity, tuple):
            parcel = ":".join(self._parcel(dict(zip(("slug", "number"), identity, strict=True))))
            return await self._found({"account": account, "parcel": parcel, "deleted": False})
        return await self._found({"_id": operation_id(account, identity), "account": account})

    async def page(
        self, filters: Filters, most: int, after: Position | None
    ) -> tuple[list[Document], bool]:
        """List shipments, the newest first; tells whether more follow."""
        found = await in_thread(collection.page, self._stores, filters, most + 1, after)
        return found[:most], len(found) > most

    async def count(self, filters: Filters) -> int:
        """Count shipments, up to ten thousand."""
        found: int = await in_thread(collection.count, self._stores, filters)
        return found

    async def create(
        self, account: Account, named: Mapping[str, str], words: Document, traced: str | None
    ) -> Document:
        """Make one, and have its parcel asked for; it is durable then. Raises ShipmentError.

        `named` has the `number` as it was given, and perhaps `slug` and `id`.
        """
        _insist_on_brevity(words)
        if not self._prepared:
            await in_thread(collection.make_indexes, self._shipments)
            self._prepared = True
        slug, number = self._parcel(named)
        await self._insist_on_none(account, slug, number)
        identity = named.get("id") or secrets.token_hex(16)
        await self._ask(account, identity, (slug, number), fields_of(words), traced)
        now = stored_now()
        made = {
            "_id": operation_id(account, identity),
            "account": account,
            "parcel": f"{slug}:{number}",
            "slug": slug,
            "number": number,
            "words": words,
            "search": search_of(number, words),
            "completed": None,
            "deleted": False,
            "retracks": 0,
            "created_at": now,
            "updated_at": now,
        }
        try:
            await in_thread(collection.add, self._shipments, made)
        except Exists as error:
            if error.same_id:
                why = f"The value of id is invalid: another tracking has or had the id {identity}."
                raise ShipmentError(Code.BAD_ID, why) from error
            await self._insist_on_none(account, slug, number)
            why = "Tracking already exists, or was deleted just now: create it again."
            raise ShipmentError(Code.EXISTS, why) from error
        return await self.find(account, identity)

    async def update(self, account: Account, identity: str, slug: str, said: Document) -> Document:
        """Change words of one, None for none; `slug` "" as it is. Raises ShipmentError.

        What its courier is asked with changes by it: then it is asked again.
        """
        asked_for: tuple[object, ...] | None = None
        while True:
            before = await self.find(account, identity)
            words = {k: v for k, v in (before["words"] | said).items() if v is not None}
            _insist_on_brevity(words)
            named = {"slug": slug or before["slug"], "number": before["number"]}
            parcel, fields = self._parcel(named), fields_of(words)
            if parcel != (before["slug"], before["number"]) or any(
                words.get(name) != before["words"].get(name) for name in AFTERSHIP_NAMES.values()
            ):
                if asked_for != (parcel, fields):
                    await self._ask(account, identity, parcel, fields | _NOW)
                asked_for = parcel, fields
            changed = {f"words.{k}": v for k, v in said.items() if v is not None}
            changed |= {"slug": parcel[0], "number": parcel[1], "parcel": ":".join(parcel)}
            changed["search"] = search_of(parcel[1], words)
            gone = {f"words.{k}": "" for k, v in said.items() if v is None}
            made = {"$set": changed | {"updated_at": _after(before)}, "$unset": gone}
            if await self._change(before, made, as_read=True):
                return await self.find(account, identity)

    async def delete(self, account: Account, identity: str) -> Document:
        """Delete one; gives it as it was. Raises ShipmentError: UNKNOWN."""
        before = await self.find(account, identity)
        await self._change(before, collection.deletion(stored_now()))
        return before

    async def complete(
        self, account: Account, identity: str, reason: str, event: str | None
    ) -> Document:
        """Note that its parcel has ended, by a reason of ENDS. Raises ShipmentError: UNKNOWN."""
        before, now = await self.find(account, identity), stored_now()
        tag, subtag = ENDS[reason]
        ended = {"reason": reason, "tag": tag, "subtag": subtag, "at": now, "event": event}
        await self._change(before, {"$set": {"completed": ended, "updated_at": now}})
        return await self.find(account, identity)

    async def retrack(self, account: Account, identity: str) -> Document:
        """Have an ended one asked for again. Raises ShipmentError: UNKNOWN, ACTIVE, RETRACKED."""
        while True:
            before = await self.find(account, identity)
            if before["completed"] is None and (before.get("stored") or {}).get("active", True):
                why = "Retrack is not allowed. You can only retrack an inactive tracking."
                raise ShipmentError(Code.STILL_ACTIVE, why)
            if before["retracks"] >= RETRACKS_MOST:
                why = f"Retrack is not allowed. You can retrack a tracking {RETRACKS_MOST} times."
                raise ShipmentError(Code.RETRACKED, why)
            at = _after(before)
            counted = {"$set": {"completed": None, "updated_at": at}, "$inc": {"retracks": 1}}
            if await self._change(before, counted, as_read=True):
                break
        parcel = before["slug"], before["number"]
        try:
            await self._ask(account, identity, parcel, fields_of(before["words"]) | _NOW)
        except (ShipmentError, StoreError):
            await self._change(before, _uncounted(before, at))
            raise
        return await self.find(account, identity)

    def _parcel(self, named: Mapping[str, str]) -> tuple[Slug, Number]:
        try:
            slug = named.get("slug") or self._likeliest(named["number"])
            return self._catalogue.parcel(slug, named["number"])
        except MalformedJob as error:
            raise _shipment_error(error) from error

    def _likeliest(self, number: str) -> str:
        found = self._catalogue.candidates(number)
        if found and found[0].sign is not Sign.NO_MODULE:
            return found[0].slug
        why = f"it {found[0].meaning}" if found else "no courier's numbers look like this"
        detail = f"The courier of {number[:100]} cannot be detected: {why}. Name its slug."
        raise ShipmentError(Code.BAD_COURIER, detail)

    async def _insist_on_none(self, account: Account, slug: Slug, number: Number) -> None:
        wanted = {"account": account, "parcel": f"{slug}:{number}", "deleted": False}
        found = await in_thread(self._shipments.find_one, wanted, {"_id": 1})
        if found:
            other = found["_id"].rpartition("/")[2]
            raise ShipmentError(Code.EXISTS, f"Tracking already exists: its id is {other}.", other)

    async def _ask(
        self,
        account: Account,
        identity: str,
        parcel: tuple[str, str],
        more: Mapping[str, Any],
        traced: str | None = None,
    ) -> None:
        """Put a request; it is durable then. Raises ShipmentError, SpoolDown."""
        name = account_and_id(asked_as(operation_id(account, identity)))[1] + secrets.token_hex(4)
        payload = {"slug": parcel[0], "number": parcel[1], "id": name, **more}
        try:
            put = job_of(payload, self._catalogue, account, traced)
        except MalformedJob as error:
            raise _shipment_error(error) from error
        await self._door.take([put])

    async def _found(self, wanted: Document) -> Document:
        found: Document | None = await in_thread(collection.find, self._stores, wanted)
        if found is None:
            raise ShipmentError(Code.UNKNOWN, "Tracking does not exist.")
        return found

    async def _change(
        self, before: Document, made: Document | list[Document], *, as_read: bool = False
    ) -> bool:
        """Change one; `as_read`: false where it was changed meanwhile. Raises ShipmentError."""
        same = ("_id", "retracks", "updated_at") if as_read else ("_id",)
        wanted = {name: before[name] for name in same}
        try:
            done: bool = await in_thread(collection.change, self._shipments, wanted, made)
        except Exists as error:
            why = "Tracking already exists: another one of yours has this slug and number."
            raise ShipmentError(Code.EXISTS, why) from error
        if not (done or as_read):
            raise ShipmentError(Code.UNKNOWN, "Tracking does not exist.")
        return done


def _uncounted(before: Document, at: dt.datetime) -> list[Document]:
    """Take back a retrack that was counted `at`; what others changed since stays."""
    since = {"$ne": ["$updated_at", at]}
    completed = {"$cond": [since, "$completed", {"$literal": before["completed"]}]}
    return [{"$set": {"retracks": {"$subtract": ["$retracks", 1]}, "completed": completed}}]


def _insist_on_brevity(words: Document) -> None:
    if len(msgspec.json.encode(words)) > WORDS_MOST:
        why = f"The values of a tracking are invalid: say {WORDS_MOST} bytes of JSON at most."
        raise ShipmentError(Code.BAD_VALUE, why)


def _shipment_error(error: MalformedJob) -> ShipmentError:
    """Say why a request for its parcel would not be taken."""
    if isinstance(error, MissingField):
        named = AFTERSHIP_NAMES[error.name]
        why = (
            f"Missing the required field for this courier. Besides tracking_number, also: {named}."
        )
        return ShipmentError(Code.MISSING_FIELD, why)
    return ShipmentError(_CODES.get(error.reason, Code.BAD_VALUE), error.detail)


def _after(before: Document) -> dt.datetime:
    """Give a change its time: later than the last one, so that no two have the same."""
    last: dt.datetime = before["updated_at"]
    return max(stored_now(), last + dt.timedelta(milliseconds=1))


def fields_of(words: Mapping[str, Any]) -> dict[str, str]:
    """Take what a courier may want besides the number out of what AfterShip calls otherwise."""
    fields = {ours: words[theirs] for ours, theirs in AFTERSHIP_NAMES.items() if words.get(theirs)}
    if day := _DAY.match(fields.get("tracking_ship_date", "")):
        fields["tracking_ship_date"] = "".join(day.groups())
    return fields
