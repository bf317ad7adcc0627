"""The tree of errors: everything that can go wrong.

::

    TrackingError
    ├── MalformedJob          the job's body is no request: record it in `dead`, bury it
    │   └── UnknownLine       a drain job of a line not known here: delete it, its requests wait
    ├── CourierError          the closed set that a courier module may raise
    │   ├── InvalidNumber     the courier says this number cannot be one of its own; final
    │   ├── MissingField      the courier needs an input that the request does not carry; final
    │   ├── NoCredentials     our configuration lacks what the courier wants; wait, charge nothing
    │   ├── AuthFailed        the courier refused our credentials; wait, charge nothing
    │   ├── RateLimited       the courier said 429, or that a quota is used up; wait, charge nothing
    │   ├── CourierDown       5xx, time-out, reset, DNS, TLS; charge an attempt, back off
    │   ├── RequestRefused    the courier called our request wrong: our bug; charge an attempt
    │   ├── UnreadableAnswer  neither events nor a known "not found"; charge an attempt, keep body
    │   │   ├── WrongNumber   the answer is about another number
    │   │   └── UnstorableAnswer  MongoDB, or its format, does not take what the answer makes
    │   ├── GivenUp           raised by nobody: the whole line was refused for too long
    │   └── WorkersVanished   raised by nobody: too many died over the number; no more re-checks
    ├── NotStarted            a permit could not be used and no byte was sent; hand it back
    └── StoreError            one of our own servers did not do what it was asked
        ├── TubesDown         beanstalkd
        ├── LimitsDown        Redis
        ├── ResultsDown       MongoDB
        ├── SpoolDown         the file for requests that no beanstalkd takes
        └── LimitsBroken      Redis answers, but holds what cannot be worked with: a defect

    NotDone                   what a person or a program asked for cannot be
    └── NotNow                it was asked for too often; it can be later

AWAY is the closed list of what is tried for as long as it lasts. Whatever else goes wrong is a
defect: it is logged, and ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class TrackingError(Exception):
    """Root of all errors of this project."""


class MalformedJob(TrackingError):
    """A job body that is not what docs/interface.md §1 describes.

    `reason` is a short fixed word for lists and counters (`bad_json`, `unknown_slug`, …);
    `detail` is for a person and names what is wrong and what to write. `slug` and `number` are what
    the body names, unchecked, and `operation` its id; None where it names none. `webhook`: the
    service that is to hear of it.
    """

    slug: str | None = None
    number: str | None = None
    operation: str | None = None
    webhook: str | None = None

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class UnknownLine(MalformedJob):
    """A job of the tube `wait_list` whose line this worker does not know.

    What waits there stays in Redis, and the sweeper of a worker that knows the line puts the job
    again: so it is deleted, and nothing is recorded.
    """

    def __init__(self, line: str) -> None:
        super().__init__("unknown_slug", f"this worker does not know the line {line[:80]!r}")
        self.line = line


class CourierError(TrackingError):
    """The failure of a call to a courier. `code` is stored as `error.code` and as `dead.reason`.

    `http_status` is None when no answer arrived. `excerpt` is at most 1 KiB of the body, with
    credentials taken out; it is stored beside the attempt. `part` is what an answer about several
    numbers says of this one, as long as it is being read. `counts`: it is an attempt also where
    nothing was sent.
    """

    code = "courier_error"
    counts = False
    part: bytes | None = None

    def __init__(self, message: str, *, http_status: int | None = None, excerpt: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.http_status = http_status
        self.excerpt = excerpt


class InvalidNumber(CourierError):
    """The courier says that this can never be one of its numbers. Final."""

    code = "invalid_number"


class MissingField(CourierError):
    """The courier needs an input that the request does not carry; `field` is its name. Final."""

    code = "missing_field"

    def __init__(self, field: str, message: str = "", *, http_status: int | None = None) -> None:
        super().__init__(message or f"{field} is required", http_status=http_status)
        self.field = field


class NoCredentials(CourierError):
    """Our configuration lacks something; the message says which settings and where to get them."""

    code = "no_credentials"


class AuthFailed(CourierError):
    """The courier refused our credentials, also after one refresh of the token."""

    code = "auth_failed"


class RateLimited(CourierError):
    """The courier asks us to slow down; `retry_after` is in seconds, None when it named no time."""

    code = "rate_limited"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        http_status: int | None = None,
        excerpt: str = "",
    ) -> None:
        super().__init__(message, http_status=http_status, excerpt=excerpt)
        self.retry_after = retry_after


class CourierDown(CourierError):
    """No usable answer: 5xx, time-out, reset, DNS, TLS, or an outage that a 200 speaks of."""

    code = "courier_down"


class RequestRefused(CourierError):
    """The courier called our request malformed: our bug or a changed API, not its fault."""

    code = "request_refused"


@dataclass(frozen=True, slots=True)
class Unread:
    """An answer that could not be read, for it to be read again once its module is corrected.

    `number` is what the courier was asked for: the request's, or what its module made of it.
    `headers` are those that reading may need, in lower case. `body` is without secrets, and only
    its beginning where it is `cut`.
    """

    number: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool = False


class UnreadableAnswer(CourierError):
    """An answer that holds neither events nor a known "not found".

    `unread` is that answer, None where there is none that the module's `parse` could read again.
    """

    code = "unreadable_answer"
    unread: Unread | None = None


class WrongNumber(UnreadableAnswer):
    """An answer about another number than the one asked for."""

    code = "wrong_number"


class UnstorableAnswer(UnreadableAnswer):
    """An answer whose document MongoDB refuses, or that no document can hold."""

    code = "unstorable_answer"


class GivenUp(CourierError):
    """Nobody asks any more, as the whole line was refused for too long; `code` says why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class WorkersVanished(CourierError):
    """Nobody asks any more, as too many workers vanished while they asked for this number.

    Asked again it would cost as many: that is for a person to decide.
    """

    code = "workers_vanished"

    def __init__(self, deaths: int) -> None:
        super().__init__(f"{deaths} workers vanished while they asked for it")


class NotStarted(TrackingError):
    """The permit could not be used in time and no byte left: it goes back unspent."""


class StoreError(TrackingError):
    """One of our own servers is away or refused. The caller holds what it has and tries again.

    `fix` is what a person can do about it, a sentence; "" where waiting is enough.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(f"{message}. {fix}" if fix else message)
        self.message = message
        self.fix = fix


class TubesDown(StoreError):
    """beanstalkd did not answer. Jobs reserved over that connection are no longer ours."""


class LimitsDown(StoreError):
    """Redis did not answer: nothing may be called, because nobody counts."""


class ResultsDown(StoreError):
    """MongoDB did not confirm a write: it may or may not have happened, so repeat it."""


class SpoolDown(StoreError):
    """The spool did not confirm a write, or cannot be read: what it was given is not durable."""


class LimitsBroken(StoreError):
    """Redis answers, but a key or a record is not what it should be, or a script has a defect.

    Only a person can mend that. The line or the job rests meanwhile, and is tried again now and
    then; all others go on.
    """


AWAY = (TubesDown, LimitsDown, ResultsDown, SpoolDown)
"""What passes by itself, or once a server is back: tried again for as long as it lasts."""


class NotDone(Exception):
    """What was asked cannot be; the text says why and what to do instead."""


class NotNow(NotDone):
    """What was asked was asked too often; it can be in so many `seconds`."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = seconds
