"""The health of a service: when it fails, when it is disabled, and when people are alerted.

What an attempt shows, and what is written of it into the service's document:

============================ ======================================================================
attempt                      written
============================ ======================================================================
delivered                    `failing_since` goes; of a service that is well nothing is written
a failure of the service     `failing_since`, with the first of them in a row
410                          disabled at once ("gone")
a failure of the service,    disabled ("failing")
`DISABLE_AFTER` behind the
first one in a row
============================ ======================================================================

What people hear of, for a service as for anything else that may be in trouble:

=========== ============================================ =========================================
alert       trouble                                      follows
=========== ============================================ =========================================
none        for `ALERT_AFTER`, or grave                  RAISE: one mail
raised      became grave, or grave once more             ESCALATE: one mail
raised      ended                                        REST: the time of rest begins
resting     is back                                      RETURN: no mail
resting     none for the time of rest                    RESOLVE: one mail
=========== ============================================ =========================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from service.worker.deliveries.attempt import Ending, Failure
from service.worker.deliveries.service import Service, ServiceState

DISABLE_AFTER = dt.timedelta(days=5)
"""Of failures and nothing else: a receiver that is gone for longer needs somebody to look."""

JOINS_FOR = dt.timedelta(days=7)
"""How long new deliveries still join those of a disabled service."""

ALERT_AFTER = dt.timedelta(minutes=15)
"""What ends sooner is no matter for a mail: attempts are repeated anyway."""

REST = dt.timedelta(minutes=15)
"""How long all is well before an alert is resolved."""

TRUST_SECONDS = 60.0
"""How long a process goes by what it knows of a service: another one may have written since."""

FLAP_SECONDS = 10.0
"""A service that fails every other time costs two writes in so many seconds, not two an attempt."""


class DisabledWhy(StrEnum):
    """Why a service was disabled."""

    GONE = "gone"
    FAILING = "failing"


class Note(StrEnum):
    """What an attempt gives cause to write."""

    WELL = "well"
    FAILING = "failing"
    GONE = "gone"


class Noted(NamedTuple):
    """What a process knows to be written of a service since `read_at`, on `time.monotonic()`."""

    failing_since: dt.datetime | None
    read_at: float


def takes_new(service: Service, now: dt.datetime) -> bool:
    """Whether a new event makes a delivery for a service that wants it."""
    if service.state is ServiceState.DISABLED:
        return service.disabled_at is None or now < service.disabled_at + JOINS_FOR
    return service.state is not ServiceState.DELETED


def note_of(ending: Ending, noted: Noted | None, *, first: bool, now: float) -> Note | None:
    """Say what is to be written after an attempt; None: nothing, as is usual.

    `first`: no attempt of its delivery had failed before. `now`: on `time.monotonic()`.
    """
    if ending.failure is Failure.GONE:
        return Note.GONE
    known = noted if noted and now - noted.read_at < TRUST_SECONDS else None
    if ending.failure is None:
        # What failed before may have been written by another process.
        return None if first and known and known.failing_since is None else Note.WELL
    if known is None:
        return Note.FAILING
    flaps = known.failing_since is None and now - known.read_at < FLAP_SECONDS
    return None if known.failing_since is not None or flaps else Note.FAILING


def has_failed_for_long(failing_since: dt.datetime | None, at: dt.datetime) -> bool:
    """Whether a service that fails `at` is to be disabled."""
    return failing_since is not None and at - failing_since >= DISABLE_AFTER


class Trouble(NamedTuple):
    """What is wrong with something, since when; `grave`: people are to hear of it at once."""

    since: dt.datetime
    why: str
    grave: bool = False


@dataclass(frozen=True, slots=True)
class Alert:
    """What people were alerted of, as the collection `alerts` has it.

    `id` names what is in trouble: `service:<id>`, `credentials:<slug>`, `dead`. `episode` is random
    and names its mails. `since`, `why`, `grave`: the trouble that the newest mail is about. `told`:
    that mail waits, or is sent. `well_since`: of one that rests. `resolved_at`: the last mail is to
    be written, then the alert goes.
    """

    id: str
    account: str
    episode: str
    since: dt.datetime
    why: str
    grave: bool = False
    told: bool = False
    well_since: dt.datetime | None = None
    resolved_at: dt.datetime | None = None


class Step(StrEnum):
    """What becomes of an alert, by the table above."""

    RAISE = "raise"
    ESCALATE = "escalate"
    REST = "rest"
    RETURN = "return"
    RESOLVE = "resolve"


def step_of(alert: Alert | None, trouble: Trouble | None, now: dt.datetime) -> Step | None:
    """Say what is to be done; None: nothing."""
    if alert is None:
        urgent = trouble is not None and (trouble.grave or now - trouble.since >= ALERT_AFTER)
        return Step.RAISE if urgent else None
    if trouble is None:
        if alert.well_since is None:
            return Step.REST
        return Step.RESOLVE if now - alert.well_since >= REST else None
    if trouble.grave and not (alert.grave and alert.since >= trouble.since):
        return Step.ESCALATE
    return Step.RETURN if alert.well_since is not None else None


def trouble_of(document: Mapping[str, Any]) -> Trouble | None:
    """Read out of the document of a service what is wrong with it."""
    if document["state"] == ServiceState.DISABLED:
        since = document.get("disabled_at") or document["made_at"]
        return Trouble(since, document.get("disabled_why") or DisabledWhy.FAILING.value, grave=True)
    failing_since = (document.get("health") or {}).get("failing_since")
    if failing_since is None or document["state"] == ServiceState.DELETED:
        return None
    return Trouble(failing_since, DisabledWhy.FAILING.value)


def alert_in(document: Mapping[str, Any]) -> Alert:
    """Read a document of `alerts`. Raises KeyError for what is none."""
    return Alert(
        id=document["_id"],
        account=document["account"],
        episode=document["episode"],
        since=document["since"],
        why=document["why"],
        grave=document["grave"],
        told=document["told"],
        well_since=document["well_since"],
        resolved_at=document["resolved_at"],
    )
