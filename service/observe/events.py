"""Every event that may stand in the log: its fixed words, its level, its meaning.

INFO is what happened to a request, once. WARNING will be tried again by itself. ERROR: somebody
must look. Everything variable is a field. docs/logs.md shows this table; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

Level = Literal["debug", "info", "warning", "error"]


class Event(StrEnum):
    """The words under `event`; never changed without a CHANGELOG entry, as people search them."""

    CALLED = "courier was asked"
    ANSWERED = "request answered"
    SERVED_FRESH = "request answered by a fresh result"
    CANCELLED = "request cancelled"
    PARKED = "request waits"
    RETRIED = "request will be tried again"
    REFUSED = "request refused by the courier"
    DEAD = "request is dead"
    ATTEMPT_FAILED = "attempt failed"
    SKIPPED = "delivery skipped"
    MALFORMED = "job is malformed"
    HANDED_BACK = "request handed back"
    LEFT_OUT = "answer leaves a number out"
    HALVED = "call for several numbers is halved"
    FULL = "wait list is full"
    ID_REUSED = "id is that of another parcel"
    TOO_LATE = "request comes too late"

    PAUSED = "courier is paused"
    RESUMED = "courier is resumed"
    NO_CREDENTIALS = "credentials are missing"
    AUTH_FAILED = "credentials were refused"
    UNREADABLE = "answer cannot be read"
    UNKNOWN_CODE = "status code is unknown"
    UNSTORABLE = "answer cannot be stored"
    BAD_DOCUMENT = "document cannot be read"
    REFUSED_DOCUMENT = "document is refused"

    JOBS_LOST = "jobs are lost"
    JOB_STUCK = "job is stuck"
    RECORD_LOST = "buried job had no record"
    AWAY = "server is away"
    BACK = "server is back"
    DURABILITY = "server may lose work"
    STATE_LOST = "redis lost its state"
    OLDER_WORKER = "worker of a version before runs"
    PARTED = "records were parted"
    NO_MEMORY = "redis is full"
    KEY_BROKEN = "redis key is broken"
    SWEPT = "sweeper repaired"
    UNKNOWN_LINE = "line is unknown"
    UNKNOWN_SLUG = "courier is unknown here"
    NOT_ARCHIVED = "operations are not archived"

    DISABLED = "service is disabled"
    GIVEN_UP = "deliveries are given up"
    ALERTED = "alert is raised"
    ALERT_OVER = "alert is resolved"
    DIGEST = "digest of a day"
    MAIL_WAITS = "mail is not taken"
    MAIL_LOST = "mail is given up"

    DOOR_OPEN = "door is open"
    KEYS_STALE = "keys cannot be refreshed"
    KEYS_FRESH = "keys are refreshed again"
    DOOR_CLOSED = "door is closed"
    SPOOLED = "requests are spooled"
    UNSPOOLED = "spooled requests are put"
    SPOOL_DOWN = "spool cannot be used"

    STARTED = "worker started"
    REFUSED_START = "worker refuses to start"
    NO_METRICS = "metrics are not served"
    STOPPING = "worker stops"
    STOPPED = "worker stopped"
    CHILD_STARTED = "process started"
    CHILD_DIED = "process died"
    CHILD_SILENT = "process was silent and is killed"
    CHILD_KILLED = "process did not stop and is killed"
    CHILD_HURRIED = "process is killed on request"
    TASK_ENDED = "background task ended"
    UNFIT = "process is unfit"
    UNEXPECTED = "unexpected error"
    LIBRARY = "library message"


LEVELS: Mapping[Event, Level] = MappingProxyType(
    {
        Event.CALLED: "debug",
        Event.ANSWERED: "info",
        Event.SERVED_FRESH: "info",
        Event.CANCELLED: "info",
        Event.PARKED: "debug",
        Event.RETRIED: "warning",
        Event.REFUSED: "info",
        Event.DEAD: "error",
        Event.ATTEMPT_FAILED: "info",
        Event.SKIPPED: "info",
        Event.MALFORMED: "error",
        Event.HANDED_BACK: "info",
        Event.LEFT_OUT: "info",
        Event.HALVED: "warning",
        Event.FULL: "warning",
        Event.ID_REUSED: "error",
        Event.TOO_LATE: "warning",
        Event.PAUSED: "warning",
        Event.RESUMED: "info",
        Event.NO_CREDENTIALS: "warning",
        Event.AUTH_FAILED: "error",
        Event.UNREADABLE: "error",
        Event.UNKNOWN_CODE: "warning",
        Event.UNSTORABLE: "error",
        Event.BAD_DOCUMENT: "error",
        Event.REFUSED_DOCUMENT: "error",
        Event.JOBS_LOST: "warning",
        Event.JOB_STUCK: "error",
        Event.RECORD_LOST: "error",
        Event.AWAY: "warning",
        Event.BACK: "info",
        Event.DURABILITY: "warning",
        Event.STATE_LOST: "error",
        Event.OLDER_WORKER: "warning",
        Event.PARTED: "info",
        Event.NO_MEMORY: "error",
        Event.KEY_BROKEN: "error",
        Event.SWEPT: "warning",
        Event.UNKNOWN_LINE: "warning",
        Event.UNKNOWN_SLUG: "warning",
        Event.NOT_ARCHIVED: "error",
        Event.DISABLED: "warning",
        Event.GIVEN_UP: "error",
        Event.ALERTED: "warning",
        Event.ALERT_OVER: "info",
        Event.DIGEST: "info",
        Event.MAIL_WAITS: "warning",
        Event.MAIL_LOST: "error",
        Event.DOOR_OPEN: "info",
        Event.KEYS_STALE: "warning",
        Event.KEYS_FRESH: "info",
        Event.DOOR_CLOSED: "info",
        Event.SPOOLED: "warning",
        Event.UNSPOOLED: "info",
        Event.SPOOL_DOWN: "error",
        Event.STARTED: "info",
        Event.REFUSED_START: "error",
        Event.NO_METRICS: "warning",
        Event.STOPPING: "info",
        Event.STOPPED: "info",
        Event.CHILD_STARTED: "info",
        Event.CHILD_DIED: "error",
        Event.CHILD_SILENT: "error",
        Event.CHILD_KILLED: "error",
        Event.CHILD_HURRIED: "warning",
        Event.TASK_ENDED: "error",
        Event.UNFIT: "error",
        Event.UNEXPECTED: "error",
        Event.LIBRARY: "warning",
    }
)

MEANINGS: Mapping[Event, str] = MappingProxyType(
    {
        Event.CALLED: "A call is over, well or not (`outcome`), for one number or for `numbers`.",
        Event.ANSWERED: "The courier answered and the answer is stored; all its requests ended.",
        Event.SERVED_FRESH: "A stored answer was fresh enough; the courier was not asked.",
        Event.CANCELLED: "Cancelled, expired or superseded before a call was made.",
        Event.PARKED: "A limit is reached; the request waits in Redis for its turn.",
        Event.RETRIED: "The call failed in a way that may pass; it is repeated after `delay_ms`.",
        Event.REFUSED: "The courier cannot answer for this number; the request ended in ERROR.",
        Event.DEAD: "No answer after all attempts: recorded in `dead`. See `dead show`.",
        Event.ATTEMPT_FAILED: "A destination did not take a delivery: `detail` names its service.",
        Event.SKIPPED: "A delivery is not attempted now (`why`); its start is given back.",
        Event.MALFORMED: "The job is not what producers should put: recorded in `dead`, buried.",
        Event.HANDED_BACK: "Back to the head of its list, nothing charged; no `why`: a stop.",
        Event.LEFT_OUT: "An answer for several numbers is not about it: it is asked about alone.",
        Event.HALVED: "One of its `numbers` may be bad: each half is asked about by itself.",
        Event.FULL: "`max_waiting` is reached; the request is recorded in `dead`.",
        Event.ID_REUSED: "`operation` is the id of a request for `parcel`: recorded in `dead`.",
        Event.TOO_LATE: "No call could start before it expires: recorded in `dead`.",
        Event.PAUSED: "Nobody calls this courier for a while (see `info`); `detail` says why.",
        Event.RESUMED: "Its credentials are not those that it refused; they are tried now.",
        Event.NO_CREDENTIALS: "The courier needs settings that are not there; requests wait.",
        Event.AUTH_FAILED: "The courier refused our credentials; its requests wait.",
        Event.UNREADABLE: "The courier's answer has a new form; its module must be corrected.",
        Event.UNKNOWN_CODE: "The courier's module does not know `code`; logged once a process.",
        Event.UNSTORABLE: "MongoDB refuses its document (`detail`); its request will be dead.",
        Event.BAD_DOCUMENT: "`document` was not written by this service; its re-checks have ended.",
        Event.REFUSED_DOCUMENT: "MongoDB refuses it (`error`), and only it: `doctor` says more.",
        Event.JOBS_LOST: "Held too long, or the connection ended; beanstalkd gives them to others.",
        Event.JOB_STUCK: "beanstalkd had no room to put it back; it returns when that restarts.",
        Event.RECORD_LOST: "Its record in `dead` was lost and is made again: see `dead show`.",
        Event.AWAY: "A store does not answer, or must not be used (`error`); it is tried again.",
        Event.BACK: "A server that was away answers again.",
        Event.DURABILITY: "A server may lose work (`allow_loss`), takes none, or its clock is off.",
        Event.OLDER_WORKER: "This one waits for its stop: `worker` shares records among accounts.",
        Event.PARTED: "What accounts shared is each one's own now: `records` were parted.",
        Event.STATE_LOST: "Redis lost what it knew, or may have (`why`); nobody calls for a while.",
        Event.NO_MEMORY: "Redis is at its `maxmemory`: new jobs stay in beanstalkd meanwhile.",
        Event.KEY_BROKEN: "The line or job rests until a person has done what `fix` says.",
        Event.SWEPT: "What a vanished worker held was taken up again.",
        Event.UNKNOWN_LINE: "A drain job for `line`, which this worker does not know: it waits.",
        Event.UNKNOWN_SLUG: "A job for `slug`, which only other workers know: left to them.",
        Event.NOT_ARCHIVED: "MongoDB refuses them (`error`): tried again, but one `operation`.",
        Event.DISABLED: "No deliveries to the webhook `service` for now (`why`): they are held.",
        Event.GIVEN_UP: "More than `[webhooks]` allows, or held too long (`why`): they are dead.",
        Event.ALERTED: "People hear of it once, by mail where `[mail]` says how.",
        Event.ALERT_OVER: "What an alert was about is well again; people hear of it once.",
        Event.DIGEST: "So many `deliveries`, or `requests`, died on the day that is over.",
        Event.MAIL_WAITS: "The server of `[mail]` did not take it (`error`); it is tried again.",
        Event.MAIL_LOST: "The server of `[mail]` did not take it for three days.",
        Event.DOOR_OPEN: "Requests are taken over HTTP at `server`.",
        Event.KEYS_STALE: "Those known count on; a new or revoked key shows no effect meanwhile.",
        Event.KEYS_FRESH: "New and revoked keys count from now on.",
        Event.DOOR_CLOSED: "No more requests are taken here; what was taken is durable.",
        Event.SPOOLED: "No beanstalkd takes requests: they are in the spool, put later by itself.",
        Event.UNSPOOLED: "What the spool held is on a beanstalkd.",
        Event.SPOOL_DOWN: "Nothing can be spooled; what no beanstalkd takes is refused with 503.",
        Event.STARTED: "The worker is connected and takes jobs.",
        Event.REFUSED_START: "A server cannot be used; `error` says why, `fix` what to do.",
        Event.NO_METRICS: "Nobody can listen at `server`; the worker works on without.",
        Event.STOPPING: "The worker takes nothing more and finishes what it holds.",
        Event.STOPPED: "The worker holds nothing any more and ends.",
        Event.CHILD_STARTED: "The parent started a worker process.",
        Event.CHILD_DIED: "A worker process ended unasked; it is started again after `delay_ms`.",
        Event.CHILD_SILENT: "A worker process gave no sign of life for `silent_ms`.",
        Event.CHILD_KILLED: "A worker process did not end within `grace_seconds` and 5 s more.",
        Event.CHILD_HURRIED: "A second signal came, `waited_ms` into the stop: it means at once.",
        Event.TASK_ENDED: "A defect ended `task`; it is begun again after `delay_ms`.",
        Event.UNFIT: "`task` keeps ending: the process stops, and another is to be started.",
        Event.UNEXPECTED: "A defect of this program; `traceback` says where.",
        Event.LIBRARY: "A library warned; `logger` says which.",
    }
)
