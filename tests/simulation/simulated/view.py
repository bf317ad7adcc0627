"""A `Keyspace` as `tests/limits/limits_invariants.py` wants to see one courier's Redis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from limits_bench import USPS

from simulated.commands import execute
from simulated.keyspace import Keyspace
from simulated.plan import SLUGS

OF_OTHERS = tuple(f":{slug}" for slug in SLUGS)
ENDS = {"SUCCESS", "ERROR", "CANCELLED"}
Pairs = dict[str, str]


class View:
    """The keys of one courier under the names of usps'.

    Only keys that were written by the last script are looked at one by one: the others were before.
    Ends of operations are not told, because `watch` counts them over all couriers.
    """

    is_one_line_of_several = True

    def __init__(self, space: Keyspace, slug: str, *, clock_steps: bool) -> None:
        """`clock_steps`: only that a key ends can be judged then, not when."""
        self._space = space
        self._slug = slug
        self._clock_steps = clock_steps

    def pipeline(self, *, transaction: bool) -> Several:
        assert isinstance(transaction, bool)
        return Several(self)

    def do(self, command: str, *args: object) -> Any:
        first, *rest = map(str, args)
        return execute(self._space, command, [self._theirs(first), *rest])

    def lrange(self, key: str, start: int, stop: int) -> Any:
        return self.do("LRANGE", key, start, stop)

    def zrange(self, key: str, start: int, stop: int) -> Any:
        return self.do("ZRANGE", key, start, stop)

    def hgetall(self, key: str) -> Pairs:
        flat = self.do("HGETALL", key)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def exists(self, key: str) -> int:
        return int(self.do("EXISTS", key))

    def pttl(self, key: str) -> int:
        left_ms = int(self.do("PTTL", key))
        return min(left_ms, 1) if self._clock_steps else left_ms

    def time(self) -> tuple[int, int]:
        now_ms = self._space.now_ms
        return now_ms // 1_000, now_ms % 1_000 * 1_000

    def mget(self, *keys: str) -> list[str | None]:
        return [self.do("GET", key) for key in keys]

    def keys(self, pattern: str = "") -> Iterable[str]:
        if pattern:
            return []
        written = list(self._space.written)
        return [self._ours(key) for key in written if self._is_mine(key)]

    def _is_mine(self, key: str) -> bool:
        if self._space.find(key) is None or ":~" in key:  # of a service's line
            return False
        return key.endswith(f":{self._slug}") or not key.endswith(OF_OTHERS)

    def _theirs(self, key: str) -> str:
        return f"{key.removesuffix(USPS)}{self._slug}" if key.endswith(f":{USPS}") else key

    def _ours(self, key: str) -> str:
        suffix = f":{self._slug}"
        return f"{key.removesuffix(suffix)}:{USPS}" if key.endswith(suffix) else key


class Several:
    """A pipeline."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._replies: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def ask(*args: Any) -> None:
            self._replies.append(getattr(self._view, name)(*args))

        return ask

    def execute(self) -> list[Any]:
        return self._replies
