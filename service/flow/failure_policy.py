"""What is done about a call that failed. Pure: one error and what is known of the call go in.

=================================== ============================== ============================
error                               decision                       charged
=================================== ============================== ============================
InvalidNumber                       Refuse: stored, ERROR          --
MissingField                        Die                            --
NoCredentials                       HandBack, the courier pauses   nothing; Die after a day
AuthFailed                          HandBack, the courier pauses   nothing; Die after a day
RateLimited                         HandBack, the courier pauses   nothing; Die after a day
CourierDown, RequestRefused         Repeat with backoff            an attempt; Die at the last
UnreadableAnswer, WrongNumber       Repeat, slowly                 an attempt; Die at the last
=================================== ============================== ============================
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tracking.call import Call, Pause
from tracking.errors import (
    AuthFailed,
    CourierError,
    InvalidNumber,
    MissingField,
    NoCredentials,
    RateLimited,
    UnreadableAnswer,
)

GIVE_UP_SECONDS = 86_400.0
"""A request that could not even be asked for a day is dead: somebody must look at the courier."""

NO_CREDENTIALS_PAUSE_SECONDS = 60.0
"""How soon new credentials are noticed; looking costs no call."""

LONGEST_PAUSE_SECONDS = 86_400.0
"""A Retry-After beyond a day is taken for a mistake of the courier."""

UNREADABLE_FACTOR = 6.0
"""An answer in a new form stays so until somebody acts: attempts must last for hours."""


@dataclass(frozen=True, slots=True)
class RetryRules:
    """`[retry]`: attempts before a request is dead, and the backoff between them in seconds."""

    attempts: int = 5
    first_seconds: float = 10.0
    cap_seconds: float = 3_600.0


@dataclass(frozen=True, slots=True)
class Refuse:
    """The courier's last word about this number; the operations end in ERROR."""


@dataclass(frozen=True, slots=True)
class Die:
    """Nobody will answer: record it in `dead`; the operations end in ERROR."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Once more in `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class HandBack:
    """Back to the head of the list, and nobody calls this courier for a while."""

    pause: Pause


Decision = Refuse | Die | Repeat | HandBack


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
        case NoCredentials() | AuthFailed() | RateLimited():
            if now - call.waiting_since >= GIVE_UP_SECONDS:
                return Die()
            return HandBack(Pause(error.code, _pause_seconds(error)))
    attempts = call.attempts + 1
    if attempts >= rules.attempts:
        return Die()
    slower = UNREADABLE_FACTOR if isinstance(error, UnreadableAnswer) else 1.0
    return Repeat(delay(attempts, rules.first_seconds * slower, rules.cap_seconds, draw))


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


def _pause_seconds(error: CourierError) -> float | None:
    if isinstance(error, NoCredentials):
        return NO_CREDENTIALS_PAUSE_SECONDS
    if isinstance(error, RateLimited) and error.retry_after is not None:
        # Under a second is no answer to "slow down".
        return min(max(error.retry_after, 1.0), LONGEST_PAUSE_SECONDS)
    return None
