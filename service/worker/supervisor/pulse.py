"""The pulse of a machine's workers: their parent answers, `check --worker` asks.

Both talk over a socket in Linux' abstract namespace, so no server, no file and no folder is needed:
it works in a read-only container, and its name goes with the process. A parent that hangs does not
answer; whether its children beat is what it says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import socket
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PATIENCE_SECONDS = 2.0
"""A parent sleeps until somebody asks: one that needs longer than this hangs."""

_NAMES = Path("/proc/net/unix")
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group at the other end, as SO_PEERCRED gives them."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The answer of one parent. `since` is Unix time in seconds.

    Of a parent that does not answer only `pid` is known.
    """

    pid: int
    version: str = ""
    since: float = 0.0
    processes: int = 0
    beating: int = 0


def open_door(installation: str) -> socket.socket | None:
    """Open the socket at which others may ask; None where the system has none of this kind."""
    door = socket.socket(socket.AF_UNIX)
    try:
        # Random, because containers that share a network may have equal process ids.
        door.bind(f"\0{_prefix(installation)}{secrets.token_hex(8)}")
        door.listen()
        door.settimeout(0)
    except OSError:
        door.close()
        return None
    return door


def answer(door: socket.socket, pulse: Pulse) -> None:
    """Tell all who ask; one that does not read is not waited for."""
    with contextlib.suppress(OSError):
        while True:
            asking, _ = door.accept()
            with asking:
                asking.settimeout(0)
                asking.send(json.dumps(asdict(pulse)).encode())


def pulses(installation: str, patience: float = PATIENCE_SECONDS) -> Iterator[Pulse]:
    """Ask all workers of this machine, or of this container, that were started so."""
    named = f"@{_prefix(installation)}"
    words = _NAMES.read_text("utf-8", "replace").split() if _NAMES.exists() else []
    for name in sorted({word for word in words if word.startswith(named)}):
        with socket.socket(socket.AF_UNIX) as asking, contextlib.suppress(ConnectionError):
            asking.settimeout(patience)
            asking.connect(f"\0{name[1:]}")
            told = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid = _CREDENTIALS.unpack(told)[0]
            # 0: another container that shares our network; it has a check of its own.
            if pid:
                yield _read(asking) or Pulse(pid)


def _read(asking: socket.socket) -> Pulse | None:
    try:
        with asking.makefile("rb") as file:
            return Pulse(**json.loads(file.read()))
    except (OSError, ValueError, TypeError):
        return None


def _prefix(installation: str) -> str:
    # A path may be longer than the name of a socket.
    return f"courier-tracking/{hashlib.sha256(installation.encode()).hexdigest()[:16]}/"
