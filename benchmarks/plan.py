"""What a scenario is: how large it is to be, and the table that it fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

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


Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the key of its values, its heading, and after how many digits they are cut."""

    key: str
    heading: str
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """What a scenario found out. `note` says how to read it."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Value]]
    note: str = ""
    details: Sequence[Mapping[str, Value]] = field(default_factory=tuple)
    """The single runs behind the rows; kept as JSON only."""

    def cells(self) -> list[list[str]]:
        """Write out every row."""
        return [
            [shown(row.get(each.key), each.digits) for each in self.columns] for row in self.rows
        ]

    def series(self, x: str, y: str, **equal: Value) -> list[tuple[float, float]]:
        """Give (x, y) of the rows in which all of `equal` holds, for a plot."""
        found = [row for row in self.rows if all(row.get(k) == v for k, v in equal.items())]
        pairs = ((row.get(x), row.get(y)) for row in found)
        return [
            (float(a), float(b))
            for a, b in pairs
            if isinstance(a, int | float) and isinstance(b, int | float)
        ]


def shown(value: Value, digits: int) -> str:
    """Write a value for people."""
    match value:
        case None:
            return ""
        case str():
            return value
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.{digits}f}"
