"""How many jobs one process may hold, shared fairly by the servers that they come from."""

from __future__ import annotations

from typing import Protocol


class Guest(Protocol):
    """Somebody who takes room, and is woken when there is some after there was none."""

    def wake(self) -> None:
        """Try to take again."""


class HeldJobs:
    """A count that several reservers take from and give back to.

    One that finds no room stands in a queue until it takes some or leaves. What comes free belongs
    to the queue first: else the server whose jobs end just now would get all room again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: dict[Guest, None] = {}
        self.taken = 0
        """Places taken: jobs that are held."""

    def is_open(self, guest: Guest) -> bool:
        """Whether there is a place just now. False: there is none; `guest` will be woken."""
        return self._granted(guest, 1) > 0

    def take(self, guest: Guest, most: int) -> int:
        """Take up to `most` places. 0: there is none; `guest` will be woken."""
        granted = self._granted(guest, most)
        self.taken += granted
        return granted

    def give(self, count: int) -> None:
        """Give places back; wakes those that wait for some."""
        self.taken -= count
        self._wake()

    def leave(self, guest: Guest) -> None:
        """Stand in the queue no more; does nothing to one that does not."""
        if guest in self._queue:
            del self._queue[guest]
            self._wake()

    def resize(self, most: int) -> None:
        """Allow `most` from now on; what is held beyond that is not taken away."""
        self._most = most
        self._wake()

    def _wake(self) -> None:
        for guest in self._queue:
            guest.wake()

    def _granted(self, guest: Guest, most: int) -> int:
        ahead = 0
        for other in self._queue:
            if other is guest:
                break
            ahead += 1
        granted = max(0, min(most, self._most - self.taken - ahead))
        if granted:
            self._queue.pop(guest, None)
        else:
            self._queue[guest] = None
        return granted
