"""Bodies of foreign requests in hand: of some the bytes are in memory, of all others in a file.

A thousand senders that are slow with 1 MiB each must not cost a door 1 GiB. Beyond IN_MEMORY_MOST
bytes, a body goes to its place in one file beside the spool, which has no name: the kernel deletes
it with the process. Nothing is synced there, as no sender has its answer yet.

Bodies that are whole take turns, as one on its way into a tube is in memory several times.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self, cast

from service.worker.deliveries.foreign_request import BODY_MOST
from tracking.errors import SpoolDown

IN_MEMORY_MOST = 16 << 20
"""Bytes of bodies that are not whole yet."""

ON_THE_WAY_MOST = 4 << 20
"""Bytes of bodies on their way; one that is larger goes alone."""


class TooLarge(Exception):
    """A body has more than BODY_MOST bytes."""


class Body:
    """One body in hand, for a `with` block; `size` is what came of it. All raise SpoolDown."""

    def __init__(self, bodies: Bodies) -> None:
        self.size = 0
        self._bodies = bodies
        self._pieces = bytearray()
        self._place: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget_pieces()
        if self._place is not None:
            self._bodies.give_back(self._place)
            self._place = None

    def add(self, piece: bytes) -> int:
        """Take what came next; gives its length. Raises TooLarge."""
        if self.size + len(piece) > BODY_MOST:
            raise TooLarge
        if self._place is None and self._bodies.has_room_for(len(piece)):
            self._pieces += piece
        else:
            if self._place is None:
                self._place = self._bodies.free_place()
                self._bodies.write(self._place, 0, bytes(self._pieces))
                self._forget_pieces()
            self._bodies.write(self._place, self.size, piece)
        self.size += len(piece)
        return len(piece)

    def whole(self) -> bytes:
        """Give all of it."""
        if self._place is None:
            return bytes(self._pieces)
        return self._bodies.read(self._place, self.size)

    def _forget_pieces(self) -> None:
        self._bodies.in_memory -= len(self._pieces)
        self._pieces = bytearray()


class Bodies:
    """All bodies in hand, for one event loop. `in_memory`: how many bytes of them."""

    def __init__(self, folder: Path) -> None:
        self.in_memory = 0
        self._folder = folder
        self._file: BinaryIO | None = None
        self._free: list[int] = []
        self._places = 0
        self._on_the_way = 0
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()

    async def wait_for(self, size: int) -> None:
        """Wait until so many bytes more may be on their way: they are, then, until they leave."""
        if not self._queue and self._fits(size):
            self._on_the_way += size
            return
        called = asyncio.get_running_loop().create_future()
        self._queue.append((called, size))
        try:
            await called
        except asyncio.CancelledError:
            if not called.cancelled():  # it was called just before
                self.leave(size)
            raise

    @property
    def room(self) -> int:
        """How many bytes may be on their way without waiting."""
        return 0 if self._queue else ON_THE_WAY_MOST - self._on_the_way

    def leave(self, size: int) -> None:
        """Let others be on their way in the place of so many bytes."""
        self._on_the_way -= size
        while self._queue and (self._queue[0][0].done() or self._fits(self._queue[0][1])):
            called, next_size = self._queue.popleft()
            if not called.done():  # else the one who waited is gone
                self._on_the_way += next_size
                called.set_result(None)

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes more may be in memory; they are, then."""
        has = self.in_memory + size <= IN_MEMORY_MOST
        self.in_memory += size * has
        return has

    def free_place(self) -> int:
        """Find a place in the file."""
        if self._free:
            return self._free.pop()
        self._places += 1
        return self._places - 1

    def give_back(self, place: int) -> None:
        """Let others have a place; without any, give the file's room back to its disk."""
        self._free.append(place)
        if len(self._free) == self._places and self._file is not None:
            self._free, self._places = [], 0
            self._file.truncate(0)

    def write(self, place: int, at: int, piece: bytes) -> None:
        """Write to a place; it goes to the kernel's memory, so that the loop may wait for it."""
        with self._refusing():
            written = os.pwrite(self._opened(), piece, place * BODY_MOST + at)
            if written < len(piece):
                raise OSError(0, "no room on the disk")

    def read(self, place: int, size: int) -> bytes:
        """Read what stands at a place."""
        with self._refusing():
            return os.pread(self._opened(), size, place * BODY_MOST)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _opened(self) -> int:
        if self._file is None:
            made = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - `close`
            self._file = cast("BinaryIO", made)
        return self._file.fileno()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"bodies cannot be kept in {self._folder} ({error.strerror})"
            raise SpoolDown(what, "Free some of the disk.") from error

    def _fits(self, size: int) -> bool:
        return not self._on_the_way or self._on_the_way + size <= ON_THE_WAY_MOST
