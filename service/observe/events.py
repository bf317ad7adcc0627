"""Every event that may stand in the log: its fixed words and its level.

INFO is what happened to a request, once. WARNING will be tried again by itself. ERROR: somebody
must look. Everything variable is a field. docs/logs.md says what each means.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

Level = Literal["debug", "info", "warning", "error"]


class Event(StrEnum):
    """The words under `event`; never changed without a CHANGELOG entry, as people search them."""

    _value_: str
    level: Level

    def __new__(cls, words: str, level: Level) -> Self:
        """Make the member that is written as these words, at this level."""
        event = str.__new__(cls, words)
        event._value_, event.level = words, level
        return event

    CALLED = "courier was asked", "debug"
    ANSWERED = "request answered", "info"
    SERVED_FRESH = "request answered by a fresh result", "info"
    CANCELLED = "request cancelled", "info"
    PARKED = "request waits", "debug"
    RETRIED = "request will be tried again", "warning"
    REFUSED = "request refused by the courier", "info"
    DEAD = "request is dead", "error"
    ATTEMPT_FAILED = "attempt failed", "info"
    SKIPPED = "delivery skipped", "info"
    MALFORMED = "job is malformed", "error"
    HANDED_BACK = "request handed back", "info"
    LEFT_OUT = "answer leaves a number out", "info"
    HALVED = "call for several numbers is halved", "warning"
    FULL = "wait list is full", "warning"
    ID_REUSED = "id is that of another parcel", "error"
    TOO_LATE = "request comes too late", "warning"

    PAUSED = "courier is paused", "warning"
    RESUMED = "courier is resumed", "info"
    NO_CREDENTIALS = "credentials are missing", "warning"
    AUTH_FAILED = "credentials were refused", "error"
    UNREADABLE = "answer cannot be read", "error"
    UNKNOWN_CODE = "status code is unknown", "warning"
    UNSTORABLE = "answer cannot be stored", "error"
    BAD_DOCUMENT = "document cannot be read", "error"
    REFUSED_DOCUMENT = "document is refused", "error"

    JOBS_LOST = "jobs are lost", "warning"
    JOB_STUCK = "job is stuck", "error"
    RECORD_LOST = "buried job had no record", "error"
    AWAY = "server is away", "warning"
    BACK = "server is back", "info"
    DURABILITY = "server may lose work", "warning"
    STATE_LOST = "redis lost its state", "error"
    OLDER_WORKER = "worker of a version before runs", "warning"
    PARTED = "records were parted", "info"
    NO_MEMORY = "redis is full", "error"
    KEY_BROKEN = "redis key is broken", "error"
    SWEPT = "sweeper repaired", "warning"
    UNKNOWN_LINE = "line is unknown", "warning"
    UNKNOWN_SLUG = "courier is unknown here", "warning"
    NOT_ARCHIVED = "operations are not archived", "error"

    DISABLED = "service is disabled", "warning"
    GIVEN_UP = "deliveries are given up", "error"
    ALERTED = "alert is raised", "warning"
    ALERT_OVER = "alert is resolved", "info"
    DIGEST = "digest of a day", "info"
    MAIL_WAITS = "mail is not taken", "warning"
    MAIL_LOST = "mail is given up", "error"

    DOOR_OPEN = "door is open", "info"
    NO_USER = "there is no user yet", "info"
    KEYS_STALE = "keys cannot be refreshed", "warning"
    KEYS_FRESH = "keys are refreshed again", "info"
    DOOR_CLOSED = "door is closed", "info"
    SPOOLED = "requests are spooled", "warning"
    UNSPOOLED = "spooled requests are put", "info"
    SPOOL_DOWN = "spool cannot be used", "error"

    STARTED = "worker started", "info"
    REFUSED_START = "worker refuses to start", "error"
    NO_METRICS = "metrics are not served", "warning"
    STOPPING = "worker stops", "info"
    STOPPED = "worker stopped", "info"
    CHILD_STARTED = "process started", "info"
    CHILD_DIED = "process died", "error"
    CHILD_SILENT = "process was silent and is killed", "error"
    CHILD_KILLED = "process did not stop and is killed", "error"
    CHILD_HURRIED = "process is killed on request", "warning"
    TASK_ENDED = "background task ended", "error"
    UNFIT = "process is unfit", "error"
    UNEXPECTED = "unexpected error", "error"
    LIBRARY = "library message", "warning"
