"""The ports of the flow: what it needs of stores, tubes and couriers. `wiring` passes adapters."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from limits.rules import Rules
from tracking.call import (
    Asked,
    Attempt,
    Call,
    DeadLetter,
    Decision,
    Setback,
    Swept,
    TakeResult,
    Verdict,
)
from tracking.checkpoint import Tracking
from tracking.errors import CourierError, TrackingError
from tracking.line import Line
from tracking.request import TrackingRequest


class Job(Protocol):
    """A reserved job, valid as long as the connection that reserved it.

    `key` is stable over redeliveries of this job and unlike the key of any other job, also after a
    restart of beanstalkd: it stands in for an id that the producer did not give.
    """

    @property
    def key(self) -> str:
        """The name of this job over all its deliveries."""

    @property
    def server(self) -> str:
        """The address of the beanstalkd that has it."""

    @property
    def id(self) -> int:
        """The job's number at its server."""

    @property
    def body(self) -> bytes:
        """The body as it was put."""

    @property
    def lost(self) -> bool:
        """Whether the job is not ours any more; another process has it, or will have it."""

    async def age(self) -> float:
        """Seconds since the put. Raises TubesDown when the job is not ours any more."""

    def admitted(self) -> None:
        """Let the next job be admitted: this job's call runs. It stays reserved and touched."""

    def delete(self) -> Awaitable[object]:
        """Delete the job, whether that is awaited or not; it never fails.

        NOT_FOUND is normal (the reservation ran out).
        """

    async def bury(self) -> None:
        """Bury the job for a person. Only after `DeadLetters.record`."""

    async def release(self) -> None:
        """Release the job: it is ready for others at once."""


class Drains(Protocol):
    """Puts jobs on the tube `wait_list`."""

    async def put_drain(self, line: Line) -> None:
        """Put a job that has a process drain `line`. Raises TubesDown; the sweeper repeats it."""


class Limits(Protocol):
    """Redis, which decides who may call and who waits. Each method happens whole or not at all.

    All methods raise LimitsBroken where a script cannot work with what Redis holds of the line: the
    line rests then.

    All methods raise LimitsDown when Redis is silent, and may be repeated as they are: calls that
    were granted in a lost reply are granted again. `ids` are for that: each `admit` or `take` draws
    an id, and its repetitions use the same.
    `remembers_seconds`: how long answers are known here; for a request that is content with an
    older one MongoDB is asked. `max_age`: that of a request that sets none, in seconds.
    """

    ids: Iterator[str]
    max_age: float
    remembers_seconds: float

    async def admit(
        self,
        call_id: str,
        request: TrackingRequest,
        job_key: str,
        answer: Verdict | None = None,
        *,
        full: bool = False,
    ) -> Asked:
        """Ask for a call. `answer` is a stored answer that the request finds fresh enough.

        `full`: this process has no slot for a call; the request waits where it would be granted.
        """

    async def take(self, base: str, line: Line, room: int, *, claims: bool = False) -> TakeResult:
        """Grant calls to up to `room` requests of `line` that wait and are due.

        `claims`: a job of the tube `wait_list` had this process drain. Room 0 hands the line over;
        NO_ROOM grants nothing and keeps the duty to ask. The same holds for the room of each step.
        """

    async def finish(self, ends: Sequence[tuple[Call, Verdict]], room: int | None) -> TakeResult:
        """End calls of one group and their operations, then `take` with the freed slot.

        Room None, here and below: other calls of the group end right behind, so nothing is taken.
        """

    async def retry(self, call: Call, setback: Setback, room: int | None) -> TakeResult:
        """Give the slot back and repeat the call; its line may stop for a while.

        Where it was the last attempt of its request the result says so, and nothing is done.
        """

    async def hand_back(self, calls: Sequence[Call], room: int | None) -> TakeResult:
        """Put the requests of calls of one group back to the head of their lists, in their order.

        The start stays spent, unless the permit says that certainly nothing was sent.
        """

    async def halve(self, calls: Sequence[Call], room: int | None) -> TakeResult:
        """Put a group back to the head of its lists, of which one number may have spoilt the call.

        Its halves are called apart, and may be halved in their turn. Nothing is charged to them.
        """

    async def ask_alone(self, call: Call, room: int | None) -> TakeResult:
        """Put a number that an answer to several left out back to the head of its list.

        It is called with no others from now on (`Call.alone`). Nothing is charged to it.
        """

    async def sweep(self, lines: Sequence[Line], removed: Sequence[Line] = ()) -> Sequence[Swept]:
        """Put right what vanished workers left; `lines` are all that this worker knows.

        Requests on other lines wait on: no drain job is put for them. What is kept of lines that
        were `removed` for good is deleted, once nothing waits or runs there.
        """


class Results(Protocol):
    """The collection `tracking`. All writes are idempotent; the newest observation wins."""

    @property
    def is_available(self) -> bool:
        """Whether MongoDB takes writes, as far as is known."""

    def available(self) -> Awaitable[object]:
        """Wait while MongoDB is away: no call is asked for whose answer could not be kept."""

    def save(self, call: Call, tracking: Tracking, attempt: Attempt) -> Awaitable[None]:
        """Store an answer, durably on a majority. Awaited it raises ResultsDown: repeat it."""

    def save_all(
        self, answers: Sequence[tuple[Call, Tracking, Attempt]]
    ) -> Awaitable[Sequence[TrackingError | None]]:
        """Store answers in one go, each as `save`. Gives the error of each that is not stored."""

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Store that a call failed. `final`: the operation ends with it, so `error` is shown."""

    async def fresh(self, request: TrackingRequest, max_age: float) -> Verdict | None:
        """The stored answer, if it was observed at most `max_age` seconds ago."""

    async def end_checks(self, request: TrackingRequest) -> None:
        """Ask about the parcel no more by ourselves, until its next answer. Raises ResultsDown."""


class Done(NamedTuple):
    """What an answered call brought, to be stored.

    `outcome` is that of its Attempt; `output` is for the operations behind it, `tag` is a word for
    the log. `content` is for the Work that made it. `unsent`: there was nothing to do, so nothing
    was sent, nothing is stored, and it tells nothing of the line.
    """

    outcome: str
    output: Mapping[str, object]
    tag: str
    content: Any
    http_status: int | None = None
    unsent: bool = False


class LeftOut(NamedTuple):
    """The courier answered for the others of the group, and said nothing of this number."""

    http_status: int | None = None


Outcome = Done | CourierError | LeftOut
"""What an answer brought for one call of a group."""


class Work(Protocol):
    """The work on the lines of a kind: from a permit to a durable outcome."""

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """Spend the permit that these calls share. One outcome for each, in their order.

        Raises CourierError, NotStarted for all of them together.
        """

    async def store(self, call: Call, done: Done, attempt: Attempt) -> None:
        """Make an outcome durable on a majority. Idempotent.

        Raises ResultsDown: repeat it; UnreadableAnswer: the call failed, after all.
        """

    async def store_all(
        self, answers: Sequence[tuple[Call, Done, Attempt]]
    ) -> Sequence[TrackingError | None]:
        """Make outcomes of one group durable in one go. Returns what `store` would raise of each.

        Raises ResultsDown: repeat it.
        """

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Note a failed call. `final`: its operations end with it. Raises ResultsDown."""

    def decide(self, error: CourierError, call: Call, now: float) -> Decision:
        """Decide what is done after a failed call; `now` is Unix time in seconds."""

    def letter(self, call: Call, error: CourierError) -> DeadLetter | None:
        """Make the record of a call that nobody will answer; None: its own store has it."""


class Lines(Protocol):
    """The lines that a worker knows. They come and go while it runs: ask each time."""

    def known(self) -> Sequence[Line]:
        """List those that this worker calls, drains and sweeps now."""

    def rules_of(self, line: Line) -> Rules:
        """What holds for a line, also for one that is not known any more, where nobody has set it.

        The very same object for as long as nothing of it changes.
        """

    def mark_of(self, line: Line) -> str:
        """Mark the credentials by which a line is called now, so that nobody can read them."""

    def is_marked(self, line: Line, mark: str) -> bool:
        """Whether `mark` is of the credentials by which a known line is called now."""

    def removed(self) -> Sequence[Line]:
        """List those that were removed for good: their names are never used again."""

    def cleared(self, line: Line) -> None:
        """Take note that nothing is left of a removed line: nobody need list it any more."""


class Mirror(Protocol):
    """The copy in MongoDB of the requests that wait in Redis."""

    def add(self, request: TrackingRequest, job_key: str, at_us: int) -> Awaitable[None]:
        """Write down that a request waits since `at_us`, by Redis' clock. Idempotent.

        Awaited it raises ResultsDown: repeat it. Only then its job may go.
        """


class Defects(Protocol):
    """Counts how often a defect of this program came up over a job."""

    async def add(self, job_key: str) -> bool:
        """Count one more; True: too often, so the job is to be given up. Raises LimitsDown."""


class CodeCounts(Protocol):
    """The collection `unknown_codes`."""

    def count(self, slug: str, code: str) -> None:
        """Count an answer with this code. Written later: it neither waits nor fails."""


class MalformedCounts(Protocol):
    """Counts jobs that were no requests."""

    def count(self) -> None:
        """Count a job. Written later: it neither waits nor fails."""


class Tells(Protocol):
    """Tells services of ends that no operation has."""

    async def refused(self, letter: DeadLetter, service: str) -> None:
        """Tell a request's service, by its name, that the request was not taken.

        The letter names its operation. Idempotent. Raises ResultsDown: repeat it.
        """


class DeadLetters(Protocol):
    """The collection `dead`."""

    async def record(self, letters: Sequence[DeadLetter]) -> None:
        """Record requests that will not be answered. Idempotent by `id`. Raises ResultsDown."""
