"""The verdict of a storm of foreign requests: each broken promise is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from foreign_posts import NO_ANSWER, WRONG_EACH, Post, posts
from relay_storm import FULL, TAKEN, Log, Stored, wrong_things

from devstack.judge import SECOND_NS, Noted
from devstack.senders import Message

ADDRESS = "http://127.0.0.1:8081/in/main-shop-abcdefghijklmnopqrstu"
NOW = 1_800_000_000
ALL = WRONG_EACH + 1
"""Two of them must be refused: the first and the last."""

FIRST, SECOND = 1, 2
D_FIRST = f"D{FIRST}"

Change = Callable[[Log, Stored], None]


def arrived(post: Post, delivery: str) -> Message:
    """A request as it arrives at a receiver, unless something went wrong."""
    sent, url = post.request.message, ADDRESS + post.request.message.target
    return replace(
        sent, headers=(*sent.headers, ("relay-id", delivery), ("relay-original-url", url))
    )


@pytest.fixture
def log() -> Log:
    """All were answered as they must be, and what was taken arrived."""
    made = Log({each.request.number: each for each in posts(1, ALL, ADDRESS, NOW)}, NOW)
    for number, post in made.posts.items():
        made.answers[number] = post.refused or TAKEN
        if not post.refused:
            made.note_arrival(arrived(post, f"D{number}"))
    return made


@pytest.fixture
def stored(log: Log) -> Stored:
    """What is stored of that."""
    noted = {each.number: Noted(1, 1, each.arrived_ns + SECOND_NS) for each in log.calls}
    return Stored(noted, {"delivered": len(noted)})


def test_nothing_is_wrong_where_all_arrived_as_it_was_sent(log: Log, stored: Stored) -> None:
    assert list(wrong_things(log, stored)) == []


@pytest.mark.parametrize("answer", [FULL, NO_ANSWER])
def test_what_was_not_answered_202_may_arrive_or_not(log: Log, stored: Stored, answer: int) -> None:
    log.answers |= {FIRST: answer, SECOND: answer}
    del log.deliveries[SECOND]

    assert list(wrong_things(log, stored)) == []


def lost(log: Log, _: Stored) -> None:
    del log.deliveries[FIRST]


def changed(log: Log, _: Stored) -> None:
    message = arrived(log.posts[FIRST], D_FIRST)
    log.note_arrival(replace(message, body=message.body + b"\n"))


def reordered(log: Log, _: Stored) -> None:
    message = arrived(log.posts[FIRST], D_FIRST)
    log.note_arrival(replace(message, headers=message.headers[::-1]))


def another_url(log: Log, _: Stored) -> None:
    number = next(
        number
        for number, each in log.posts.items()
        if each.request.system == "twilio" and not each.refused
    )
    message = arrived(log.posts[number], f"D{number}")
    other = [(name, each + "x" * (name == "relay-original-url")) for name, each in message.headers]
    log.note_arrival(replace(message, headers=tuple(other)))


def two_deliveries(log: Log, _: Stored) -> None:
    log.note_arrival(arrived(log.posts[FIRST], "another"))


def again(log: Log, stored: Stored) -> None:
    before = stored.noted[D_FIRST].stored_ns or 0
    log.calls.append(replace(log.calls[0], number=D_FIRST, arrived_ns=before + 1))


def refused_arrives(log: Log, _: Stored) -> None:
    log.note_arrival(arrived(log.posts[0], "D0"))


def refused_taken(log: Log, _: Stored) -> None:
    log.answers[0] = TAKEN


def not_taken(log: Log, _: Stored) -> None:
    log.answers[FIRST] = 500


def unknown(log: Log, _: Stored) -> None:
    message = arrived(log.posts[FIRST], D_FIRST)
    log.note_arrival(replace(message, headers=(("X-Number", "99"), ("relay-id", "D99"))))


def dead(_: Log, stored: Stored) -> None:
    stored.states.update({"dead": 1})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lost, "did not arrive"),
        (changed, "arrived with another body"),
        (reordered, "arrived with another headers"),
        (another_url, "has a signature that is not right"),
        (two_deliveries, "became 2 deliveries"),
        (again, "after a stored success"),
        (refused_arrives, "arrived: "),
        (refused_taken, "was answered 202"),
        (not_taken, "was answered 500"),
        (unknown, "99 arrived: "),
        (dead, "1 deliveries are dead"),
    ],
)
def test_a_broken_promise_is_noticed(log: Log, stored: Stored, change: Change, said: str) -> None:
    change(log, stored)

    assert any(said in each for each in wrong_things(log, stored))
