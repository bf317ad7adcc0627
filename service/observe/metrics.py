"""Every metric: its name, its kind, its labels, what it means and who serves it.

Names are Prometheus' way: `tracker_` first, base units last, `_total` behind what only grows.
docs/metrics.md is compared with this table. The line (a courier's slug) is the only label with many
values; a tracking number is never one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial


class Kind(StrEnum):
    """As Prometheus names them. Histograms are of seconds."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class By(StrEnum):
    """The process that serves a metric."""

    EVERY = "every process that serves metrics"
    WORKER = "worker"
    DOOR = "api and ingest"
    API = "api"
    INGEST = "ingest"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `meaning` is a sentence for readers of a dashboard."""

    name: str
    kind: Kind
    by: By
    labels: tuple[str, ...]
    meaning: str


def _metric(kind: Kind, by: By, name: str, labels: str, meaning: str) -> Metric:
    return Metric(name, kind, by, tuple(labels.split()), meaning)


_counter, _gauge, _histogram = (partial(_metric, kind) for kind in Kind)

_BOUNDS_MS = (5, 25, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
BOUNDS_US = tuple(ms * 1_000 for ms in _BOUNDS_MS)
"""The buckets of every histogram: calls may take 30 s, replies are held for up to 60."""

BUILD = _gauge(
    By.EVERY, "tracker_build_info", "version python", "1, with the version that runs as its labels."
)

CALLS = _counter(
    By.WORKER,
    "tracker_courier_calls_total",
    "slug outcome",
    "Calls that left for the courier: `answered`, `not_found`, or the code of what went wrong.",
)
CALL_TIMES = _histogram(
    By.WORKER,
    "tracker_courier_call_duration_seconds",
    "slug",
    "How long those calls took, from grant to answer.",
)
ENDED = _counter(
    By.WORKER,
    "tracker_requests_total",
    "slug outcome",
    "Requests by what became of them: `answered`, `fresh` (a stored answer did), `refused` by the "
    "courier, `cancelled`, `dead`.",
)
DEAD = _counter(
    By.WORKER,
    "tracker_dead_requests_total",
    "slug reason",
    "Records in `dead`, by reason; no slug where the job names none that is known.",
)
RETRIES = _counter(
    By.WORKER,
    "tracker_call_retries_total",
    "slug reason",
    "Calls that failed and are made once more.",
)
SAVED = _counter(
    By.WORKER,
    "tracker_calls_saved_total",
    "slug by",
    "Calls that were not needed: one answered more requests (`merging`), or a stored answer was "
    "young enough (`freshness`).",
)
REPAIRS = _counter(
    By.WORKER,
    "tracker_repairs_total",
    "kind",
    "What was put right: `call` of a vanished worker, `drain` job, `given_up` request, ended "
    "`task`, ended or silent `process`.",
)
TROUBLE = _counter(
    By.WORKER,
    "tracker_log_events_total",
    "level event",
    "Warnings and errors of the log, also those that it leaves out; `docs/logs.md` explains each.",
)
PROCESSES = _gauge(
    By.WORKER, "tracker_worker_processes", "", "Worker processes that this parent is to run."
)
BEATING = _gauge(
    By.WORKER,
    "tracker_worker_processes_beating",
    "",
    "How many of them live and turn their event loop.",
)

REQUESTS = _counter(
    By.DOOR,
    "tracker_http_requests_total",
    "method route status",
    "HTTP requests that were answered; `other` stands for what there is no route for.",
)
HTTP_TIMES = _histogram(
    By.DOOR,
    "tracker_http_request_duration_seconds",
    "route",
    "How long they took until the reply began, also those that were held on purpose (`?wait=`).",
)
SPOOLED = _gauge(
    By.DOOR,
    "tracker_spooled_requests",
    "",
    "Requests in the spool of this machine; none when it fails.",
)
TAKING = _gauge(
    By.DOOR, "tracker_beanstalkd_up", "", "1: a beanstalkd takes requests, 0: none does."
)

REDIS = _gauge(
    By.API, "tracker_redis_up", "", "1: Redis answers; with 0 nothing of lines is known."
)
WAITING = _gauge(
    By.API,
    "tracker_waiting_requests",
    "slug list",
    "Numbers that wait for a turn, or for a retry that is not due: `manual`, `automatic`, `later`.",
)
OLDEST = _gauge(
    By.API,
    "tracker_waiting_oldest_seconds",
    "slug",
    "For how long the first of them waits; 0: nobody.",
)
HELD = _gauge(
    By.API, "tracker_calls_in_flight", "slug", "Calls in flight as Redis counts them (leases)."
)
UNUSED = _gauge(
    By.API,
    "tracker_unused_starts_per_second",
    "slug",
    "Starts a second left unused although somebody has waited for a second, and nothing but the "
    "rate binds.",
)
BOUND = _gauge(
    By.API,
    "tracker_line_bound",
    "slug by",
    "1 for what keeps those who wait, as `info` says it: `rate`, `concurrency`, `paused`, …",
)
QUOTA = _gauge(
    By.API,
    "tracker_quota_left_calls",
    "slug quota",
    "Calls that `per_hour` or `per_day` leaves: `hour`, `day`. Only where there is such a quota.",
)
GUARD = _gauge(
    By.API,
    "tracker_fitting_guard_seconds",
    "slug",
    "The guard that the measured scatter of a courier's answers asks for. Only where that is more "
    "than its `guard_ms`; workers keep as much of it as `guard_most_ms` allows.",
)
NUMBERS = _counter(
    By.API,
    "tracker_numbers_called_total",
    "slug",
    "Numbers that couriers were asked about who answer for several in one call; divided by "
    "`tracker_calls_made_total` they tell how full calls are.",
)
MADE = _counter(
    By.API,
    "tracker_calls_made_total",
    "slug",
    "Calls that were made to couriers who answer for several numbers in one.",
)
DUE = _gauge(
    By.API,
    "tracker_checks_due",
    "slug",
    "Re-checks that are due and not put yet, 10,000 at most; only of couriers that have some.",
)
BEHIND = _gauge(
    By.API,
    "tracker_checks_behind_seconds",
    "slug",
    "For how long the first of them is due: so far the plan is behind.",
)
DELIVERIES = _gauge(
    By.API,
    "tracker_deliveries",
    "state",
    "Deliveries of webhooks that are not over, counted once a minute: `open`, `held`.",
)
DELIVERIES_ENDED = _counter(
    By.API,
    "tracker_deliveries_ended_total",
    "state",
    "Deliveries of today (UTC) that are over, counted every ten minutes: `delivered`, `dead`, "
    "`cancelled`.",
)
SERVICES = _gauge(
    By.API,
    "tracker_services",
    "state",
    "Services that webhooks go to: `active`, `paused`, `disabled`.",
)
MAILS = _gauge(By.API, "tracker_mails_waiting", "", "Mails with alerts that are not sent yet.")
VIOLATIONS = _counter(
    By.API,
    "tracker_limit_violations_total",
    "slug limit",
    "Calls that left although a limit forbade it (`rate`, `concurrency`), judged by what workers "
    "measured. Stays 0.",
)

RELAYED = _counter(
    By.INGEST,
    "tracker_relayed_requests_total",
    "outcome",
    "What was sent to relays: `taken`, `spooled`, `handshake`, `forged` (a label that was never "
    "made), `limited` (429), `refused` (other 4xx), `unavailable` (5xx).",
)
RELAYED_SPOOLED = _gauge(
    By.INGEST,
    "tracker_relayed_spooled_requests",
    "",
    "Of them those in the spool of this machine; none when it fails.",
)
RELAYED_WAITING = _gauge(
    By.INGEST,
    "tracker_relayed_waiting_bytes",
    "",
    "Bytes of those that this door has put and no worker has taken, as far as it can tell.",
)

METRICS = tuple(each for each in list(vars().values()) if isinstance(each, Metric))
"""All of them, in this order."""
