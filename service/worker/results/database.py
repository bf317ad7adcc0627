"""The MongoDB database: its address, its collections with their names, and their indexes."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import bson
import pymongo
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import ASCENDING, IndexModel, MongoClient, UpdateOne, WriteConcern
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, PyMongoError, WriteError

from service.config.schema import Config
from service.observe.events import Event
from service.observe.log import emit
from service.worker.results.failure import faults_in, faults_of, mongodb_down, refuses_writes

T = TypeVar("T")
Document = dict[str, Any]

UNBOUNDED_SECONDS = 0.0
"""For `pymongo.timeout`: as long as it takes. None would be what the client has for all."""

DAY_SECONDS = 86_400
CODE_KEEP_DAYS = 90
MAILS_KEEP_DAYS = 30
USERS_KEEP_DAYS = 30
INBOX_KEEP_DAYS_MOST = 90
"""How long an account may have relayed requests kept after their end."""

SPARE_DAYS = 30
"""By so much later MongoDB itself deletes deliveries of which no process purges any."""

KEEP_DAYS_INDEX, KEEP_TOLD_INDEX = "keep_days", "keep_days_told"
"""Names of their own: no index that was made for reading must ever begin to delete."""

_CHECKS = ("active_1_slug_1_next_check_at_1", "active_1_slug_1_check_pace_1_next_check_at_1")
OF_BEFORE = frozenset({"next_check_at_1", *_CHECKS, "tag_1_slug_1", KEEP_DAYS_INDEX})
"""Of `tracking`, when couriers took no turns, when their checks had no paces, when nobody listed an
account's parcels, and when nobody heard of changes."""

BY_UPDATE = ("account", "tag", "updated_at", "_id")
BY_CREATION = ("account", "created_at", "_id")
"""The indexes of `tracking` by which an account's parcels are listed and counted."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Before any check: an index on dates alone needs a bound to compare with."""

HAS_EXCERPT: Mapping[str, Any] = {"attempts.excerpt": {"$gt": ""}}
"""Documents with an attempt that quotes an answer: those of failures."""

LIVE: Mapping[str, Any] = {"live": True}
"""Services that are not deleted."""

MADE: Mapping[str, Any] = {"made_as": {"$gt": ""}}
"""Services that were made by somebody, and no test."""

OF_RELAYS: Mapping[str, Any] = {"type": "relay.request"}
"""Deliveries of what other systems sent to a relay (EventName.RELAY_REQUEST)."""

FAILED: Mapping[str, Any] = {"failure": {"$gt": ""}}
"""Attempts that were not answered by 2xx."""

WITHOUT_WORDS: Mapping[str, Any] = {**OF_RELAYS, "words": None}
"""Those that no search by words finds yet."""

UNTOLD = "untold"
"""The member of a parcel's document with the changes that nobody has told of yet (change.py)."""

HAS_UNTOLD: Mapping[str, Any] = {f"{UNTOLD}.at": {"$gt": EPOCH}}
NONE_UNTOLD: Mapping[str, Any] = {UNTOLD: None}
"""Documents that have such changes, and those that have none."""

Refusal = tuple[str, str]
"""The `_id` of a document, and why MongoDB refuses it."""

Spec = Mapping[str, Any]
"""What MongoDB tells of an index that is there."""


@dataclass(frozen=True, slots=True)
class Names:
    """The address, the names that [mongodb] gives to collections, and how long documents are kept.

    `dead_keep_days` until TTL removal, of dead requests and of unreadable answers. After the end:
    `results_keep_days` of a parcel (0 for never), `operations_keep_days` of an operation,
    `deliveries_keep_days` of a delivery, `inbox_keep_days` of that of a relayed request, where its
    account has no days of its own. `excerpt_days` for what attempts quote, `attempts_keep_days`.
    """

    uri: str
    database: str = "bucket"
    tracking: str = "tracking"
    past: str = "tracking_past"
    dead: str = "dead"
    unreadable: str = "unreadable"
    dead_keep_days: int = 30
    results_keep_days: int = 0
    operations_keep_days: int = 90
    excerpt_days: int = 30
    deliveries_keep_days: int = 30
    attempts_keep_days: int = 30
    inbox_keep_days: int = 30


def names_of(config: Config) -> Names:
    """Read the names out of the configuration."""
    return Names(
        uri=config.mongodb.uri,
        database=config.mongodb.database,
        tracking=config.mongodb.collection,
        past=config.mongodb.past_collection,
        dead=config.mongodb.dead_collection,
        unreadable=config.mongodb.unreadable_collection,
        dead_keep_days=config.dead.keep_days,
        results_keep_days=config.results.keep_days,
        operations_keep_days=config.operations.keep_days,
        excerpt_days=config.results.excerpt_days,
        deliveries_keep_days=config.webhooks.keep_days,
        attempts_keep_days=config.webhooks.attempts_keep_days,
        inbox_keep_days=config.webhooks.inbox_keep_days,
    )


class Collections:
    """Every collection of the database, on an open client.

    A collection has the name of its attribute, unless `Names` has another name for it.
    """

    tracking: Collection[Document]
    """One document per account, slug and number."""
    past: Collection[Document]
    """Documents of `tracking` whose number was used again."""
    dead: Collection[Document]
    """Requests that nobody will answer, with their reasons."""
    unreadable: Collection[Document]
    """The newest answer about a number that could not be read."""
    unknown_codes: Collection[Document]
    """How often couriers gave status codes that have no meaning here."""
    trials: Collection[Document]
    forgotten: Collection[Document]
    """Which parcels were forgotten lately."""
    operations: Collection[Document]
    """Operations that ended."""
    refused: Collection[Document]
    """Documents that MongoDB does not take where they belong."""
    statistics: Collection[Document]
    """What happened, day by day."""
    limits: Collection[Document]
    """What operators set of couriers' limits."""
    accounts: Collection[Document]
    keys: Collection[Document]
    audit: Collection[Document]
    shipments: Collection[Document]
    """What accounts say of parcels."""
    links: Collection[Document]
    imports: Collection[Document]
    """Tables that accounts uploaded, and their rows."""
    services: Collection[Document]
    """Destinations of webhooks."""
    events: Collection[Document]
    """Bodies of events, each once."""
    deliveries: Collection[Document]
    """Events on their way to services."""
    attempts: Collection[Document]
    relay_values: Collection[Document]
    """Values of a day by which relays know a request that they had."""
    alerts: Collection[Document]
    """What people were alerted of and is not resolved."""
    mails: Collection[Document]
    """Mails that wait, and those of the last days that were sent."""
    users: Collection[Document]
    sessions: Collection[Document]
    invitations: Collection[Document]
    """Links that let somebody choose a password, once."""
    login_attempts: Collection[Document]

    def __init__(
        self, client: MongoClient[Document], names: Names, wtimeout: int | None = None
    ) -> None:
        """Open all; nothing is asked yet. A majority confirms each write, in `wtimeout` ms."""
        self.client = client
        database = client.get_database(
            names.database,
            # Else one date that Python cannot hold would fail all that is read together with it.
            codec_options=CodecOptions(
                tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO
            ),
            write_concern=WriteConcern(w="majority", wtimeout=wtimeout),
        )
        for attribute in Collections.__annotations__:
            setattr(self, attribute, database[getattr(names, attribute, attribute)])

    def named(self, attribute: str) -> Collection[Document]:
        """Give the collection of an attribute, as `indexes_for` names it."""
        collection: Collection[Document] = getattr(self, attribute)
        return collection


def open_client(uri: str, **options: Any) -> MongoClient[Document]:
    """Make a client, which connects when it is first asked, and does not hold up a process' end.

    Raises ResultsDown: the driver reads the address at once, and the files that it names.
    """
    atexit.unregister(pymongo.synchronous.monitor._shutdown_resources)  # noqa: SLF001 - no option
    try:
        return MongoClient(uri, **options)
    except (PyMongoError, ValueError, OSError) as error:
        raise mongodb_down(error) from error


async def in_thread(step: Callable[..., T], *args: Any) -> T:
    """Run a step that asks MongoDB in a thread. Raises ResultsDown."""
    try:
        return await asyncio.to_thread(step, *args)
    except PyMongoError as error:
        raise mongodb_down(error) from error


@dataclass(frozen=True, slots=True)
class Index:
    """One index, ascending in its `members`.

    `keep_days`: documents go so long after the date in its one member; 0: none ever goes, so the
    index is not to be there; None: it is for questions, and removes nothing. `until`: they go at
    that date.
    """

    members: tuple[str, ...]
    partial: Mapping[str, Any] | None = None
    keep_days: int | None = None
    own_name: str = ""
    unique: bool = False
    until: bool = False

    @property
    def name(self) -> str:
        """By default what MongoDB itself would call it."""
        return self.own_name or "_".join(f"{member}_{ASCENDING}" for member in self.members)

    def has_keys_of(self, spec: Spec) -> bool:
        """Whether an index that is there has the same members, for the same documents."""
        keys = [(member, ASCENDING) for member in self.members]
        partial = spec.get("partialFilterExpression") or {}
        # As BSON: whether a date has a zone in Python depends on who read it.
        same = bson.encode(partial) == bson.encode(self.partial or {})
        return list(spec["key"]) == keys and same and "collation" not in spec

    @property
    def _keeps(self) -> int | None:
        """For how many seconds after that date."""
        return 0 if self.until else self.keep_days and self.keep_days * DAY_SECONDS

    def is_served_by(self, spec: Spec) -> bool:
        """Whether an index that is there does the same, whatever it is called."""
        return (
            self.has_keys_of(spec)
            and not spec.get("sparse")
            and bool(spec.get("unique")) >= self.unique
            and spec.get("expireAfterSeconds") == self._keeps
        )

    def model(self) -> IndexModel:
        """What MongoDB makes."""
        options: dict[str, Any] = {"unique": True} if self.unique else {}
        if self._keeps is not None:
            options["expireAfterSeconds"] = self._keeps
        if self.partial is not None:
            options["partialFilterExpression"] = self.partial
        keys = [(member, ASCENDING) for member in self.members]
        return IndexModel(keys, name=self.name, **options)


def _webhooks(names: Names) -> Mapping[str, Sequence[Index]]:
    sent = Index(("ended_at",), None, MAILS_KEEP_DAYS)
    return {
        "services": (
            # Of two who make the same at once MongoDB refuses one: a name, a place among those that
            # an account may have, and among those that it may make in a day.
            Index(("account", "name"), LIVE, unique=True),
            Index(("account", "slot"), LIVE, unique=True),
            Index(("account", "made_as"), MADE, unique=True),
            # For what asks for an account's, also each reply that tells of an end.
            Index(("account", "name", "state")),
            # For processes, which read all but those of which nothing is left.
            Index(("cleared_at",)),
        ),
        "events": (Index(("until",), until=True),),
        "deliveries": (
            # For the filler: what is due, the head of an ordered service, another one as a probe.
            Index(("service", "state", "next_at", "_id")),
            Index(("service", "state", "made_at", "_id")),
            # For the lists of people.
            Index(("account", "made_at", "_id")),
            Index(("parcel", "account")),
            # For the same lists of relayed requests: all, by words, by the status of an attempt.
            Index(("account", "made_at", "_id"), OF_RELAYS, own_name="inbox"),
            Index(("service", "words", "made_at", "_id"), OF_RELAYS, own_name="inbox_words"),
            Index(("service", "status", "made_at", "_id"), OF_RELAYS, own_name="inbox_status"),
            Index(("made_at",), WITHOUT_WORDS, own_name="inbox_new"),
            # For the purge, which ends them a few at a time. Only what is over has this date.
            Index(("type", "account", "ended_at")),
            Index(("ended_at",), None, _longest_days(names) + SPARE_DAYS),
        ),
        "attempts": (
            Index(("at",), None, names.attempts_keep_days),
            Index(("service", "at"), FAILED, own_name="failed"),
        ),
        "relay_values": (Index(("until",), until=True),),
        "mails": (Index(("ended_at", "next_at")), Index(("account", "made_at")), sent),
    }


def _longest_days(names: Names) -> int:
    return max(names.deliveries_keep_days, names.inbox_keep_days, INBOX_KEEP_DAYS_MOST)


def indexes_for(names: Names) -> dict[str, Sequence[Index]]:
    """The indexes of every collection, by its attribute in `Collections`."""
    return {
        "tracking": _of_tracking(names),
        "past": (
            Index(("slug", "tracking_number")),
            Index(("updated_at",), None, names.results_keep_days, KEEP_DAYS_INDEX),
            Index(("attempts.at",), HAS_EXCERPT),
        ),
        "dead": (
            Index(("slug", "reason")),
            Index(("reason",)),
            Index(("operations",)),
            Index(("at",), None, names.dead_keep_days),
            # Listed page by page, the newest first.
            Index(("at", "_id")),
        ),
        # There are few, so they are searched without an index.
        "unreadable": (Index(("at",), None, names.dead_keep_days),),
        # By id they are found by `_id`. Purge ends them, a few at a time: MongoDB itself would
        # delete those of a minute at once.
        "operations": (Index(("slug", "number", "admitted_at")), Index(("finished_at",))),
        "links": (Index(("sha256",)), Index(("account", "_id")), Index(("slug", "number"))),
        "unknown_codes": (Index(("last_seen",), None, CODE_KEEP_DAYS),),
        **_webhooks(names),
        "users": (Index(("account",)), Index(("ended_at",), None, USERS_KEEP_DAYS)),
        "sessions": (Index(("ends_at",), until=True),),
        "invitations": (Index(("sha256",)), Index(("ends_at",), until=True)),
        "login_attempts": (Index(("until",), until=True),),
    }


def _of_tracking(names: Names) -> Sequence[Index]:
    return (
        # For re-checks.
        Index(
            ("active", "slug", "check_pace", "next_check_at", "_id"),
            {"active": True, "next_check_at": {"$gt": EPOCH}},
        ),
        # A reader pages through many parcels of one instant (examples/read_changes.py).
        Index(("updated_at", "_id")),
        Index(BY_UPDATE),
        Index(BY_CREATION),
        # Overdue ones.
        Index(("account", "expected_delivery"), {"active": True, "expected_delivery": {"$gt": ""}}),
        Index(
            ("updated_at",),
            {"active": False, **NONE_UNTOLD},
            names.results_keep_days,
            KEEP_TOLD_INDEX,
        ),
        Index(("attempts.at",), HAS_EXCERPT),
        Index((f"{UNTOLD}.at",), HAS_UNTOLD),
    )


def change_each(
    collection: Collection[Document],
    wanted: Document,
    change: Document,
    filters: list[Mapping[str, Any]] | None = None,
) -> tuple[int, list[Refusal]]:
    """Change documents, asked for by `_id` and more: how many changed, and which are refused.

    A refused document stays as it is, and ends what MongoDB does in one command: then each is
    changed alone. Raises PyMongoError.
    """
    try:
        done = collection.update_many(wanted, change, array_filters=filters, hint="_id_")
    except WriteError as error:
        if refuses_writes(error):
            raise
        names = wanted["_id"]["$in"]
        alone = [
            UpdateOne({**wanted, "_id": each}, change, array_filters=filters) for each in names
        ]
        try:
            return collection.bulk_write(alone, ordered=False).modified_count, []
        except BulkWriteError as faults:
            refused = faults_in(faults).refused.items()
            return faults.details["nModified"], [(names[index], why) for index, why in refused]
    return done.modified_count, []


def upsert_each(collection: Collection[Document], changes: Mapping[str, Document]) -> list[Refusal]:
    """Change documents by `_id`, or make them; tells which are refused. Raises PyMongoError."""
    names = list(changes)
    if not names:
        return []
    wanted = [UpdateOne({"_id": each}, changes[each], upsert=True) for each in names]
    faults = faults_of(partial(collection.bulk_write, wanted, ordered=False))
    return [(names[index], why) for index, why in faults.refused.items()]


def log_refused(collection: Collection[Document], refused: Iterable[Refusal]) -> None:
    """Log the documents that MongoDB does not take into a collection."""
    for name, why in refused:
        emit(Event.REFUSED_DOCUMENT, collection=collection.name, document=str(name), error=why)


def make_indexes(collection: Collection[Any], wanted: Sequence[Index]) -> None:
    """Make what is missing, and follow settings that changed. Repeating it changes nothing."""
    found = collection.index_information()
    missing: list[IndexModel] = []
    for index in wanted:
        if index.keep_days is not None and index.name in found:
            _expire(collection, index, found[index.name])
        elif index.keep_days != 0 and not any(map(index.is_served_by, found.values())):
            missing.append(index.model())
    if missing:
        # In one command, as each waits for the disk. Over millions of documents it takes minutes.
        with pymongo.timeout(UNBOUNDED_SECONDS):
            collection.create_indexes(missing)
    for name in found.keys() & OF_BEFORE - {index.name for index in wanted}:
        collection.drop_index(name)


def _expire(collection: Collection[Any], index: Index, spec: Spec) -> None:
    """Have documents deleted after the days of the setting, those that are there already too."""
    days = index.keep_days or 0
    if not days:
        collection.drop_index(index.name)
    elif spec.get("expireAfterSeconds") != days * DAY_SECONDS:
        change = {"name": index.name, "expireAfterSeconds": days * DAY_SECONDS}
        collection.database.command("collMod", collection.name, index=change)
