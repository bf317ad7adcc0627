"""The collection `audit`: what operators did by whose key, and what came of it. Kept for ever.

======= ========================================================================================
member  is
======= ========================================================================================
at      when it began
via     `http`, `web` (a page) or `cli`, the command line; missing in records of before there was it
account whose key or user it was
key     the first characters of that key; null on this machine, where none was asked for
user    the e-mail of the user who acted by a page; missing where none did
act     `pause`, `resume`, `kick`, `delete`, `account add`, `key revoke` and so on
target  what it was done to, as it was asked for
outcome what came of it, `{}` where there is no more to say than that it is done; `{"error": …}`
        where it is not; null before that is known, and for ever where the process ended before
======= ========================================================================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from pymongo.collection import Collection

from service.config.schema import Config
from service.operator.connections import collections_of
from service.worker.results.database import Document
from tracking.errors import ResultsDown
from tracking.request import MAIN, Account

T = TypeVar("T")


class Via(StrEnum):
    """The way by which an operator acts."""

    HTTP = "http"
    WEB = "web"
    CLI = "cli"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator; `key` is the prefix of a key, None for a program or a person on this machine.

    `user`: the e-mail of the user who acts by a page.
    """

    key: str | None = None
    account: Account = MAIN
    via: Via = Via.CLI
    user: str | None = None


@contextmanager
def recorded(
    audit: Collection[Document], who: Operator, act: str, target: Document
) -> Iterator[Document]:
    """Record an act before it is done, and afterwards what the `with` block says came of it.

    Raises PyMongoError: nothing was done, or nobody knows.
    """
    begun = {
        "at": dt.datetime.now(dt.UTC),
        "via": who.via.value,
        "account": who.account,
        "key": who.key,
        **({"user": who.user} if who.user else {}),
    }
    name = audit.insert_one({**begun, "act": act, "target": target, "outcome": None}).inserted_id
    outcome: Document = {}
    try:
        yield outcome
    except BaseException as error:
        outcome = {"error": str(error) or type(error).__name__}
        raise
    finally:
        audit.update_one({"_id": name}, {"$set": {"outcome": outcome}})


def recorded_where_possible(
    config: Config, act: str, target: Document, step: Callable[[Document], T]
) -> tuple[T, ResultsDown | None]:
    """Do an act of the command line also while MongoDB is away; tells why no record is whole then.

    `step` gets what is recorded as its outcome, and is done once. What it raises is raised.
    """
    done: list[T] = []
    failed: BaseException | None = None
    try:
        with (
            collections_of(config) as stores,
            recorded(stores.audit, Operator(), act, target) as it,
        ):
            try:
                done.append(step(it))
            except BaseException as error:
                failed = error
                raise
    except ResultsDown as down:
        if failed is not None:
            raise failed from None  # and nobody could record that it failed
        return done[0] if done else step({}), down
    return done[0], None
