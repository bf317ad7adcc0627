"""What the flow needs from outside, in the flow's words. Adapters are passed in by `wiring`."""

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
    Turn,
    Verdict,
)
from tracking.checkpoint import Tracking
from tracking.errors import CourierError, NotStarted
from tracking.line import Line
from tracking.request import TrackingRequest


class Job(Protocol):
    """One reserved job. Valid only as long as the connection that reserved it.

    `key` is stable over redeliveries of this very job and unlike that of any other job, also after
    a restart of beanstalkd: it stands in for an id that the producer did not give.
    """

    @property
    def key(self) -> str:
        """Names this very job over all its deliveries."""

    @property
    def server(self) -> str:
        """The address of the beanstalkd that has it."""

    @property
    def id(self) -> int:
        """Its number there."""

    @property
    def body(self) -> bytes:
        """The body as it was put."""

    @property
    def lost(self) -> bool:
        """Whether it is not ours any more; somebody else has it, or will have it."""

    async def age(self) -> float:
        """Seconds since the put. Raises TubesDown when the job is not ours any more."""

    def admitted(self) -> None:
        """Its call runs: the next job may be admitted in its place. It stays held and touched."""

    def delete(self) -> Awaitable[object]:
        """Let go of the job, whether that is awaited or not; it never fails.

        NOT_FOUND is normal (the reservation ran out).
        """

    async def bury(self) -> None:
        """Set the job aside for a person. Only after `DeadLetters.record`."""

    async def release(self) -> None:
        """Hand the job back, at once ready for others; used when the worker stops."""


class Drains(Protocol):
    """Puts jobs on the tube `wait_list`."""

    async def put_drain(self, line: Line) -> None:
        """Ask for somebody to drain `line`. Raises TubesDown; the sweeper repeats it then."""


class Limits(Protocol):
    """Who may call, who waits. Every method is one step that either happened whole or not at all.

    All of them raise LimitsBroken where what Redis holds of the line cannot be worked with: the
    line rests then.

    All of them raise LimitsDown when Redis is silent, and may be repeated then as they are: what
    was granted by one whose answer was lost is granted again. `ids` are for that: who admits or
    takes draws one, and another one only for another question.
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

        `full`: this process has no room for a call; the request waits where one would be granted.
        """

    async def take(self, base: str, line: Line, room: int, *, claims: bool = False) -> Turn:
        """Take up to `room` waiting requests of `line` whose turn it is.

        `claims`: a job of the tube `wait_list` told this process to drain. Room 0 hands over;
        NO_ROOM takes none and keeps the duty to ask. So it is with the room of every step.
        """

    async def finish(self, call: Call, verdict: Verdict, room: int) -> Turn:
        """End the call and its operations, then `take` for this worker with the freed slot."""

    async def retry(self, call: Call, setback: Setback, room: int) -> Turn:
        """Give the slot back and repeat the call; its line may stop for a while.

        Where it was the last attempt of its request the turn says so, and nothing is done.
        """

    async def hand_back(self, call: Call, room: int) -> Turn:
        """Hand the requests back to the head of their list.

        The start stays spent, unless the permit says that certainly nothing was sent.
        """

    async def sweep(self, lines: Sequence[Line], removed: Sequence[Line] = ()) -> Sequence[Swept]:
        """Put right what vanished workers left; `lines` are all that this worker knows.

        What waits on others waits on: no drainer is called for them. What is kept of lines that
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

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Store that a call failed. `final`: the operation ends with it, so `error` is shown."""

    async def fresh(self, request: TrackingRequest, max_age: float) -> Verdict | None:
        """The stored answer, if it was observed at most `max_age` seconds ago."""

    async def end_checks(self, request: TrackingRequest) -> None:
        """Ask about the parcel no more by ourselves, until its next answer. Raises ResultsDown."""


class Done(NamedTuple):
    """What a call brought, to be stored.

    `outcome` is that of its Attempt; `output` is for the operations behind it, `tag` tells the log
    in a word what came. `content` is for the Work that made it.
    """

    outcome: str
    output: Mapping[str, object]
    tag: str
    content: Any
    http_status: int | None = None


Outcome = Done | CourierError | NotStarted
"""What comes of one call of a group."""


class Work(Protocol):
    """What is done on the lines of a kind: from a permit to a durable outcome."""

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """Spend the permit that these calls share. One outcome for each, in their order."""

    async def store(self, call: Call, done: Done, attempt: Attempt) -> None:
        """Make an outcome durable on a majority. Idempotent.

        Raises ResultsDown: repeat it; UnreadableAnswer: the call failed, after all.
        """

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Note a failed call. `final`: its operations end with it. Raises ResultsDown."""

    def decide(self, error: CourierError, call: Call, now: float) -> Decision:
        """Decide what is done after a failed call; `now` is Unix time in seconds."""

    def letter(self, call: Call, error: CourierError) -> DeadLetter:
        """Write down what nobody will answer."""


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
    """What waits in Redis, once more."""

    def add(self, request: TrackingRequest, job_key: str, at_us: int) -> Awaitable[None]:
        """Write down that a request waits since `at_us`, by Redis' clock. Idempotent.

        Awaited it raises ResultsDown: repeat it. Only then its job may go.
        """


class Defects(Protocol):
    """How often a defect of this program came up over a job."""

    async def add(self, job_key: str) -> bool:
        """Count one more; True: too often, so the job is to be given up. Raises LimitsDown."""


class CodeCounts(Protocol):
    """The collection `unknown_codes`."""

    def count(self, slug: str, code: str) -> None:
        """Count an answer with this code. Written later: it neither waits nor fails."""


class MalformedCounts(Protocol):
    """How many jobs were no requests."""

    def count(self) -> None:
        """Count one. Written later: it neither waits nor fails."""


class DeadLetters(Protocol):
    """The collection `dead`."""

    async def record(self, letters: Sequence[DeadLetter]) -> None:
        """Record requests that will not be answered. Idempotent by `id`. Raises ResultsDown."""
