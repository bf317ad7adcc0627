"""What a Redis keeps: values of six types, and when each ends, on the world's own clock.

Text is held as latin-1, one character for each byte, so that Lua and Python see the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypeVar


class Hash(dict[str, str]):
    """Fields in the order in which they were set."""


class Members(dict[str, None]):
    """A set, in the order in which its members came."""


class Scores(dict[str, float]):
    """A sorted set: member to score."""

    def ranked(self) -> list[tuple[str, float]]:
        return sorted(self.items(), key=lambda item: (item[1], item[0]))


class Items(list[str]):
    """A list."""


class Entries(list[tuple[str, Sequence[str]]]):
    """A stream: ids with their fields and values."""


Value = str | Hash | Members | Scores | Items | Entries
Saved = tuple[dict[str, Value], dict[str, int]]
T = TypeVar("T", Hash, Members, Scores, Items, Entries)


@dataclass(frozen=True, slots=True)
class Status:
    """A reply that is a status, such as OK."""

    text: str = "OK"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reply that is an error."""

    text: str


class RefusedError(Exception):
    """A command that Redis would not do; the text is Redis'."""


WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class Keyspace:
    """One database. `instant` tells Redis' time in µs; it stands still while a script runs."""

    def __init__(self, instant: Callable[[], int]) -> None:
        self._instant = instant
        self._values: dict[str, Value] = {}
        self._ends: dict[str, int] = {}
        self.now_us = instant()
        self.written: dict[str, None] = {}
        self.expired_leases = 0
        self.full = False
        self.runs = 1
        self.promotions = 0
        self._saved: dict[str, Value] = {}
        self._unsaved: dict[str, None] = {}
        self.replicated = False

    def tick(self) -> None:
        """Let time go on; what was written since is forgotten."""
        self.now_us = self._instant()
        if self.replicated:
            self._unsaved |= self.written
        self.written = {}

    def saved(self) -> Saved:
        """A copy of everything, to `restore`; what was not written since the last one is shared."""
        changed = self._unsaved | self.written
        kept = {key: value for key, value in self._saved.items() if key not in changed}
        new = {key: copy(self._values[key]) for key in changed if key in self._values}
        self._saved, self._unsaved = kept | new, {}
        return self._saved, dict(self._ends)

    def restore(self, saved: Saved) -> None:
        values, ends = saved
        self._values = {key: copy(value) for key, value in values.items()}
        self._saved, self._unsaved = values, {}
        self._ends = dict(ends)

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    def find(self, key: str) -> Value | None:
        ends = self._ends.get(key)
        if ends is not None and self.now_ms > ends:
            self.drop(key)
            return None
        return self._values.get(key)

    def text(self, key: str) -> str | None:
        value = self.find(key)
        if value is None or isinstance(value, str):
            return value
        raise RefusedError(WRONG_TYPE)

    def of(self, kind: type[T], key: str) -> T | None:
        value = self.find(key)
        if value is None or isinstance(value, kind):
            return value
        raise RefusedError(WRONG_TYPE)

    def made(self, kind: type[T], key: str) -> T:
        """As `of`, and one that is empty where there is none; it is going to be written."""
        value = self.of(kind, key)
        if value is None:
            value = kind()
            self._values[key] = value
        self.written[key] = None
        return value

    def put(self, key: str, value: str, *, keep_end: bool = False) -> None:
        self._values[key] = value
        self.written[key] = None
        if not keep_end:
            self._ends.pop(key, None)

    def drop(self, key: str) -> bool:
        self._ends.pop(key, None)
        self.written[key] = None
        return self._values.pop(key, None) is not None

    def rename(self, key: str, other: str) -> bool:
        value = self.find(key)
        if value is None:
            return False
        ends = self._ends.get(key)
        self.drop(key)
        self.drop(other)
        self._values[other] = value
        if ends is not None:
            self._ends[other] = ends
        return True

    def tidy(self, key: str) -> None:
        """Something was taken away: empty collections do not exist."""
        self.written[key] = None
        if not self._values[key]:
            self.drop(key)

    def end_at(self, key: str, at_ms: int | None) -> bool:
        if self.find(key) is None:
            return False
        self.written[key] = None
        if at_ms is None:
            return self._ends.pop(key, None) is not None
        if at_ms <= self.now_ms:
            self.drop(key)
        else:
            self._ends[key] = at_ms
        return True

    def left_ms(self, key: str) -> int:
        """What PTTL tells: -1 without an end, -2 without the key."""
        if self.find(key) is None:
            return -2
        ends = self._ends.get(key)
        return -1 if ends is None else max(0, ends - self.now_ms)

    def names(self) -> Iterator[str]:
        return iter([key for key in list(self._values) if self.find(key) is not None])

    def flush(self) -> None:
        self._values.clear()
        self._ends.clear()


def score_text(score: float) -> str:
    """A score, or a number of Lua's, as Redis writes it."""
    return str(int(score)) if score == int(score) else f"{score:.17g}"
