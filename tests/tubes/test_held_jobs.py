"""Room is shared: a guest that found none comes first when there is some."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.tubes.held import FairBudget


class Guest:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def test_there_is_never_more_than_there_is() -> None:
    room, guest = FairBudget(5), Guest()

    assert [room.take(guest, 3), room.take(guest, 3), room.take(guest, 3)] == [3, 2, 0]


def test_who_found_no_room_is_woken_when_some_is_given_back() -> None:
    room, first, second = FairBudget(1), Guest(), Guest()
    room.take(first, 1)
    room.take(second, 1)

    room.give(1)

    assert (first.woken, second.woken) == (0, 1)
    assert room.take(second, 1) == 1


def test_what_comes_free_belongs_to_those_who_wait_in_their_order() -> None:
    room, first, second, third = FairBudget(1), Guest(), Guest(), Guest()
    room.take(first, 1)
    room.take(second, 1)
    room.take(third, 1)
    room.give(1)

    assert room.take(first, 1) == 0
    assert room.take(third, 1) == 0
    assert room.take(second, 1) == 1


def test_who_leaves_holds_nobody_up() -> None:
    room, first, second, third = FairBudget(1), Guest(), Guest(), Guest()
    room.take(first, 1)
    room.take(second, 1)
    room.take(third, 1)
    room.give(1)
    before = third.woken

    room.leave(second)

    assert third.woken == before + 1
    assert room.take(third, 1) == 1


def test_growing_wakes_and_shrinking_takes_nothing_away() -> None:
    room, guest = FairBudget(1), Guest()
    room.take(guest, 2)
    room.take(guest, 1)

    room.resize(3)
    assert (guest.woken, room.take(guest, 5)) == (1, 2)
    room.resize(1)

    assert (room.taken, room.take(guest, 1)) == (3, 0)


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=60))
def test_no_order_of_events_leaves_room_unused_while_somebody_wants_it(
    most: int, events: list[tuple[int, int]]
) -> None:
    """Guests take, give back and leave; those who were woken try again, as reservers do."""
    room, guests = FairBudget(most), [Guest() for _ in range(4)]
    held = dict.fromkeys(guests, 0)
    wanting: set[Guest] = set()

    def take(guest: Guest, count: int) -> None:
        granted = room.take(guest, count)
        held[guest] += granted
        (wanting.discard if granted else wanting.add)(guest)

    for number, count in events:
        guest = guests[number]
        if count:
            take(guest, count)
        elif held[guest]:
            room.give(1)
            held[guest] -= 1
        else:
            room.leave(guest)
            wanting.discard(guest)
        for _ in guests:
            for woken in [each for each in guests if each.woken]:
                woken.woken = 0
                if woken in wanting:
                    take(woken, 1)

        assert sum(held.values()) == room.taken <= most
        assert not wanting or room.taken == most
