"""Named points at which a fault run may kill this process. In production: one comparison each.

`FAILPOINT=after_store` kills the process at that point, `FAILPOINT=after_store:3` the third time it
comes there. docs/flow.md lists what each point proves.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from enum import StrEnum


class FailPoint(StrEnum):
    """Every step of the flow after which a worker may vanish."""

    AFTER_RESERVE = "after_reserve"
    AFTER_GRANT = "after_grant"
    AFTER_PARK = "after_park"
    AFTER_PUT_DRAIN = "after_put_drain"
    AFTER_ENDED = "after_ended"
    AFTER_ANSWER = "after_answer"
    AFTER_STORE = "after_store"
    AFTER_FINISH = "after_finish"
    AFTER_FAILURE_STORED = "after_failure_stored"
    AFTER_RETRY = "after_retry"
    AFTER_HAND_BACK = "after_hand_back"
    AFTER_DEAD = "after_dead"
    AFTER_DELETE = "after_delete"
    AFTER_DRAIN_RESERVE = "after_drain_reserve"
    AFTER_TAKE = "after_take"
    AFTER_HAND_OVER = "after_hand_over"
    AFTER_SWEEP = "after_sweep"


class FailPoints:
    """Kills the process at the one point that is armed, if any."""

    def __init__(self, point: FailPoint | None = None, visits: int = 1) -> None:
        self._point = point
        self._visits = visits

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> FailPoints:
        """Read `FAILPOINT`. Raises ValueError for no name: such a run proves nothing."""
        name, _, visits = environment.get("FAILPOINT", "").partition(":")
        return cls(FailPoint(name), int(visits or 1)) if name else cls()

    def reach(self, point: FailPoint) -> None:
        """Come to a point. What was awaited before it has happened, what follows has not."""
        if point is not self._point:
            return
        self._visits -= 1
        if self._visits == 0:
            os.kill(os.getpid(), signal.SIGKILL)
