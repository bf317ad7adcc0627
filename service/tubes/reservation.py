"""What a thread knows of a job that it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import greenstalk

if TYPE_CHECKING:
    from service.tubes.connection import Connection

Item = TypeVar("Item")


@dataclass(slots=True, eq=False)
class Reservation:
    """One job that we hold; belongs to the thread of its connection.

    `ttr` (seconds) and `priority` are not part of a reserve: None until `Connection.read_facts`.
    `age` is seconds since the put; at `touch_at` (`time.monotonic()`) it is to be touched.
    `lost`: it is not ours any more, because its TTR ran out or its connection ended. `roomless`: it
    has given its room back already; set by the event loop, before the job is settled.
    """

    raw: greenstalk.Job[bytes]
    connection: Connection
    ttr: int | None = None
    priority: int | None = None
    age: float = 0.0
    touch_at: float = 0.0
    lost: bool = False
    roomless: bool = False


def is_held(reservation: Reservation) -> bool:
    """Whether a job is neither settled nor lost."""
    held = reservation.connection.held.get(reservation.raw.id)
    return held is reservation and not reservation.lost


def forget(reservation: Reservation) -> None:
    """Hold a job no more, because it was settled. A later reservation of the same job stays."""
    held = reservation.connection.held
    if held.get(reservation.raw.id) is reservation:
        del held[reservation.raw.id]


def by_connection(
    items: Iterable[Item], reservation_of: Callable[[Item], Reservation]
) -> Iterator[tuple[Connection, list[Item]]]:
    """Group what concerns jobs by the connection that must be used for them."""
    groups: dict[int, list[Item]] = {}
    for item in items:
        groups.setdefault(id(reservation_of(item).connection), []).append(item)
    for group in groups.values():
        yield reservation_of(group[0]).connection, group
