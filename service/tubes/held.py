"""Whether a job is still held, and over which connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from service.tubes.connection import Connection, Reservation

Item = TypeVar("Item")


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
