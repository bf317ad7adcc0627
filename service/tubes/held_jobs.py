"""How many jobs one process may hold, shared fairly by the threads that reserve them."""

from __future__ import annotations

import threading
from typing import Protocol


class Guest(Protocol):
    """Somebody who takes room, and is woken when there is some after there was none."""

    def wake(self) -> None:
        """Try to take again."""


class HeldJobs:
    """A count that several threads take from and give back to.

    Who finds no room stands in a queue until it takes some or leaves. What comes free belongs to
    the queue first: else the server whose jobs end just now would get all room again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._queue: dict[Guest, None] = {}
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        """Places taken: jobs that are held."""
        return self._taken

    def is_open(self, guest: Guest) -> bool:
        """Whether there is a place just now. False: there is none; `guest` will be woken."""
        with self._lock:
            return self._granted(guest, 1) > 0

    def take(self, guest: Guest, most: int) -> int:
        """Take up to `most` places. 0: there is none; `guest` will be woken."""
        with self._lock:
            granted = self._granted(guest, most)
            self._taken += granted
            return granted

    def give(self, count: int, by: Guest | None = None) -> None:
        """Give places back; wakes who waits for some, but not `by`, who is awake."""
        with self._lock:
            self._taken -= count
            queue = [guest for guest in self._queue if guest is not by]
        for guest in queue:
            guest.wake()

    def leave(self, guest: Guest) -> None:
        """Stand in the queue no more; nothing happens to who does not."""
        with self._lock:
            left = guest in self._queue
            self._queue.pop(guest, None)
            queue = tuple(self._queue) if left else ()
        for other in queue:
            other.wake()

    def resize(self, most: int) -> None:
        """Allow `most` from now on; what is held beyond that is not taken away."""
        with self._lock:
            self._most = most
            queue = tuple(self._queue)
        for guest in queue:
            guest.wake()

    def _granted(self, guest: Guest, most: int) -> int:
        ahead = 0
        for other in self._queue:
            if other is guest:
                break
            ahead += 1
        granted = max(0, min(most, self._most - self._taken - ahead))
        if granted:
            self._queue.pop(guest, None)
        else:
            self._queue[guest] = None
        return granted
