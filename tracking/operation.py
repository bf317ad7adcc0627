"""An operation: what became of one request, as its producer may ask."""

from __future__ import annotations

import re
from enum import StrEnum

from tracking.request import (
    Account,
    Origin,
    TrackingRequest,
    account_and_id,
    anonymous_id,
    operation_id,
    own_number,
)

_RECHECK = "recheck-"
_RECHECK_ID = re.compile(f"{_RECHECK}[0-9a-f]{{32}}")


class State(StrEnum):
    """The state of an operation. SUCCESS, ERROR and CANCELLED are ends.

    WAITING ends directly when another call's answer is fresh enough for it. No script makes another
    move than these (limits/lua/lib/state.lua).

    ========== ============================================ =======================================
    state      means                                        next
    ========== ============================================ =======================================
    QUEUED     put over HTTP, not taken from its tube yet   any other
    WAITING    in Redis, behind a limit or before a retry   RUNNING, SUCCESS, ERROR, CANCELLED
    RUNNING    a call to the courier is permitted           SUCCESS, ERROR, WAITING (repeated),
                                                            CANCELLED (forgotten)
    SUCCESS    the answer is stored                         --
    ERROR      it ended without an answer; `error` says why --
    CANCELLED  cancelled, expired, superseded or forgotten  --
    ========== ============================================ =======================================
    """

    QUEUED = "QUEUED"
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


ENDS = frozenset({State.SUCCESS, State.ERROR, State.CANCELLED})


def id_of(request: TrackingRequest, job_key: str) -> str:
    """Name the operation of a request, as it can be asked for; `job_key` names its job."""
    return request.id or anonymous_id(request.slug, request.number, job_key)


def number_of(number: str, operation: str) -> str:
    """Name the number of an operation as Redis has it."""
    return own_number(number, account_and_id(operation)[0])


def recheck_id(account: Account, digest: str) -> str:
    """Name the operation of a re-check, which the schedule of its parcel asks for."""
    return operation_id(account, f"{_RECHECK}{digest}")


def is_recheck(request: TrackingRequest) -> bool:
    """Tell a re-check from what a producer put."""
    _, identity = account_and_id(request.id or "")
    return request.origin is Origin.AUTOMATIC and _RECHECK_ID.fullmatch(identity) is not None
