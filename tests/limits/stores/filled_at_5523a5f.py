"""How shared_records.json was made: run as a test in a checkout of commit 5523a5f.

    git worktree add ../old 5523a5f && cp tests/limits/stores/filled_at_5523a5f.py \
        ../old/tests/limits/test_filled.py
    cd ../old && STORE=shared_records.json python -m pytest tests/limits/test_filled.py

It fills a real Redis by that commit's own scripts, and writes down every key that lasts.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from limits_bench import FAST, Hire, failed
from redis.asyncio import Redis

from tracking.request import Origin

POSTAL = "tracking_postal_code"
MINE, THEIRS = {POSTAL: "8000"}, {POSTAL: "1010"}


async def test_fill(hire: Hire, redis: Redis) -> None:
    worker, wide = await hire(replace(FAST, concurrent=4)), await hire(FAST)
    # In flight for one account, others behind it, with equal and with different fields.
    await worker.granted("F001", id="F001-a", fields=MINE)
    await worker.parked("F001", id="shop/F001-b", fields=MINE)
    await worker.parked("F001", id="other/F001-c", fields=THEIRS)
    await worker.granted("F002", id="shop/F002-a", fields=THEIRS)
    await worker.parked("F002", id="F002-b")
    await worker.parked("F002", job="F002-job")
    # To be repeated, for main and for another account; others came since.
    repeated = []
    for number, whose in (("R001", ""), ("R002", "shop/")):
        repeated.append(await worker.granted(number, id=f"{whose}{number}-a", fields=MINE))
        await worker.parked(number, id=f"other/{number}-b", fields=MINE)
        await worker.parked(number, id=f"shop/{number}-c", fields=THEIRS)
    # In flight for two accounts at once, as they waited together; a third one behind it.
    for number in ("F003", "F004"):
        await worker.parked(number, id=f"shop/{number}-a", fields=MINE)
        await worker.parked(number, id=f"other/{number}-b", fields=MINE)
        await worker.parked(number, id=f"{number}-c", fields=THEIRS)
    assert [call.request.number for call in (await wide.take(2)).calls] == ["F003", "F004"]
    # Waiting.
    await worker.parked("W001", id="W001-a", fields=MINE)
    await worker.parked("W001", id="shop/W001-b", fields=THEIRS)
    await worker.parked("W001", id="other/W001-c", fields=MINE)
    await worker.parked("W001", job="W001-job")
    await worker.parked("W002", id="W002-a")
    await worker.parked("W002", id="shop/W002-b")
    await worker.parked("W003", id="shop/W003-a", fields=MINE)
    for n in range(40):
        whose = ("", "shop/", "other/")[n % 3]
        await worker.parked("W004", id=f"{whose}W004-{n}", fields=MINE if n % 3 else THEIRS)
    await worker.parked("W005", id="shop/W005-a", origin=Origin.AUTOMATIC)
    await worker.parked("W006", id="W006-a")
    for call in repeated:
        await worker.limiter.retry(call, failed(charged=True, delay=60.0, brake=None), 0)
    text = json.dumps(await dumped(redis), indent=1) + "\n"
    Path(os.environ["STORE"]).write_text(text)  # noqa: ASYNC240 - nobody waits


async def dumped(redis: Redis) -> dict[str, Any]:
    """Read every key, but those by which nothing decides later."""
    found: dict[str, Any] = {}
    for name in sorted(await redis.keys("*")):
        match await redis.type(name):
            case "string":
                if not name.startswith("tracking:stats"):
                    found[name] = await redis.get(name)
            case "list":
                found[name] = await redis.lrange(name, 0, -1)
            case "hash":
                if not name.startswith("tracking:stats"):
                    found[name] = {"hash": await redis.hgetall(name)}
            case "zset":
                found[name] = {"zset": dict(await redis.zrange(name, 0, -1, withscores=True))}
            case "set":
                found[name] = {"set": sorted(await redis.smembers(name))}
    return found
