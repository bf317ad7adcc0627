"""An operation: what became of one request, as its producer may ask."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where an operation stands. WAITING and RUNNING are not ends; the other three are.

    ========== ============================================ =======================================
    state      means                                        next
    ========== ============================================ =======================================
    WAITING    in Redis, behind a limit or before a retry   RUNNING, CANCELLED
    RUNNING    a call to the courier is permitted           SUCCESS, ERROR, WAITING (repeated),
                                                            CANCELLED (forgotten)
    SUCCESS    the answer is stored                         --
    ERROR      it ended without an answer; `error` says why --
    CANCELLED  cancelled, expired, superseded or forgotten  --
    ========== ============================================ =======================================
    """

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


ENDS = frozenset({State.SUCCESS, State.ERROR, State.CANCELLED})

TRANSITIONS: dict[State, frozenset[State]] = {
    State.WAITING: frozenset({State.RUNNING, State.CANCELLED, State.SUCCESS, State.ERROR}),
    State.RUNNING: frozenset({State.WAITING, State.SUCCESS, State.ERROR, State.CANCELLED}),
    State.SUCCESS: frozenset(),
    State.ERROR: frozenset(),
    State.CANCELLED: frozenset(),
}
"""The allowed moves. WAITING ends directly when another call's answer is fresh enough for it."""
