"""Imports: tables of parcels that somebody uploaded to a page, and what became of each row.

They stand in `imports` for some days. A table is put before its page shows it; what its rows wait
for since then is looked up in what is stored of their parcels, so nothing has to be kept running.

======== =======================================================================================
member   is
======== =======================================================================================
`_id`    random
account  whose it is
name     of the file, as its sender called it
made_at  when it came
until    MongoDB deletes it then
put      how many of its good rows were put: all, unless the door failed
rows     of each: `row`, `slug`, `number` and `given` as they were written, `parcel` and
         `operation` of one that was put or is to be, and `why` of one that nobody would take
======== =======================================================================================
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from service.operator.catalogue import Catalogue, Sign
from service.operator.connections import Collections
from service.operator.parcels import written
from service.operator.put import Bad, Row, Sendable, jobs_of_rows
from service.operator.tables import BadTable, csv_rows
from service.worker.results.database import Document
from service.worker.results.dead import newest_records
from service.worker.results.document import document_id, stored_now
from tracking.errors import MalformedJob, NotDone
from tracking.request import Account

ROWS_MOST = 5_000
KEPT_MOST = 50
"""Imports of one account; the oldest go first."""

KEEP = dt.timedelta(days=7)
CLOCKS_APART = dt.timedelta(minutes=1)
"""A stored answer that is so much older will do for a request, and clocks differ."""

WAITS = "waits"
COLUMNS = ("row", "given", "slug", "number", "outcome", "detail", "checked_at")


class UnknownImport(NotDone):
    """There is no such import of this account, or it is over for long."""


class Table(NamedTuple):
    """A table that was read: its requests, and what is to be kept of each row."""

    jobs: list[Sendable]
    rows: list[Document]


class Outcome(NamedTuple):
    """What became of a row: `outcome` is a tag, "waits", "failed" or "refused"; `why` says more."""

    row: Mapping[str, Any]
    outcome: str
    why: str
    at: dt.datetime | None

    @property
    def is_over(self) -> bool:
        """Whether it is answered, or will not be."""
        return self.outcome != WAITS


@dataclass(frozen=True, slots=True)
class Import:
    """An import as it stands; `left_from`: the first row that was not put, None where all were."""

    id: str
    name: str
    made_at: dt.datetime
    outcomes: Sequence[Outcome]
    left_from: int | None

    @property
    def over(self) -> int:
        """How many rows are over."""
        return sum(each.is_over for each in self.outcomes)

    def counts(self) -> Mapping[str, int]:
        """Count the rows by their outcomes."""
        found: dict[str, int] = {}
        for each in self.outcomes:
            found[each.outcome] = found.get(each.outcome, 0) + 1
        return dict(sorted(found.items()))


def read(body: bytes, name: str, slug: str, catalogue: Catalogue, account: Account) -> Table:
    """Read a table; `slug` is the courier of rows that name none, "" has it detected.

    Raises BadTable.
    """
    try:
        lines = iter(body.decode("utf-8-sig").splitlines(keepends=True))
    except UnicodeDecodeError as error:
        raise BadTable(f"{name} is not UTF-8; save it as CSV UTF-8") from error
    rows: dict[int, Row] = {}
    for each in csv_rows(lines, name, has_slug=True):
        if len(rows) == ROWS_MOST:
            raise BadTable(f"{name} has more than {ROWS_MOST:,} rows: upload it in parts")
        texts = {"slug": slug} | {key: text for key, text in each.texts.items() if text}
        rows[each.index] = replace(each, texts=texts)
    if not rows:
        raise BadTable(f"{name} holds no request: write one per row below a header like number")
    detected = [_with_courier(each, catalogue) for each in rows.values()]
    jobs: list[Sendable] = []
    kept = {index: _row_of(each) for index, each in rows.items()}
    for made in jobs_of_rows(detected, catalogue, account):
        if isinstance(made, Bad):
            kept[made.index]["why"] = made.why
        else:
            jobs.append(made)
            parcel = {"parcel": f"{made.slug}:{made.number}", "operation": made.id}
            kept[made.row] |= {"slug": made.slug, "number": made.number, **parcel}
    return Table(jobs, list(kept.values()))


def _row_of(row: Row) -> Document:
    return {"row": row.index, "given": row.texts.get("number", "")[:200], "slug": "", "number": ""}


def _with_courier(row: Row, catalogue: Catalogue) -> Row:
    """Fill in the likeliest courier, where its numbers look like this and not by chance."""
    if row.texts["slug"]:
        return row
    try:
        found = catalogue.candidates(row.texts.get("number", ""))
    except MalformedJob:
        return row
    sure = [each for each in found[:1] if each.sign <= Sign.FORM]
    return replace(row, texts=row.texts | {"slug": sure[0].slug}) if sure else row


def begin(stores: Collections, account: Account, name: str, table: Table) -> str:
    """Keep a table that is about to be put; gives its id. Raises PyMongoError."""
    stores.imports.create_index("until", expireAfterSeconds=0)
    stores.imports.create_index(["account", "made_at"])
    stores.imports.create_index("rows.parcel")
    own = stores.imports.find({"account": account}, {"_id": 1}).sort("made_at", -1)
    gone = [each["_id"] for each in own.skip(KEPT_MOST - 1)]
    if gone:
        stores.imports.delete_many({"_id": {"$in": gone}})
    now = stored_now()
    made = {
        "_id": secrets.token_urlsafe(12),
        "account": account,
        "name": name[:200],
        "made_at": now,
        "until": now + KEEP,
        "put": 0,
        "rows": table.rows,
    }
    stores.imports.insert_one(made)
    return str(made["_id"])


def note_put(stores: Collections, identity: str, count: int) -> None:
    """Note how many requests of an import are durable. Raises PyMongoError."""
    stores.imports.update_one({"_id": identity}, {"$set": {"put": count}})


def listed(stores: Collections, account: Account) -> list[Document]:
    """List an account's imports, the newest first, without their rows. Raises PyMongoError."""
    return list(stores.imports.find({"account": account}, {"rows": 0}).sort("made_at", -1))


def find(stores: Collections, account: Account, identity: str) -> Import:
    """Find an import, and what became of its rows. Raises UnknownImport, PyMongoError."""
    kept = stores.imports.find_one({"_id": identity, "account": account})
    if kept is None:
        raise UnknownImport("there is no such import, or it is over for long")
    good = [each for each in kept["rows"] if "parcel" in each]
    put = good[: kept["put"]]
    names = [document_id(each["parcel"], account) for each in put]
    since = kept["made_at"] - CLOCKS_APART
    members = ["tag", "error", "last_checked_at"]
    stored = {each["_id"]: each for each in stores.tracking.find({"_id": {"$in": names}}, members)}
    found = {
        each["operation"]: outcome
        for each, name in zip(put, names, strict=True)
        if (outcome := _answered(each, stored.get(name), since))
    }
    left = [each["operation"] for each in put if each["operation"] not in found]
    dead = newest_records(stores.dead, left) if left else {}
    outcomes = [
        found.get(each.get("operation", "")) or _open(each, dead.get(each.get("operation", "")))
        for each in kept["rows"]
    ]
    first = good[kept["put"]]["row"] if kept["put"] < len(good) else None
    return Import(identity, kept["name"], kept["made_at"], outcomes, first)


def _answered(row: Document, stored: Document | None, since: dt.datetime) -> Outcome | None:
    if stored is None:
        return None
    error, checked = stored.get("error"), stored.get("last_checked_at")
    if error and error["at"] >= since:
        return Outcome(row, "failed", f"{error['code']}: {error['message']}", error["at"])
    if checked and checked >= since:
        return Outcome(row, str(stored.get("tag")), "", checked)
    return None


def _open(row: Document, dead: Document | None) -> Outcome:
    if "why" in row:
        return Outcome(row, "refused", row["why"], None)
    if dead is not None:
        return Outcome(row, "failed", f"{dead['reason']}: {dead['detail']}", dead["at"])
    return Outcome(row, WAITS, "", None)


def report(found: Import) -> Iterator[str]:
    """Write the report of an import as CSV, row by row."""
    yield written([COLUMNS])
    for each in found.outcomes:
        row, at = each.row, each.at.isoformat() if each.at else ""
        place = (str(row["row"]), row["given"], row["slug"], row["number"])
        yield written([(*place, each.outcome, each.why, at)])
