"""A MongoDB in memory: documents made by the real merge, with marks of changes, and letters.

All that asks for collections themselves finds them in documents.py: re-checks, the archiver, and
whatever deliveries do.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from service.worker.results.change import Changes, Mark, marked
from service.worker.results.database import Document
from service.worker.results.document import Answer, Failure, id_of
from service.worker.results.merge import merge
from service.worker.results.queries import end_checks
from simulated.documents import Database, Documents
from simulated.exchange import Port
from simulated.plan import REFUSED_DOCUMENT
from simulated.trace import Trace
from tracking.call import Attempt, Call, DeadLetter, Verdict
from tracking.checkpoint import Tag, Tracking, summary
from tracking.errors import CourierError, ResultsDown, TrackingError, UnstorableAnswer
from tracking.operation import State
from tracking.request import TrackingRequest

NAMES = (
    "accounts",
    *("services", "events", "deliveries", "attempts", "alerts"),
    *("operations", "refused", "forgotten", "shipments", "limits"),
)


class Written(NamedTuple):
    """What became of a write: why it was refused, and the mark of the change that it was."""

    refused: UnstorableAnswer | None
    mark: Mark | None = None


@dataclass(slots=True)
class Collections:
    """What is stored. `newest` is, for each document, the grant of the newest answer written.

    `others`: collections by name. `marks`: of every change that somebody may follow.
    """

    trace: Trace
    tracking: dict[str, Document] = field(default_factory=dict)
    others: Database = field(default_factory=Database)
    marks: list[Mark] = field(default_factory=list)
    dead: dict[str, DeadLetter] = field(default_factory=dict)
    newest: dict[str, tuple[int, str]] = field(default_factory=dict)
    refused: str = ""

    def __post_init__(self) -> None:
        for name in NAMES:
            self.others[name] = Documents(name, self.others)
        self.others["tracking"] = Documents("tracking", self.others, self.tracking)

    def write(self, change: Answer | Failure, changes: Changes | None) -> Written:
        """Store it, and what `changes` are to hear of.

        An answer that is refused is returned as the error that it is.
        """
        name = id_of(change.call.request)
        if change.call.request.number == self.refused:
            self.trace.fault(REFUSED_DOCUMENT, "mongodb", name)
            return Written(UnstorableAnswer("refused") if isinstance(change, Answer) else None)
        old, mark = self.tracking.get(name), None
        document = merge(old, change).document
        if old is not None and document["observed_us"] < old["observed_us"]:
            self.trace.breach("I8", f"{name} was replaced by an older observation")
        if old is not document:
            if changes and changes.hears(change.call.account):
                document, mark = marked(old, document, dt.datetime.now(dt.UTC))
                self.marks += [mark] if mark else []
            revision = 0 if old is None else old["revision"] + 1
            self.tracking[name] = document | {"revision": revision}
        if isinstance(change, Answer):
            last = change.tracking.checkpoints[-1].message if change.tracking.checkpoints else ""
            # Of two that were asked for at once, the first stays.
            if change.call.granted_us > self.newest.get(name, (0, ""))[0]:
                self.newest[name] = (change.call.granted_us, last)
        return Written(None, mark)

    def bury(self, letters: Sequence[DeadLetter]) -> None:
        for letter in letters:
            self.dead.setdefault(letter.id, letter)


@dataclass(slots=True)
class SimulatedStore:
    """Stands in for `service.worker.results.connection.Store`, with its collections."""

    port: Port
    collections: Collections
    back: Callable[[], asyncio.Future[None]]
    returned: Callable[[], None] = lambda: None

    @property
    def is_available(self) -> bool:
        return not self.port.away

    def __getattr__(self, name: str) -> Documents:
        return self.collections.others[name]

    async def on_writer(self, step: Callable[..., Any], *args: Any) -> Any:
        told = getattr(step, "__name__", "step")
        return await self.port.ask(told, lambda: step(*args))

    on_reader = in_background = on_writer

    async def available(self) -> None:
        if self.port.away:
            await self.back()


class SimulatedResults:
    """Stands in for `service.worker.results.trackings.Trackings`."""

    def __init__(self, store: SimulatedStore, _: object, changes: Changes | None) -> None:
        self._store = store
        self._changes = changes

    @property
    def is_available(self) -> bool:
        return self._store.is_available

    async def available(self) -> None:
        await self._store.available()

    async def save(self, call: Call, tracking: Tracking, attempt: Attempt) -> None:
        answer = Answer(call, tracking, attempt)
        await self._write_one(f"save {call.request.number}", answer)

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
                errors += await self._write(f"save {told}", writes)
            except ResultsDown as down:
                errors += [down] * len(piece)
        return errors

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        change = Failure(call, error, attempt, final)
        await self._write_one(f"fail {call.request.number} {error.code}", change)

    async def _write_one(self, what: str, change: Answer | Failure) -> None:
        (refused,) = await self._write(what, [change])
        if refused is not None:
            raise refused

    async def _write(
        self, what: str, writes: Sequence[Answer | Failure]
    ) -> list[UnstorableAnswer | None]:
        """Write all; what changed is told of once it is known to be stored."""
        collections, changes = self._store.collections, self._changes
        written = await self._store.port.ask(
            what, lambda: [collections.write(each, changes) for each in writes]
        )
        if changes and (marks := [each.mark for each in written if each.mark]):
            changes.note(marks)
        return [each.refused for each in written]

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
