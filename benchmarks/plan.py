"""How large a benchmark is to be, and where it says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.table import Table

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """`quick`: small sizes, to see that it works. `seconds`: how long each run measures, if set."""

    quick: bool
    seconds: float | None
    say: Callable[[str], None]

    def pick(self, full: T, quick: T) -> T:
        """Choose a size."""
        return quick if self.quick else full

    def span(self, full: float, quick: float) -> float:
        """Choose how many seconds to measure."""
        return self.pick(full, quick) if self.seconds is None else self.seconds


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing to be measured. `run` calls `plan.say` before each of its steps."""

    name: str
    what: str
    run: Callable[[Plan], list[Table]]
