"""When a service fails, when it is disabled, when people are alerted: all pure."""

from __future__ import annotations

import datetime as dt

import pytest
from test_service import service

from service.worker.deliveries.attempt import Ending, Failure
from service.worker.deliveries.health import (
    Alert,
    Note,
    Noted,
    Step,
    Trouble,
    has_failed_for_long,
    note_of,
    step_of,
    takes_new,
    trouble_of,
)
from service.worker.deliveries.service import ServiceState, document_of

NOW = dt.datetime(2026, 11, 26, 12, 0, tzinfo=dt.UTC)
DAY, MINUTE, SECOND = dt.timedelta(days=1), dt.timedelta(minutes=1), dt.timedelta(seconds=1)
WELL, FAILED = Ending(status=200), Ending(Failure.SERVER_ERROR, 500)
GONE = Ending(Failure.GONE, 410)


@pytest.mark.parametrize(
    ("ending", "noted", "first", "note"),
    [
        (WELL, None, True, Note.WELL),
        (WELL, Noted(None, 95.0), True, None),
        (WELL, Noted(None, 95.0), False, Note.WELL),
        (WELL, Noted(None, 30.0), True, Note.WELL),
        (WELL, Noted(NOW, 95.0), True, Note.WELL),
        (FAILED, None, True, Note.FAILING),
        (FAILED, Noted(NOW, 95.0), False, None),
        (FAILED, Noted(NOW, 30.0), False, Note.FAILING),
        (FAILED, Noted(None, 80.0), False, Note.FAILING),
        (FAILED, Noted(None, 95.0), False, None),
        (GONE, Noted(None, 95.0), True, Note.GONE),
        (GONE, Noted(NOW, 95.0), True, Note.GONE),
    ],
    ids=[
        "nothing is known yet",
        "well, and known to be: no write",
        "well, but this delivery had failed, perhaps in another process",
        "what is known is old",
        "failed until now",
        "the first failure",
        "failing, and known to be: no write",
        "failing, but another process may have seen it well",
        "failing after it was well",
        "failing right after it was well: at most a write in ten seconds",
        "gone",
        "gone after failures",
    ],
)
def test_what_an_attempt_gives_cause_to_write(
    ending: Ending, noted: Noted | None, note: Note | None, *, first: bool
) -> None:
    assert note_of(ending, noted, first=first, now=100.0) == note


def test_a_service_is_to_be_disabled_after_five_days_of_failures() -> None:
    assert not has_failed_for_long(None, NOW)
    assert not has_failed_for_long(NOW - 5 * DAY + SECOND, NOW)
    assert has_failed_for_long(NOW - 5 * DAY, NOW)


@pytest.mark.parametrize(
    ("state", "disabled_at", "takes"),
    [
        (ServiceState.ACTIVE, None, True),
        (ServiceState.PAUSED, None, True),
        (ServiceState.DISABLED, NOW - 7 * DAY + SECOND, True),
        (ServiceState.DISABLED, NOW - 7 * DAY, False),
        (ServiceState.DELETED, None, False),
    ],
)
def test_new_deliveries_join_those_of_a_disabled_service_for_seven_days(
    state: ServiceState, disabled_at: dt.datetime | None, *, takes: bool
) -> None:
    assert takes_new(service(state=state, disabled_at=disabled_at), NOW) is takes


def test_a_disabled_service_is_in_grave_trouble_and_a_failing_one_in_trouble() -> None:
    well = document_of(service(state=ServiceState.ACTIVE))
    disabled = document_of(
        service(state=ServiceState.DISABLED, disabled_at=NOW, disabled_why="gone")
    )

    assert trouble_of(well) is None
    assert trouble_of(well | {"health": {"failing_since": NOW}}) == Trouble(NOW, "failing")
    assert trouble_of(disabled) == Trouble(NOW, "gone", grave=True)


def alert(**members: object) -> Alert:
    made = {"id": "service:a", "account": "shop", "episode": "e", "since": NOW, "why": "failing"}
    return Alert(**(made | members))  # type: ignore[arg-type]


FAILING, DISABLED = Trouble(NOW, "failing"), Trouble(NOW, "failing", grave=True)
GRAVE = alert(grave=True)


@pytest.mark.parametrize(
    ("before", "trouble", "minutes", "step"),
    [
        (None, None, 60, None),
        (None, FAILING, 14, None),
        (None, FAILING, 15, Step.RAISE),
        (None, DISABLED, 0, Step.RAISE),
        (alert(), FAILING, 60, None),
        (alert(), DISABLED, 0, Step.ESCALATE),
        (GRAVE, DISABLED, 60, None),
        (GRAVE, Trouble(NOW + MINUTE, "gone", grave=True), 60, Step.ESCALATE),
        (GRAVE, FAILING, 60, None),
        (alert(), None, 20, Step.REST),
        (alert(well_since=NOW), None, 14, None),
        (alert(well_since=NOW), None, 15, Step.RESOLVE),
        (alert(well_since=NOW), FAILING, 14, Step.RETURN),
    ],
    ids=[
        "all is well",
        "it may end by itself",
        "it has lasted",
        "it is grave",
        "people know",
        "it became grave",
        "people know that, too",
        "it was disabled once more",
        "it is active again, and fails",
        "it ended",
        "for a short time",
        "for good",
        "only for a while",
    ],
)
def test_what_becomes_of_an_alert(
    before: Alert | None, trouble: Trouble | None, minutes: int, step: Step | None
) -> None:
    assert step_of(before, trouble, NOW + minutes * MINUTE) == step
