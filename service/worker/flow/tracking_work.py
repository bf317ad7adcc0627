"""The Work of a courier's line: ask the courier, merge its answer, decide what a failure leads to.

What is done about a call that failed is decided by its error and what is known of the call:

=================================== =========================== ====================================
error                               decision                    charged to the number
=================================== =========================== ====================================
InvalidNumber                       Refuse: stored, ERROR       --
MissingField                        Die                         --
GivenUp: the outcome is not stored  Repeat                      always
NoCredentials, RateLimited          Repeat, the line stops      never
AuthFailed, CourierDown             Repeat; after a few numbers where others are answered
                                    in a row the line stops
RequestRefused, UnreadableAnswer,   the same, more slowly       where others are answered
WrongNumber
UnstorableAnswer                    the same, as slowly         always
=================================== =========================== ====================================

Whose fault an error is, the number's or the courier's, the others tell: it is charged to a number
only if another number of its line was answered since its last try, which Redis knows
(lua/retry.lua). So an answer that cannot be read is the courier's fault (its form has changed)
until another one can be read. Charged as often as `attempts` says, or failing for `give_up_days`, a
request dies. One that is refused like its whole line dies after a day of that, which Redis finds
out (lua/sweep.lua).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from service.observe.events import Event
from service.observe.log import emit
from service.ports import CodeCounts, Done, LeftOut, Outcome, Results
from tracking.call import Attempt, Call, DeadLetter, Decision, Die, Refuse, Repeat, Setback
from tracking.checkpoint import Tracking, output_of
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    GivenUp,
    InvalidNumber,
    MissingField,
    NoCredentials,
    RateLimited,
    TrackingError,
    UnreadableAnswer,
    UnstorableAnswer,
)
from tracking.line import TRACKING
from tracking.request import MAIN, TrackingRequest

DAY_SECONDS = 86_400.0

PATIENCE_SECONDS = DAY_SECONDS
"""A request that its courier refused to hear for so long is dead: somebody must look."""

LONGEST_PAUSE_SECONDS = DAY_SECONDS
"""A Retry-After beyond a day is taken for a mistake of the courier."""

UNREADABLE_FACTOR = 6.0
"""An answer in a new form stays so until somebody acts: attempts must last for hours."""

TOLD_MOST = 1_000
"""A courier that makes up codes must not fill memory, disk or MongoDB: so many per process."""

Track = Callable[[Call], Awaitable[Tracking]]
"""Asks the courier of a call. Raises CourierError or NotStarted."""

TrackMany = Callable[[Sequence[Call]], Awaitable[Mapping[str, Tracking | CourierError]]]
"""Asks the courier of calls under one permit: what it says, by number. Raises as `Track`."""


@dataclass(frozen=True, slots=True)
class RetryRules:
    """`[retry]`: when a request is dead, and the backoff between its attempts in seconds."""

    attempts: int = 5
    first_seconds: float = 10.0
    cap_seconds: float = 3_600.0
    give_up_days: int = 7


class Asks(NamedTuple):
    """What asks couriers, for one number and for several."""

    track: Track
    track_many: TrackMany


class TrackingWork:
    """Spends permits at couriers; the flow's Work for lines of the kind TRACKING."""

    def __init__(
        self,
        asks: Asks,
        results: Results,
        codes: CodeCounts,
        retry: RetryRules,
        write_job: Callable[[TrackingRequest], bytes],
    ) -> None:
        self._track, self._track_many = asks
        self._results = results
        self._codes = codes
        self._retry = retry
        self._write_job = write_job
        self._told: set[tuple[str, str]] = set()

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """Ask the courier. What else a module raises is a defect of its own."""
        found: Iterable[Tracking | CourierError | None]
        if len(calls) == 1:
            found = (await self._track(calls[0]),)
        else:
            said = await self._track_many(calls)
            found = [said.get(call.request.number) for call in calls]
        outcomes: list[Outcome] = []
        for each in found:
            if isinstance(each, Tracking):
                outcome = "answered" if each.checkpoints else "not_found"
                tag, status = str(each.tag), each.http_status
                outcomes.append(Done(outcome, output_of(each), tag, each, status))
            else:
                outcomes.append(each or LeftOut())
        return outcomes

    async def store(self, call: Call, done: Done, attempt: Attempt) -> None:
        """Merge the answer into what is known of the parcel; count its unknown codes."""
        await self._results.save(call, done.content, attempt)
        self._tell_unknown(call, done.content)

    async def store_all(
        self, answers: Sequence[tuple[Call, Done, Attempt]]
    ) -> Sequence[TrackingError | None]:
        """Do as `store` for the answers of a group."""
        read = [(call, done.content, attempt) for call, done, attempt in answers]
        errors = await self._results.save_all(read)
        for (call, tracking, _), error in zip(read, errors, strict=True):
            if tracking.unknown_codes and error is None:
                self._tell_unknown(call, tracking)
        return errors

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Note the failure in the parcel's document."""
        await self._results.fail(call, error, attempt, final=final)

    def decide(self, error: CourierError, call: Call, now: float) -> Decision:
        """Decide by the failure policy."""
        return decide(error, call, now, self._retry)

    def letter(self, call: Call, error: CourierError) -> DeadLetter:
        """Write down the request as a job, so that it can be put again."""
        return letter_of(call, error.code, error.message, self._write_job(call.request))

    def _tell_unknown(self, call: Call, tracking: Tracking) -> None:
        """Count the codes that the courier's module has no meaning for; log each that is new."""
        slug = call.request.slug
        for code in tracking.unknown_codes:
            if (slug, code) not in self._told:
                if len(self._told) >= TOLD_MOST:
                    continue
                self._told.add((slug, code))
                emit(Event.UNKNOWN_CODE, slug=slug, number=call.request.number, code=code)
            self._codes.count(slug, code)


def decide(
    error: CourierError,
    call: Call,
    now: float,
    rules: RetryRules,
    draw: Callable[[], float] = random.random,
) -> Decision:
    """Decide what to do about `error`. `now` is Unix time in seconds; `draw` gives [0, 1)."""
    match error:
        case InvalidNumber():
            return Refuse()
        case MissingField():
            return Die()
        case GivenUp():
            # MongoDB, which is there, did not take the outcome: not for ever.
            attempts = rules.attempts
            setback = Setback(error.code, rules.first_seconds, charged=True, attempts=attempts)
            return Die(setback) if fails_too_long(call, now, rules) else Repeat(setback)
    setback = _setback(error, call, rules, draw)
    is_asked = not setback.firm or call.tries >= rules.attempts
    too_long = is_asked and fails_too_long(call, now, rules)
    return Die(setback) if too_long else Repeat(setback)


def fails_too_long(call: Call, now: float, rules: RetryRules) -> bool:
    """Whether a request fails since `give_up_days`, whosever fault that is."""
    failing = 0.0 if call.failing_since is None else now - call.failing_since
    return failing >= rules.give_up_days * DAY_SECONDS


def _setback(
    error: CourierError, call: Call, rules: RetryRules, draw: Callable[[], float]
) -> Setback:
    firm = isinstance(error, NoCredentials | RateLimited)
    refused = firm or isinstance(error, AuthFailed)
    slower = UNREADABLE_FACTOR if isinstance(error, UnreadableAnswer) else 1.0
    return Setback(
        why=error.code,
        delay=delay(call.tries + 1, rules.first_seconds * slower, rules.cap_seconds, draw),
        charged=not firm,
        # MongoDB refuses this document: that others are answered or not says nothing of it.
        spares=not isinstance(error, UnstorableAnswer),
        attempts=rules.attempts,
        brake=TRACKING.brakes.get(error.code, TRACKING.brakes[CourierDown.code]),
        named=_named_pause(error),
        patience=PATIENCE_SECONDS if refused else None,
        firm=firm,
        of_credentials=refused and not isinstance(error, RateLimited),
    )


def delay(attempts: int, first: float, cap: float, draw: Callable[[], float]) -> float:
    """Seconds until the next attempt after `attempts` failed ones (1 or more).

    Exponential with full jitter: anything between 0 and `first` * 2^(attempts-1), at most `cap`, so
    that requests which failed together do not come back together. `draw` gives [0, 1).
    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

    >>> delay(1, first=10, cap=3600, draw=lambda: 0.5)
    5.0
    >>> delay(20, first=10, cap=3600, draw=lambda: 0.5)
    1800.0
    """
    # 2^64 seconds is beyond any cap, and the power must not overflow.
    longest = min(cap, first * 2.0 ** min(attempts - 1, 64))
    return longest * draw()


def _named_pause(error: CourierError) -> float | None:
    if not isinstance(error, RateLimited) or error.retry_after is None:
        return None
    # Under a second is no answer to "slow down".
    return min(max(error.retry_after, 1.0), LONGEST_PAUSE_SECONDS)


def letter_of(call: Call, reason: str, detail: str, body: bytes) -> DeadLetter:
    """The record of a call. Its id is that of its oldest request, so repeating it changes nothing.

    Two accounts may have asked in the same millisecond, each for a call of its own.
    """
    slug, number = call.request.slug, call.request.number
    account = "" if call.account == MAIN else f":{call.account}"
    oldest = f"{slug}:{number}:{round(call.waiting_since * 1000)}{account}"
    parcel = slug, number, call.operations
    return DeadLetter(oldest, reason, detail, body, *parcel, granted_us=call.granted_us)
