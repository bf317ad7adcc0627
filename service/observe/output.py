"""Where lines go: whole, in their order, and those of one turn of the event loop together.

A write costs as much as making the line, and lets another thread have the interpreter meanwhile.
A process that is killed loses the lines of its last turn at most; warnings and errors never wait.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from service.observe.line import LINE_MOST

if TYPE_CHECKING:
    import asyncio


class Output:
    """A file descriptor. Survives a full disk and a closed pipe: the work goes on unlogged."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: list[bytes] = []

    def write(self, line: bytes) -> None:
        """Write what waits, and `line`."""
        self._waiting.append(line)
        self.flush()

    def write_soon(self, line: bytes) -> None:
        """Write `line` at the end of this turn of the loop; at once where no loop runs."""
        if not self._waiting:
            loop = _running_loop()
            if loop is None:
                self.write(line)
                return
            loop.call_soon(self.flush)
        self._waiting.append(line)

    def flush(self) -> None:
        """Write what waits, in pieces that a pipe takes whole: other processes write to it too."""
        piece = b""
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            if len(piece) + len(line) > LINE_MOST:
                self._put(piece)
                piece = b""
            piece += line
        self._put(piece)

    def _put(self, piece: bytes) -> None:
        try:
            if piece:
                os.write(self._descriptor, piece)
        except OSError:
            # A full disk or a closed pipe must not stop the work that is logged.
            return


def _running_loop() -> asyncio.AbstractEventLoop | None:
    # The parent process has no loop, and stays small without asyncio.
    module = sys.modules.get("asyncio")
    try:
        return module.get_running_loop() if module else None
    except RuntimeError:
        return None
