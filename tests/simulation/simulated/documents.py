"""A collection of a MongoDB in memory: as much of one as the code asks that runs on virtual time.

Documents are never changed in place: what was found stays as it was. Each question is done at once,
and what is asked in a form that is not known here says so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from service.worker.results.database import Document

OPTIONS = bson.CodecOptions[Document](tz_aware=True)
DUPLICATE_KEY = 11000
REMOVED = object()


class Database(dict[str, "Documents"]):
    """Collections by their names. None of its servers stands alone: a majority has all of it."""

    client = SimpleNamespace(topology_description=SimpleNamespace(server_descriptions=dict))

    def get_collection(self, name: str, **_: object) -> Documents:
        return self[name]


class Documents:
    """One collection of a database."""

    def __init__(
        self, name: str, database: Database, stored: dict[str, Document] | None = None
    ) -> None:
        self.name = name
        self.database = database
        self.write_concern = None
        self.stored: dict[str, Document] = {} if stored is None else stored

    def with_options(self, **_: object) -> Documents:
        return self

    def find(self, wanted: Mapping[str, Any] | None = None, _: object = None, **how: Any) -> Found:
        found = Found(self._fitting(wanted or {}))
        return found.sort(how.get("sort") or [("_id", 1)]).limit(how.get("limit", 0))

    def find_one(self, wanted: Mapping[str, Any], _: object = None, **how: Any) -> Document | None:
        return next(iter(self.find(wanted, **how, limit=1)), None)

    def count_documents(self, wanted: Mapping[str, Any], *, limit: int = 0, **_: object) -> int:
        return len(self.find(wanted, limit=limit))

    def insert_many(self, documents: Iterable[Any], *, ordered: bool) -> None:
        assert not ordered
        known = []
        for index, each in enumerate(documents):
            document = bson.decode(each.raw, OPTIONS) if isinstance(each, RawBSONDocument) else each
            if document["_id"] in self.stored:
                known.append({"index": index, "code": DUPLICATE_KEY, "errmsg": "it is there"})
            else:
                self.stored[document["_id"]] = document
        if known:
            raise BulkWriteError({"writeErrors": known, "writeConcernErrors": []})

    def update_one(
        self, wanted: Mapping[str, Any], change: Any, *, upsert: bool = False
    ) -> SimpleNamespace:
        return self._update(self.find(wanted, limit=1), wanted, change, upsert=upsert)

    def update_many(self, wanted: Mapping[str, Any], change: Any, **_: object) -> SimpleNamespace:
        return self._update(self.find(wanted), wanted, change)

    def bulk_write(self, writes: Sequence[UpdateOne], *, ordered: bool) -> SimpleNamespace:
        assert not ordered
        matched = 0
        for each in writes:
            wanted, change, upsert = each._filter, each._doc, each._upsert  # noqa: SLF001 - it has no other way out
            matched += self.update_one(wanted, change, upsert=bool(upsert)).matched_count
        return SimpleNamespace(matched_count=matched)

    def find_one_and_update(
        self, wanted: Mapping[str, Any], change: Any, _: object = None, **how: Any
    ) -> Document | None:
        assert how["return_document"], "as it is afterwards"
        found = self.find(wanted, limit=1)
        self._update(found, wanted, change, upsert=how.get("upsert", False))
        return self.stored[found[0]["_id"]] if found else self.find_one(wanted)

    def delete_many(self, wanted: Mapping[str, Any]) -> None:
        for each in self.find(wanted):
            del self.stored[each["_id"]]

    def aggregate(self, stages: Sequence[Mapping[str, Any]]) -> list[Document]:
        """`$match`, `$limit`, `$group` by one member, and `$lookup` of what belongs to each."""
        found: list[Document] = list(self.stored.values())
        for stage in stages:
            ((how, what),) = stage.items()
            match how:
                case "$match":
                    found = [each for each in found if fits(each, what)]
                case "$limit":
                    found = found[:what]
                case "$project":
                    pass  # nobody minds more
                case "$group":
                    member = what["_id"].removeprefix("$")
                    groups = {each.get(member) for each in found}
                    found = [{"_id": each} for each in sorted(groups, key=str)]
                case "$lookup":
                    found = [each | {what["as"]: self._looked_up(each, what)} for each in found]
                case _:
                    raise NotImplementedError(how)
        return found

    def _looked_up(self, document: Document, what: Mapping[str, Any]) -> list[Document]:
        theirs = {what["foreignField"]: document[what["localField"]]}
        stages = [{"$match": theirs}, *what["pipeline"]]
        return self.database[what["from"]].aggregate(stages)

    def _fitting(self, wanted: Mapping[str, Any]) -> Iterator[Document]:
        match wanted.get("_id"):
            case str(name):
                some: Iterable[Any] = (self.stored.get(name),)
            case {"$in": names}:
                some = map(self.stored.get, dict.fromkeys(names))
            case _:
                some = self.stored.values()
        return (each for each in some if each is not None and fits(each, wanted))

    def _update(
        self, found: Found, wanted: Mapping[str, Any], change: Any, *, upsert: bool = False
    ) -> SimpleNamespace:
        for each in found:
            self.stored[each["_id"]] = _changed(each, change)
        if upsert and not found:
            new = _changed(dict(wanted), change, is_new=True)
            self.stored[new["_id"]] = new
        return SimpleNamespace(matched_count=len(found), modified_count=len(found))


class Found(list[Document]):
    """What was found, all at once."""

    def sort(self, by: Any, direction: int = 1) -> Found:  # type: ignore[override] # as a cursor
        keys = [(by, direction)] if isinstance(by, str) else by
        for name, way in reversed(keys):
            super().sort(key=lambda document, name=name: document[name], reverse=way < 0)
        return self

    def limit(self, most: int) -> Found:
        return Found(self[:most]) if most else self

    def batch_size(self, _: int) -> Found:
        return self

    def close(self) -> None:
        """Keep nothing open: nothing is."""


def fits(document: Document, wanted: Mapping[str, Any]) -> bool:
    """Whether all holds."""
    for name, value in wanted.items():
        if name == "$or":
            if not any(fits(document, each) for each in value):
                return False
            continue
        found = _values(document, name.split(".")) or [None]
        tests = value.items() if isinstance(value, dict) else [("$eq", value)]
        if not all(_holds(found, how, than) for how, than in tests):
            return False
    return True


def _values(value: Any, path: Sequence[str]) -> list[Any]:
    """What stands at a path; of a list what stands there in each of its elements."""
    if not path:
        return [value]
    name, *rest = path
    if isinstance(value, list):
        if name.isdigit():
            return [found for each in value[int(name) :][:1] for found in _values(each, rest)]
        return [found for each in value for found in _values(each, path)]
    return _values(value[name], rest) if isinstance(value, dict) and name in value else []


COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _holds(found: Sequence[Any], how: str, than: Any) -> bool:
    """Compare as MongoDB does: nothing is greater or less than null, and missing is null."""
    match how:
        case "$exists":
            return any(each is not None for each in found) is than
        case "$eq" | "$ne":
            return (than in found) is (how == "$eq")
        case "$in" | "$nin":
            return any(each in than for each in found) is (how == "$in")
    return any(each is not None and COMPARE[how](each, than) for each in found)


def _changed(document: Document, change: Any, *, is_new: bool = False) -> Document:
    """As it is after a change, which is one of operators or a pipeline of `$set`."""
    if isinstance(change, list):
        for stage in change:
            values = {name: _value(each, document) for name, each in stage["$set"].items()}
            document = document | values
            document = {name: each for name, each in document.items() if each is not REMOVED}
        return document
    for how, members in change.items():
        for name, each in members.items():
            path = name.split(".")
            was = next(iter(_values(document, path)), None)
            match how:
                case "$set":
                    document = _with(document, path, each)
                case "$setOnInsert":
                    document = _with(document, path, each) if is_new else document
                case "$unset":
                    document = _with(document, path, REMOVED)
                case "$inc":
                    document = _with(document, path, (was or 0) + each)
                case "$max":
                    document = _with(document, path, each if was is None else max(was, each))
                case _:
                    raise NotImplementedError(how)
    return document


def _with(document: Document, path: Sequence[str], value: Any) -> Document:
    name, *rest = path
    if rest:
        value = _with(document.get(name) or {}, rest, value)
    changed = document | {name: value}
    if value is REMOVED:
        del changed[name]
    return changed


def _value(expression: Any, document: Document, this: Any = None) -> Any:
    """Work out an expression of a pipeline; `this` is the element that `$filter` looks at."""
    if expression == "$$REMOVE":
        return REMOVED
    if isinstance(expression, str) and expression.startswith("$"):
        source, path = {"this": this}, expression.removeprefix("$$").removeprefix("$")
        source = source if expression.startswith("$$") else document
        return next(iter(_values(source, path.split("."))), None)
    if not isinstance(expression, dict):
        return expression
    ((how, what),) = expression.items()
    return OPERATORS[how](lambda each, element=this: _value(each, document, element), what)


OPERATORS: Mapping[str, Callable[[Callable[..., Any], Any], Any]] = {
    "$literal": lambda _, what: what,
    "$filter": lambda of, what: [
        each for each in of(what["input"]) or () if of(what["cond"], each)
    ],
    "$cond": lambda of, what: of(what[1]) if of(what[0]) else of(what[2]),
    "$not": lambda of, what: not of(what[0]),
    "$in": lambda of, what: of(what[0]) in of(what[1]),
    "$eq": lambda of, what: of(what[0]) == of(what[1]),
    "$add": lambda of, what: sum(map(of, what)),
}
