"""Words for failed connections, and the end of tasks that wait for a connection.

The words are never a library's own: those may hold an address or a key.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Iterator

_ERRNO = re.compile(r"\[Errno (\d+)\]")
_IN_TIME = "no answer in time"

CANCEL_SECONDS = 0.1


def network_reason(error: BaseException) -> str:
    """Say what the network did, as far as `error` or what caused it tells; else ""."""
    return next(filter(None, map(_reason, causes(error))), "")


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Give `error`, what caused it, what caused that, and so on."""
    seen = 0
    while error is not None and seen < 10:  # noqa: PLR2004 - a chain may be a ring
        yield error
        error = error.__cause__ or error.__context__
        seen += 1


def _reason(error: BaseException) -> str:
    match error:
        case TimeoutError():
            return _IN_TIME
        case ssl.SSLError():
            # A library's own kind of it carries neither: what caused it does.
            reason = getattr(error, "verify_message", "") or getattr(error, "reason", "")
            return f"TLS failed: {reason}" if reason else ""
        case socket.gaierror():
            return str(error.strerror or "the name is not known")
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case OSError(errno=None):
            # Several addresses were tried, and only the text tells how that went.
            found = _ERRNO.search(str(error))
            return os.strerror(int(found[1])) if found else "the connection ended"
    return ""


async def stopped(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks until they have ended.

    Once is not enough: with Python 3.11 `asyncio.wait_for`, which redis-py sends with, swallows a
    cancellation that comes when it is done.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=CANCEL_SECONDS)
