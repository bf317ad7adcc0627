"""Schema conflicts: indexes, validators and views of others that keep the worker from writing.

=========================== ====================================================================
there is                    so
=========================== ====================================================================
an index on the same member MongoDB makes no second one that deletes after some days
the worker's index name, on MongoDB makes no second index of this name
other members
a unique index              a second document of equal values cannot be written: an answer, or a
                            record of a dead request, would be lost
a validator                 it may refuse what the worker writes: it is asked about samples
a view                      nothing can be written into it
=========================== ====================================================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from service.worker.results.change import marked
from service.worker.results.database import Collections, Document, Index, Names, Spec, indexes_for
from service.worker.results.dead import document_of
from service.worker.results.document import begun, content_of, with_attempt
from tracking.call import Attempt, DeadLetter
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.request import MAIN, Number, Slug, TrackingRequest

ID = "_id"
_IDENTITIES = {
    "tracking": frozenset({"slug", "tracking_number"}),
    "unreadable": frozenset({"slug", "number"}),
    "unknown_codes": frozenset({"slug", "code"}),
}
_OF_ACCOUNTS = ("tracking", "unreadable")
_AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_REQUEST = TrackingRequest(Slug("usps"), Number("SAMPLE"), "SAMPLE")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflict, worded for a person. `sure`: it is one; else it may be one."""

    what: str
    fix: str
    sure: bool = True


def schema_conflicts(stores: Collections, names: Names) -> list[Conflict]:
    """List the conflicts in every collection of the worker. Raises PyMongoError."""
    database = stores.tracking.database
    found = {each["name"]: each for each in database.list_collections()}
    conflicts: list[Conflict] = []
    indexes = indexes_for(names) | {"forgotten": (), "refused": ()}
    for attribute, wanted in indexes.items():
        home = stores.named(attribute)
        if home.name not in found:
            continue
        kind = found[home.name].get("type", "collection")
        if kind != "collection":
            what = f"has a {kind} {home.full_name}, where the worker needs a collection"
            conflicts.append(Conflict(what, "Drop it, or name another collection in [mongodb]."))
            continue
        specs = home.index_information()
        identity = _identity(stores, attribute, specs)
        conflicts += _of_indexes(home.full_name, specs, wanted, identity)
        options, samples = found[home.name].get("options", {}), _samples().get(attribute, {})
        conflicts += _of_validator(home, options, samples)
    return conflicts


def _identity(stores: Collections, attribute: str, specs: Mapping[str, Spec]) -> frozenset[str]:
    """Name the members that no two documents of a collection have alike.

    Whose a document is counts only where more accounts than `main` have documents of one parcel.
    """
    identity = _IDENTITIES.get(attribute, frozenset({ID}))
    if any(_is_for_one_account(each, identity) for each in specs.values()) and (
        attribute in _OF_ACCOUNTS and stores.accounts.find_one({ID: {"$ne": MAIN}}, {ID: 1})
    ):
        return identity | {"account"}
    return identity


def of_one_account(parcels: Collection[Document], number: str) -> Iterator[str]:
    """List the unique indexes that let only one account have a document of a parcel, with fixes.

    `number`: the member that holds its number.
    """
    where = parcels.full_name
    for name, spec in parcels.index_information().items():
        if _is_for_one_account(spec, frozenset({"slug", number})):
            what = f"the unique index {name} on {where} lets only one account have a parcel."
            yield f"{what} {_drop(where, name)} Make it again with account as well."


def _is_for_one_account(spec: Spec, identity: frozenset[str]) -> bool:
    members = {member for member, _ in spec["key"]}
    return bool(spec.get("unique")) and identity <= members and "account" not in members


def _of_indexes(
    where: str, specs: Mapping[str, Spec], wanted: Sequence[Index], identity: frozenset[str]
) -> Iterator[Conflict]:
    for name, spec in specs.items():
        members = {member for member, _ in spec["key"]}
        if any(index.unique and index.is_served_by(spec) for index in wanted):
            continue  # the worker's own
        if spec.get("unique") and ID not in members and not identity <= members:
            what = f"has a unique index {name} on {where}: two documents with the same "
            what += f"{' and '.join(sorted(members))} could not be written"
            yield Conflict(what, f"{_drop(where, name)} Make it again without unique.")
    for index in wanted:
        if (own := specs.get(index.name)) and not index.has_keys_of(own):
            what = f"has an index {index.name} on {where} that is not the worker's own: the worker "
            what += f"needs this name for {' and '.join(index.members)}"
            yield Conflict(what, f"{_drop(where, index.name)} Make it again under another name.")
        for name, spec in specs.items() if index.keep_days else ():
            if name != index.name and index.has_keys_of(spec) and not index.is_served_by(spec):
                what = f"has an index {name} on {where}: beside it there can be none that removes "
                what += f"documents {index.keep_days} days after {index.members[0]}"
                yield Conflict(what, f"{_drop(where, name)} The worker makes its own on it.")


def _of_validator(
    home: Collection[Document], options: Mapping[str, Any], samples: Mapping[str, Document]
) -> Iterator[Conflict]:
    validator = options.get("validator")
    lenient = options.get("validationLevel") == "off" or options.get("validationAction") == "warn"
    if not validator or lenient:
        return
    fix = f'Correct it, or remove it: db.getSiblingDB("{home.database.name}").runCommand('
    fix += f'{{collMod: "{home.name}", validator: {{}}}}).'
    try:
        refused = [what for what, each in samples.items() if not _fits(home, each, validator)]
    except OperationFailure:
        samples, refused = {}, []
    if refused:
        what = f"has a validator on {home.full_name} that refuses what the worker writes there: "
        yield Conflict(what + " and ".join(refused), fix)
    elif not samples:
        what = f"has a validator on {home.full_name}, which may refuse documents"
        yield Conflict(what, fix, sure=False)


def _fits(home: Collection[Document], sample: Document, validator: Mapping[str, Any]) -> bool:
    """Ask whether a validator would let a document through; nothing is written."""
    stages: list[Document] = [{"$documents": {"$literal": [sample]}}, {"$match": validator}]
    return bool(list(home.database.aggregate(stages)))


def _samples() -> dict[str, dict[str, Document]]:
    """Documents as the worker writes them, by collection and by what they hold."""
    scan = Checkpoint("2026-01-01T00:00:00", "Arrived", Tag.IN_TRANSIT, "InTransit_001")
    tracking = Tracking(scan.tag, scan.subtag, (scan,))
    answer = begun(_REQUEST, _AT, content_of(tracking)) | {"last_checked_at": _AT}
    answer = with_attempt(answer, Attempt(_AT, "answered", 1, 200))
    letter = DeadLetter("sample", "courier_down", "a sample", b"{}", at=_AT)
    unknown = begun(_REQUEST, _AT, content_of(NOT_FOUND_YET))
    changed, _ = marked(None, answer, _AT)
    return {
        "tracking": {
            "an answer": answer,
            "that a number is not known": unknown,
            "a change that somebody is to hear of": changed,
        },
        "past": {"an earlier parcel": answer | {ID: "usps:SAMPLE:2026-01-01T00:00:00"}},
        "dead": {"a dead request": document_of(letter)},
    }


def _drop(where: str, index: str) -> str:
    database, _, collection = where.partition(".")
    there = f'db.getSiblingDB("{database}").getCollection("{collection}")'
    return f'Drop it: {there}.dropIndex("{index}").'
