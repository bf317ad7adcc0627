"""What others made in the worker's database that keeps it from working: indexes and validators.

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
from pymongo.database import Database
from pymongo.errors import OperationFailure

from service.results.dead import document_of
from service.results.document import Document, begun, content_of, with_attempt
from service.results.indexes import Index, Spec, indexes_for
from service.results.names import ACCOUNTS, FORGOTTEN, REFUSED, UNKNOWN_CODES, Names
from tracking.call import Attempt, DeadLetter
from tracking.checkpoint import NOT_FOUND_YET, Checkpoint, Tag, Tracking
from tracking.request import Number, Slug, TrackingRequest

ID = "_id"
_AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_REQUEST = TrackingRequest(Slug("usps"), Number("SAMPLE"), "SAMPLE")


@dataclass(frozen=True, slots=True)
class Hindrance:
    """One thing that is in the way. `sure`: it is; else it may be, and nobody can tell."""

    what: str
    fix: str
    sure: bool = True


def hindrances(database: Database[Document], names: Names) -> list[Hindrance]:
    """Look at every collection of the worker. Raises PyMongoError."""
    found = {each["name"]: each for each in database.list_collections()}
    told: list[Hindrance] = []
    for name, (wanted, identity) in _needs(names).items():
        if name not in found:
            continue
        where, kind = f"{database.name}.{name}", found[name].get("type", "collection")
        if kind != "collection":
            what = f"has a {kind} {where}, where the worker needs a collection"
            told.append(Hindrance(what, "Drop it, or name another collection in [mongodb]."))
            continue
        specs = database[name].index_information()
        of_parcels = name in (names.tracking, names.unreadable)
        alone = _told_apart(database, specs, identity) if of_parcels else identity
        told += _of_indexes(where, specs, wanted, alone)
        told += _of_validator(database, name, found[name].get("options", {}), names)
    return told


def _needs(names: Names) -> dict[str, tuple[Sequence[Index], frozenset[str]]]:
    """By collection: its indexes, and which members no two documents of `main` have alike."""
    parcel = frozenset({"slug", "tracking_number"})
    identities = {
        names.tracking: parcel,
        names.unreadable: frozenset({"slug", "number"}),
        UNKNOWN_CODES: frozenset({"slug", "code"}),
    }
    indexes = {**indexes_for(names), FORGOTTEN: (), REFUSED: ()}
    return {name: (indexes[name], identities.get(name, frozenset({ID}))) for name in indexes}


def _told_apart(
    database: Database[Document], specs: Mapping[str, Spec], identity: frozenset[str]
) -> frozenset[str]:
    """Add whose a document is, where more accounts than `main` have documents of one parcel."""
    matters = any(_is_for_one_account(each, identity) for each in specs.values())
    others = matters and database[ACCOUNTS].find_one({}, {ID: 1})
    return identity | {"account"} if others else identity


def of_one_account(parcels: Collection[Document], number: str) -> Iterator[str]:
    """Say which unique indexes let only one account have a document of a parcel, and the fix.

    `number`: the member that holds its number.
    """
    where = f"{parcels.database.name}.{parcels.name}"
    for name, spec in parcels.index_information().items():
        if _is_for_one_account(spec, frozenset({"slug", number})):
            what = f"the unique index {name} on {where} lets only one account have a parcel."
            yield f"{what} {_drop(where, name)} Make it again with account as well."


def _is_for_one_account(spec: Spec, identity: frozenset[str]) -> bool:
    members = {member for member, _ in spec["key"]}
    return bool(spec.get("unique")) and identity <= members and "account" not in members


def _of_indexes(
    where: str, specs: Mapping[str, Spec], wanted: Sequence[Index], identity: frozenset[str]
) -> Iterator[Hindrance]:
    for name, spec in specs.items():
        members = {member for member, _ in spec["key"]}
        if spec.get("unique") and ID not in members and not identity <= members:
            what = f"has a unique index {name} on {where}: two documents with the same "
            what += f"{' and '.join(sorted(members))} could not be written"
            yield Hindrance(what, f"{_drop(where, name)} Make it again without unique.")
    for index in wanted:
        if (own := specs.get(index.name)) and not index.has_keys_of(own):
            what = f"has an index {index.name} on {where} that is not the worker's own: the worker "
            what += f"needs this name for {' and '.join(index.members)}"
            yield Hindrance(what, f"{_drop(where, index.name)} Make it again under another name.")
        others = {name: spec for name, spec in specs.items() if name != index.name}
        for name, spec in others.items():
            if index.keep_days and index.has_keys_of(spec) and not index.is_served_by(spec):
                what = f"has an index {name} on {where}: beside it there can be none that removes "
                what += f"documents {index.keep_days} days after {index.members[0]}"
                yield Hindrance(what, f"{_drop(where, name)} The worker makes its own on it.")


def _of_validator(
    database: Database[Document], name: str, options: Mapping[str, Any], names: Names
) -> Iterator[Hindrance]:
    validator = options.get("validator")
    lenient = options.get("validationLevel") == "off" or options.get("validationAction") == "warn"
    if not validator or lenient:
        return
    where = f"{database.name}.{name}"
    fix = f'Correct it, or remove it: db.getSiblingDB("{database.name}").runCommand('
    fix += f'{{collMod: "{name}", validator: {{}}}}).'
    samples = _samples(names).get(name, {})
    try:
        refused = [what for what, each in samples.items() if not _fits(database, each, validator)]
    except OperationFailure:
        samples, refused = {}, []
    if refused:
        what = f"has a validator on {where} that refuses what the worker writes there: "
        yield Hindrance(what + " and ".join(refused), fix)
    elif not samples:
        yield Hindrance(f"has a validator on {where}, which may refuse documents", fix, sure=False)


def _fits(database: Database[Document], sample: Document, validator: Mapping[str, Any]) -> bool:
    """Ask whether a validator would let a document through; nothing is written."""
    stages: list[Document] = [{"$documents": {"$literal": [sample]}}, {"$match": validator}]
    return bool(list(database.aggregate(stages)))


def _samples(names: Names) -> dict[str, dict[str, Document]]:
    """Documents as the worker writes them, by collection and by what they hold."""
    scan = Checkpoint("2026-01-01T00:00:00", "Arrived", Tag.IN_TRANSIT, "InTransit_001")
    tracking = Tracking(scan.tag, scan.subtag, (scan,))
    answer = begun(_REQUEST, _AT, content_of(tracking)) | {"last_checked_at": _AT}
    answer = with_attempt(answer, Attempt(_AT, "answered", 1, 200))
    letter = DeadLetter("sample", "courier_down", "a sample", b"{}", at=_AT)
    return {
        names.tracking: {
            "an answer": answer,
            "that a number is not known": begun(_REQUEST, _AT, content_of(NOT_FOUND_YET)),
        },
        names.past: {"an earlier parcel": answer | {ID: "usps:SAMPLE:2026-01-01T00:00:00"}},
        names.dead: {"a dead request": document_of(letter)},
    }


def _drop(where: str, index: str) -> str:
    database, _, collection = where.partition(".")
    there = f'db.getSiblingDB("{database}").getCollection("{collection}")'
    return f'Drop it: {there}.dropIndex("{index}").'
