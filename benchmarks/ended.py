"""Operations that ended, as scripts write them into Redis."""

from __future__ import annotations

import datetime as dt
import json

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
NOW_MS = round(NOW.timestamp() * 1000)
PARCEL_OPERATIONS = 10
BATCH = 5_000


def number_of(index: int) -> str:
    """The parcel's number of an operation; some operations are of the same parcel."""
    return f"9400111{index // PARCEL_OPERATIONS:015}"


def status_of(index: int) -> tuple[str, str]:
    """An operation's id and its status, as lua/lib/state.lua writes it."""
    at_ms = NOW_MS - index
    status = {
        "status": "SUCCESS",
        "tracking": f"usps:{number_of(index)}",
        "at": at_ms,
        "startedAt": "2026-03-01T12:00:00.000Z",
        "finishedAt": "2026-03-01T12:00:00.212Z",
        "output": {"tag": "InTransit", "subtag": "InTransit_003", "checkpoints": 12},
        "attempts": [[at_ms, "answered", 200, 212]],
    }
    return f"order-{index:012}", json.dumps(status, separators=(",", ":"))
