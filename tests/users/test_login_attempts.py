"""Attempts to log in, to sign up and to have a password reset, counted in a real MongoDB."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress

import pytest
from people import ANNA, at_once

from service.operator.attempts import (
    BOUNDS,
    Attempt,
    TooOften,
    count_attempt,
    give_back,
    network_of,
)
from service.operator.connections import Collections
from service.worker.results.database import Names, indexes_for

HERE = "198.51.100.7"


def spent(stores: Collections, what: Attempt, email: str, address: str) -> int:
    """How many attempts are let through."""
    for count in range(1_000):
        try:
            count_attempt(stores, what, email, address)
        except TooOften:
            return count
    raise AssertionError


def many(stores: Collections, attempts: int) -> None:
    """Somebody tried so often from here, for as many e-mails."""
    count_attempt(stores, Attempt.LOGIN, "0@acme.example", HERE)
    of_address = {"_id": {"$regex": "^login:address:"}}
    stores.login_attempts.update_one(of_address, {"$set": {"count": attempts}})


@pytest.mark.parametrize("what", [Attempt.LOGIN, Attempt.SIGN_UP, Attempt.RESET])
def test_attempts_for_one_e_mail_end_wherever_they_come_from(
    stores: Collections, what: Attempt
) -> None:
    for number in range(BOUNDS[what].email):
        count_attempt(stores, what, ANNA, f"198.51.100.{number}")

    with pytest.raises(TooOften) as refused:
        count_attempt(stores, what, ANNA, HERE)
    assert 0 < refused.value.seconds <= BOUNDS[what].seconds
    count_attempt(stores, what, "ben@acme.example", HERE)


def test_attempts_from_one_address_end_whatever_e_mail_they_name(stores: Collections) -> None:
    most = BOUNDS[Attempt.LOGIN].address
    many(stores, most - 1)

    count_attempt(stores, Attempt.LOGIN, "one@acme.example", HERE)
    with pytest.raises(TooOften):
        count_attempt(stores, Attempt.LOGIN, "other@acme.example", HERE)
    count_attempt(stores, Attempt.LOGIN, ANNA, "198.51.100.8")


def test_what_is_refused_for_its_address_does_not_count_for_the_e_mail(stores: Collections) -> None:
    many(stores, BOUNDS[Attempt.LOGIN].address)
    for _ in range(5):
        with pytest.raises(TooOften):
            count_attempt(stores, Attempt.LOGIN, ANNA, HERE)

    assert spent(stores, Attempt.LOGIN, ANNA, "") == BOUNDS[Attempt.LOGIN].email


def test_attempts_begin_again_when_their_time_is_over(stores: Collections) -> None:
    spent(stores, Attempt.LOGIN, ANNA, HERE)
    over = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)

    stores.login_attempts.update_many({}, {"$set": {"until": over}})

    assert spent(stores, Attempt.LOGIN, ANNA, HERE) == BOUNDS[Attempt.LOGIN].email


def test_an_attempt_that_succeeded_is_given_back_and_no_other(stores: Collections) -> None:
    for _ in range(3):
        count_attempt(stores, Attempt.LOGIN, ANNA, HERE)
        give_back(stores, Attempt.LOGIN, ANNA, HERE)
    count_attempt(stores, Attempt.LOGIN, ANNA, HERE)

    assert spent(stores, Attempt.LOGIN, ANNA, HERE) == BOUNDS[Attempt.LOGIN].email - 1


def test_attempts_at_once_are_all_counted(stores: Collections) -> None:
    def attempt(_: int) -> bool:
        with suppress(TooOften):
            count_attempt(stores, Attempt.LOGIN, ANNA, HERE)
            return True
        return False

    assert sum(at_once(attempt, range(30))) == BOUNDS[Attempt.LOGIN].email


def test_what_was_tried_is_bounded_in_number_and_says_nothing_of_who_tried(
    stores: Collections,
) -> None:
    count_attempt(stores, Attempt.LOGIN, ANNA, HERE)

    kept = list(stores.login_attempts.find())
    assert ANNA not in str(kept)
    assert HERE not in str(kept)
    # Three attempts, each by e-mail and by address, in 65,536 places.
    assert all(len(each["_id"].rpartition(":")[2]) == 4 for each in kept)
    [index] = indexes_for(Names(""))["login_attempts"]
    assert (index.members, index.until) == (("until",), True)


@pytest.mark.parametrize(
    ("address", "counts_as"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("nonsense", "nonsense"),
    ],
)
def test_addresses_of_one_household_count_as_one(address: str, counts_as: str) -> None:
    assert network_of(address) == counts_as
