"""What happened, line by line, and how often each kind of thing did."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable

KEPT_LINES = 400


class Trace:
    """The lines of one world. The digest is over all of them, so it stands for the whole run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._hash = hashlib.blake2b(digest_size=12)
        self.count = 0
        self.last: deque[str] = deque(maxlen=KEPT_LINES)
        self.faults: Counter[str] = Counter()
        self.repairs: Counter[str] = Counter()
        self.breaches: list[str] = []

    def add(self, who: str, what: str) -> None:
        line = f"{self._clock():11.5f} {who:9} {what}"
        self.last.append(line)
        self._hash.update(line.encode())
        self.count += 1

    def fault(self, kind: str, who: str = "world", detail: str = "") -> None:
        self.faults[kind] += 1
        self.add(who, f"! {kind} {detail}".rstrip())

    def repair(self, kind: str, times: int = 1) -> None:
        if times:
            self.repairs[kind] += times

    def breach(self, promise: str, what: str) -> None:
        """A promise was broken. The run goes on: what follows may tell why."""
        self.breaches.append(f"{promise}: {what}")
        self.add("judge", f"BROKEN {promise}: {what}")

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
