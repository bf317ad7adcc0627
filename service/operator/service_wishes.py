"""Wishes for a service: what its account may set, checked and written as documents hold it.

================= ==================================================================================
wish              is
================= ==================================================================================
destination       an address (service/worker/deliveries/destination.py)
events            names of events; an empty list, here and below, stands for all
slugs, tags       of parcels: couriers, and AfterShip's tags
headers           name → value, sent with each attempt
format            standard | aftership
concurrent        attempts in flight at once
per_second        attempts started in any second
attempts          of each delivery
timeout_seconds   of an attempt, at most `[webhooks] timeout_seconds`
ordered           whether a delivery waits until the one before is delivered or given up
state             active | paused
================= ==================================================================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from couriers.slugs import ALIASES, SLUGS
from service.config.schema import Config
from service.operator.accounts import NotDone
from service.worker.deliveries.destination import (
    BadDestination,
    allowed_of,
    check_headers,
    parse_destination,
)
from service.worker.deliveries.secret_box import new_key
from service.worker.deliveries.service import Format, ServiceState
from service.worker.results.change import EventName
from service.worker.results.database import Document
from tracking.checkpoint import Tag
from tracking.request import Account

Wishes: TypeAlias = Mapping[str, object]
Reader: TypeAlias = Callable[[str, object], Document]

CONCURRENT_MOST = PER_SECOND_MOST = 1_000
ATTEMPTS_MOST = 50
BY_HAND = (ServiceState.ACTIVE, ServiceState.PAUSED)


class BadWish(NotDone):
    """A wish that cannot be met; `parameter` is its name."""

    def __init__(self, parameter: str, why: str) -> None:
        super().__init__(f"{parameter}: {why}")
        self.parameter = parameter


def read_wishes(config: Config, account: Account, wishes: Wishes) -> Document:
    """Write wishes as members of a document of `services`. Raises BadWish."""
    readers = _readers(config, account)
    members: Document = {}
    for name, wish in wishes.items():
        if name not in readers:
            raise BadWish(name, f"there is no such setting: {', '.join(readers)} are")
        members |= readers[name](name, wish)
    return members


def _readers(config: Config, account: Account) -> Mapping[str, Reader]:
    longest = config.webhooks.timeout_seconds

    def destination(name: str, wish: object) -> Document:
        if not isinstance(wish, str):
            raise BadWish(name, "write an address as text")
        allowed, own = allowed_of(config, account), config.webhooks.own_names
        try:
            parse_destination(wish, allowed, own)
        except BadDestination as error:
            raise BadWish(name, str(error)) from error
        return {name: wish}

    def slugs(name: str, wish: object) -> Document:
        known = SLUGS | {slug for slug, each in config.couriers.items() if each.module}
        meant = [ALIASES.get(each, each) for each in _texts(name, wish)]
        for each in meant:
            if each not in known:
                raise BadWish(name, f"{each[:64]!r} is no courier: write slugs like royal-mail")
        return {name: sorted(set(meant))}

    return {
        "destination": destination,
        "events": _words_of(EventName),
        "slugs": slugs,
        "tags": _words_of(Tag),
        "headers": _headers,
        "format": _word_of(Format),
        "concurrent": _count_to(CONCURRENT_MOST),
        "per_second": _count_to(PER_SECOND_MOST),
        "attempts": _count_to(ATTEMPTS_MOST),
        "timeout_seconds": lambda name, wish: {name: _seconds(name, wish, longest)},
        "ordered": _flag,
        "state": _state,
    }


def _texts(name: str, wish: object) -> list[str]:
    if isinstance(wish, Sequence) and not isinstance(wish, str):
        texts = [each for each in wish if isinstance(each, str)]
        if len(texts) == len(wish):
            return texts
    raise BadWish(name, "write a list of texts; an empty one stands for all")


def _words_of(words: type[StrEnum]) -> Reader:
    known = sorted(each.value for each in words)

    def read(name: str, wish: object) -> Document:
        texts = _texts(name, wish)
        for text in texts:
            if text not in known:
                raise BadWish(name, f"{text[:40]!r} is none of {', '.join(known)}")
        return {name: sorted(set(texts))}

    return read


def _word_of(words: Iterable[StrEnum]) -> Reader:
    known = [each.value for each in words]

    def read(name: str, wish: object) -> Document:
        if wish not in known:
            raise BadWish(name, f"write {' or '.join(known)}")
        return {name: str(wish)}

    return read


def _state(name: str, wish: object) -> Document:
    state = _word_of(BY_HAND)(name, wish)
    # By hand it goes on, whatever switched it off.
    return state | {"disabled_at": None, "disabled_why": ""}


def _headers(name: str, wish: object) -> Document:
    if not isinstance(wish, Mapping):
        raise BadWish(name, "write names of headers with their values")
    headers = {each: value for each, value in wish.items() if isinstance(value, str)}
    if len(headers) < len(wish):
        raise BadWish(name, "write the value of each header as text")
    try:
        check_headers(headers)
    except BadDestination as error:
        raise BadWish(name, str(error)) from error
    return {name: headers}


def _count_to(most: int) -> Reader:
    def read(name: str, wish: object) -> Document:
        if type(wish) is not int or not 1 <= wish <= most:
            raise BadWish(name, f"write a whole number from 1 up to {most}")
        return {name: wish}

    return read


def _seconds(name: str, wish: object, most: float) -> float:
    if isinstance(wish, bool) or not isinstance(wish, int | float) or not 1 <= wish <= most:
        raise BadWish(name, f"write seconds from 1 up to {most:g}")
    return float(wish)


def _flag(name: str, wish: object) -> Document:
    if not isinstance(wish, bool):
        raise BadWish(name, "write true or false")
    return {name: wish}


def new_sealing_key(name: str | None = None) -> str:
    """Make a key for `[webhooks] keys`; by default its name is today's date."""
    return new_key(name or f"{dt.datetime.now(dt.UTC):%Y-%m-%d}")
