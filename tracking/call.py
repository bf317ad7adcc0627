"""Calls and permits: what an admission, a take and a failure bring, and the verdict of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from tracking.line import Brake, Line
from tracking.operation import State
from tracking.request import MAIN, Account, TrackingRequest


class Permit(Protocol):
    """Paces the requests of one `track()`; made by `limits`, used by `couriers.http.fetch`.

    One permit is one HTTP request to the courier's tracking address; token endpoints need none.
    """

    @property
    def deadline(self) -> float:
        """The end of the whole call, on the clock of `time.monotonic()`."""

    @property
    def started(self) -> bool:
        """True once a byte may have left: the start is spent then."""

    async def again(self) -> None:
        """Get leave for one further request (a second page, a second step).

        Call it before every request but the first. Raises LimitsDown.
        """

    async def before_send(self) -> None:
        """Hold until the granted instant; called with the connection in hand, before any byte.

        Raises NotStarted when the grant is too old, or was used for a request before.
        """

    def after_send(self) -> None:
        """Stamp the instant at which the request left; called right after the write."""

    def answered(self, ago: float) -> None:
        """Note that its answer began to arrive, so many seconds ago."""


class Call(NamedTuple):
    """One permitted call to a courier, and everybody who waits for its answer.

    `line` is where it counts against the limits.
    `request` is the merged request: the newest inputs, the first number as it was given.
    `granted_us` is Redis' time of the grant in microseconds: it orders observations.
    `attempts` counts failures that were charged to the number, `deaths` workers that vanished,
    `tries` all failed calls; all are of the time before this call. `waiting_since` is Unix time in
    seconds of the oldest request, `failing_since` of the first failed call, None before one.
    `given_up`: why nobody will be asked any more, "" for a call that may be made.
    `operations` names at most 100 of the ids that wait for this call, all of one `account`.
    `alone`: an answer to several numbers left this one out, so it is asked about by itself.
    `nth`: of all calls that this process was given; one that it was given twice has two.
    """

    id: str
    line: Line
    request: TrackingRequest
    permit: Permit
    granted_us: int
    waiting_since: float
    attempts: int = 0
    deaths: int = 0
    requests: int = 1
    operations: tuple[str, ...] = ()
    tries: int = 0
    failing_since: float | None = None
    given_up: str = ""
    account: Account = MAIN
    alone: bool = False
    nth: int = 0


class Granted(NamedTuple):
    """The call may be made now."""

    call: Call


@dataclass(frozen=True, slots=True)
class Parked:
    """The request waits in Redis; its job may be deleted.

    `put_drain`: nobody drains this line, so put a job on the tube `wait_list`. `ask_again`: this
    process has the duty to ask for the line, as after a `TakeResult`. `at_us`: when it was
    admitted, by Redis' clock.
    """

    why: str
    put_drain: bool = False
    ask_again: float | None = field(default=None, compare=False)
    at_us: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """There is nothing to do: the operation ended before, or a fresh answer was at hand.

    `why`: too_late or wait_list_full of an AUTOMATIC request that was not taken, else "".
    """

    state: State
    why: str = ""


@dataclass(frozen=True, slots=True)
class Full:
    """Too many wait for this slug already (`max_waiting`); the request was not taken."""

    waiting: int


@dataclass(frozen=True, slots=True)
class IdConflict:
    """The request's id is that of a request for another parcel; it was not taken.

    `parcel` is `<slug>:<number>` of the one that has the id, "" where it was forgotten.
    """

    parcel: str


@dataclass(frozen=True, slots=True)
class Held:
    """The job came back while a process that lives makes its call; nothing was changed.

    Keep the job and ask again later: the call has ended then, or its process may have vanished.
    """


@dataclass(frozen=True, slots=True)
class Dying:
    """Too many workers vanished over this request: record it as dead, then `finish` its call."""

    call: Call


@dataclass(frozen=True, slots=True)
class NoMemory:
    """Redis is full and takes no new request; nothing was changed. Ask again later.

    `fix` is what a person is to do.
    """

    fix: str


@dataclass(frozen=True, slots=True)
class TooLate:
    """Nobody wants the answer any more when its call could start; the request was not taken.

    `starts_at`: Unix time in seconds before which the rate and the quotas alone let no call start.
    """

    starts_at: float


NotAdmitted = Full | IdConflict | TooLate
"""A request that was not taken, and never will be."""

Admission = Granted | Parked | Ended | NotAdmitted | Dying | Held

Asked = Admission | NoMemory
"""What comes of asking once; not before an Admission is a request carried on."""


@dataclass(frozen=True, slots=True)
class Setback:
    """A call failed: what that means for its request, and for its line. Times in seconds.

    `delay`: until the request is repeated, where the line does not stop. `charged`: one of its
    attempts, where it `spares` only if another number of the line was answered since its last try;
    the last of `attempts` ends it, None: there is no last one. `brake`: what stops the line, None
    where nothing is held against it; `named`: it stops at once for so long instead. `patience`: the
    line was not asked but refused, and ends who waits for so long while it is. `firm`: an answer
    does not end the pause, and the request keeps its place. `of_credentials`: others than these may
    be accepted. `why` is for operators. `attempt`: the call for people to see; None: nobody was
    asked. `fields`: those with which the request is repeated; None: as it stands.
    """

    why: str
    delay: float = 0.0
    charged: bool = False
    spares: bool = False
    attempts: int | None = None
    brake: Brake | None = None
    named: float | None = None
    patience: float | None = None
    firm: bool = False
    of_credentials: bool = False
    attempt: Attempt | None = None
    fields: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """The last word about what was asked; the operations end in ERROR.

    `setback`: what the failed call means for its line; None: it tells that the line works.
    """

    setback: Setback | None = None


@dataclass(frozen=True, slots=True)
class Die:
    """Nobody will answer: record it in `dead`; the operations end in ERROR."""

    setback: Setback | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """Once more, later."""

    setback: Setback


Decision = Refuse | Die | Repeat
"""What is done about a call that failed."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The repairs of a sweep on one line.

    `swept` calls went back to the head of their list; `dying` are to be recorded as dead and then
    finished; `put_drain`: somebody waits and nobody drains. `error`: what hindered it from more.
    `cleared`: the line was removed for good, and nothing is left of it.
    """

    line: Line
    swept: int = 0
    dying: tuple[Call, ...] = ()
    put_drain: bool = False
    error: Exception | None = None
    cleared: bool = False


class TakeResult(NamedTuple):
    """The result of a take: calls for waiting requests of one line.

    `groups` of calls are each under one permit, and carried out in one go.
    `ask_again` is on the clock of `time.monotonic()`: this process has the duty to ask for the line
    then. None: nothing waits, or another process has that duty. `full`: a call could start now, but
    this process said that it has NO_ROOM: it is to ask once it has some, at `ask_again` at the
    latest. `used_up`: the call was not repeated, as this was the last attempt of its request:
    record it as dead, then `finish` it. `waits`: the call did not end, its request waits again.
    """

    groups: tuple[tuple[Call, ...], ...] = ()
    ask_again: float | None = None
    put_drain: bool = False
    full: bool = False
    used_up: bool = False
    waits: bool = False

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of all groups."""
        return tuple(call for group in self.groups for call in group)


NO_ROOM = -1
"""The room of a process that is full for now: unlike 0 it keeps the duty to ask."""


class Verdict(NamedTuple):
    """The end of a call for the operations behind it: SUCCESS or ERROR, and their `output`.

    `answered`: the courier did answer, so others who find it fresh enough may have it too.
    `output` is small and JSON-able. `observed_ms` is Redis' time at which the courier was asked,
    Unix ms; `finish` takes it from the call.
    `setback`: what the last failed call means for its line. `attempt`: the call that
    ended so, for people to see; None: nobody was asked. `unsent`: certainly nothing was sent, so
    the start is given back.
    """

    state: State
    output: Mapping[str, object]
    answered: bool = True
    observed_ms: int | None = None
    setback: Setback | None = None
    attempt: Attempt | None = None
    unsent: bool = False


class Attempt(NamedTuple):
    """One line of `tracking.attempts`: what a call to the courier brought.

    `outcome` is "answered", "not_found" or the `code` of a CourierError. `excerpt` is at most 1 KiB
    of the body, redacted, and kept only where it helps to explain a failure.
    """

    at: datetime
    outcome: str
    ms: int
    http_status: int | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that will not be answered, with its reason: one document of `bucket.dead`.

    `id` makes the record idempotent: recording it twice is recording it once. `body` is the job's
    body when there was one; else the request written as a job, so that it can be kicked.
    `server` and `job` name the buried job, None when there is none. `granted_us` is the grant of
    the call that ended so, None without a call.
    """

    id: str
    reason: str
    detail: str
    body: bytes
    slug: str | None = None
    number: str | None = None
    operations: tuple[str, ...] = ()
    server: str | None = None
    job: int | None = None
    at: datetime | None = None
    granted_us: int | None = None
