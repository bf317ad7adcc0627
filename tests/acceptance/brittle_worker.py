"""A worker whose reader of feeds breaks on one number: `python brittle_worker.py run` runs it.

BREAKS_ON is the number, BREAKS_BY tells how: "an error" that no courier module should raise, or
"death": the process is gone at once, like one that runs out of memory.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from couriers import json_feed
from service.console import main
from service.worker.supervisor import parent

Read = Callable[..., Any]
Start = Callable[[Sequence[str]], parent.Child]


def brittle(read: Read) -> Read:
    """Read an answer, but for one that is about the number."""

    def reading(status: int, headers: Any, body: bytes, asked: Any) -> Any:
        if os.environ["BREAKS_ON"] in asked:
            if os.environ["BREAKS_BY"] == "death":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError
        return read(status, headers, body, asked)

    return reading


def with_this_program(start: Start) -> Start:
    """Start processes that run this program, in the place of worker.py."""
    return lambda command: start([command[0], __file__, *command[2:]])


if __name__ == "__main__":
    parent.start = with_this_program(parent.start)
    for name in ("parse", "parse_many"):
        setattr(json_feed, name, brittle(getattr(json_feed, name)))
    sys.exit(main(sys.argv[1:]))
