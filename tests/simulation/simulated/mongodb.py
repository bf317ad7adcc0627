"""A MongoDB in memory: documents made by the real merge, letters, and what re-checks ask for."""

from __future__ import annotations

import asyncio
import datetime as dt
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from service.worker.results.database import Document
from service.worker.results.document import Answer, Failure, id_of
from service.worker.results.merge import merge
from service.worker.results.queries import end_checks
from simulated.exchange import Port
from simulated.plan import REFUSED_DOCUMENT
from simulated.trace import Trace
from tracking.call import Attempt, Call, DeadLetter, Verdict
from tracking.checkpoint import Tag, Tracking, summary
from tracking.errors import CourierError, ResultsDown, TrackingError, UnstorableAnswer
from tracking.operation import State
from tracking.request import TrackingRequest


@dataclass(slots=True)
class Collections:
    """What is stored. `newest` is, for each document, the grant of the newest answer written."""

    trace: Trace
    tracking: dict[str, Document] = field(default_factory=dict)
    dead: dict[str, DeadLetter] = field(default_factory=dict)
    newest: dict[str, tuple[int, str]] = field(default_factory=dict)
    refused: str = ""

    def write(self, change: Answer | Failure) -> UnstorableAnswer | None:
        """Store it; an answer that is refused is returned as the error that it is."""
        name = id_of(change.call.request)
        if change.call.request.number == self.refused:
            self.trace.fault(REFUSED_DOCUMENT, "mongodb", name)
            return UnstorableAnswer("refused") if isinstance(change, Answer) else None
        old = self.tracking.get(name)
        document = merge(old, change).document
        if old is not None and document["observed_us"] < old["observed_us"]:
            self.trace.breach("I8", f"{name} was replaced by an older observation")
        if old is not document:
            revision = 0 if old is None else old["revision"] + 1
            self.tracking[name] = document | {"revision": revision}
        if isinstance(change, Answer):
            mark = change.tracking.checkpoints[-1].message if change.tracking.checkpoints else ""
            # Of two that were asked for at once, the first stays.
            if change.call.granted_us > self.newest.get(name, (0, ""))[0]:
                self.newest[name] = (change.call.granted_us, mark)
        return None

    def bury(self, letters: Sequence[DeadLetter]) -> None:
        for letter in letters:
            self.dead.setdefault(letter.id, letter)


@dataclass(slots=True)
class SimulatedStore:
    """Stands in for `service.worker.results.connection.Store` where re-checks use it."""

    port: Port
    collections: Collections
    back: Callable[[], asyncio.Future[None]]
    returned: Callable[[], None] = lambda: None

    @property
    def is_available(self) -> bool:
        return not self.port.away

    @property
    def tracking(self) -> Documents:
        return Documents(self.collections.tracking)

    @property
    def shipments(self) -> Documents:
        return Documents({})

    operations = shipments

    async def on_writer(self, step: Callable[..., Any], *args: Any) -> Any:
        return await self.port.ask(step.__name__, lambda: step(*args))

    on_reader = on_writer

    async def available(self) -> None:
        if self.port.away:
            await self.back()


class SimulatedResults:
    """Stands in for `service.worker.results.trackings.Trackings`."""

    def __init__(self, store: SimulatedStore, *_: object) -> None:
        self._store = store

    @property
    def is_available(self) -> bool:
        return self._store.is_available

    async def available(self) -> None:
        await self._store.available()

    async def save(self, call: Call, tracking: Tracking, attempt: Attempt) -> None:
        await self._write(f"save {call.request.number}", Answer(call, tracking, attempt))

    async def save_all(
        self, answers: Sequence[tuple[Call, Tracking, Attempt]]
    ) -> Sequence[TrackingError | None]:
        """Store them in two pieces: who asks may vanish between these."""
        errors: list[TrackingError | None] = []
        middle = len(answers) // 2
        for piece in (answers[:middle], answers[middle:]):
            told = " ".join(call.request.number for call, _, _ in piece)
            writes = [Answer(*each) for each in piece]
            try:
                errors += await self._store.port.ask(f"save {told}", partial(self._all, writes))
            except ResultsDown as down:
                errors += [down] * len(piece)
        return errors

    def _all(self, writes: Sequence[Answer]) -> list[TrackingError | None]:
        return [self._store.collections.write(each) for each in writes]

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        change = Failure(call, error, attempt, final)
        await self._write(f"fail {call.request.number} {error.code}", change)

    async def _write(self, what: str, change: Answer | Failure) -> None:
        refused = await self._store.port.ask(what, lambda: self._store.collections.write(change))
        if refused is not None:
            raise refused

    async def fresh(self, request: TrackingRequest, max_age: float) -> Verdict | None:
        return await self._store.port.ask(
            f"fresh {request.number}", lambda: self._fresh(request, max_age)
        )

    async def end_checks(self, request: TrackingRequest) -> None:
        tracking = self._store.tracking
        await self._store.on_writer(end_checks, tracking, [id_of(request)])

    def _fresh(self, request: TrackingRequest, max_age: float) -> Verdict | None:
        found = self._store.collections.tracking.get(id_of(request))
        if found is None or found["error"] is not None or not found["observed_us"]:
            return None
        now = dt.datetime.now(dt.UTC).timestamp()
        if not now - max_age <= found["observed_us"] / 1_000_000 <= now + 5.0:
            return None
        output = summary(Tag(found["tag"]), found["subtag"], len(found["checkpoints"]))
        observed_ms = found["observed_us"] // 1000
        return Verdict(State.SUCCESS, output, observed_ms=observed_ms)


class SimulatedDead:
    """Stands in for `service.worker.results.dead.Dead`."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store

    async def record(self, letters: Sequence[DeadLetter]) -> None:
        what = f"dead {letters[0].reason} {letters[0].id}" if letters else "dead"
        await self._store.port.ask(what, lambda: self._store.collections.bury(letters))


class Documents:
    """As much of a collection as `service.worker.results.queries` asks of one."""

    def __init__(self, documents: dict[str, Document]) -> None:
        self._documents = documents

    def aggregate(self, stages: Sequence[Mapping[str, Any]]) -> list[Document]:
        """Group what fits by one member."""
        wanted, member = stages[0]["$match"], stages[-1]["$group"]["_id"].removeprefix("$")
        groups = {each.get(member) for each in self._documents.values() if _fits(each, wanted)}
        return [{"_id": each} for each in sorted(groups, key=str)]

    def find(self, wanted: Mapping[str, Any], _: object, *, limit: int = 0, **how: Any) -> Found:
        found = [each for each in self._documents.values() if _fits(each, wanted)]
        ((name, _),) = how.get("sort") or [("_id", 1)]
        return Found(sorted(found, key=lambda document: document[name])[: limit or None])

    def count_documents(self, wanted: Mapping[str, Any], *, limit: int = 0, **_: object) -> int:
        fits = sum(_fits(each, wanted) for each in self._documents.values())
        return min(fits, limit) if limit else fits

    def update_many(
        self, wanted: Mapping[str, Any], change: Mapping[str, Any], **_: object
    ) -> SimpleNamespace:
        fits = [name for name, each in self._documents.items() if _fits(each, wanted)]
        for name in fits:
            self._documents[name] = self._documents[name] | change["$set"]
        return SimpleNamespace(modified_count=len(fits))


class Found(list[Document]):
    """What was found, all at once."""

    def close(self) -> None:
        """Keep nothing open: nothing is."""


COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$gt": operator.gt,
    "$lte": operator.le,
    "$in": lambda found, wanted: found in wanted,
    "$nin": lambda found, wanted: found not in wanted,
}


def _fits(document: Document, wanted: Mapping[str, Any]) -> bool:
    """Whether all holds."""
    for name, value in wanted.items():
        if name == "$or":
            if not any(_fits(document, each) for each in value):
                return False
            continue
        found = document.get(name)
        tests = value.items() if isinstance(value, dict) else [("$eq", value)]
        if not all(_holds(found, how, than) for how, than in tests):
            return False
    return True


def _holds(found: Any, how: str, than: Any) -> bool:
    """Compare as MongoDB does: nothing is greater or less than null, and missing is null."""
    if how == "$exists":
        return (found is not None) is than
    return (found is not None or how == "$eq") and COMPARE[how](found, than)
