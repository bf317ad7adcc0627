"""The collection `audit`: what operators did by whose key, and what came of it. Kept for ever.

======= ========================================================================================
member  is
======= ========================================================================================
at      when it began
account whose key it was
key     the first characters of that key; null on this machine, where none was asked for
act     `pause`, `resume`, `kick`, `delete`, `account add`, `key revoke` and so on
target  what it was done to, as it was asked for
outcome what came of it, `{}` where there is no more to say than that it is done; `{"error": …}`
        where it is not; null before that is known, and for ever where the process ended before
======= ========================================================================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pymongo.collection import Collection

from service.results.connection import Document
from tracking.account import MAIN, Account


@dataclass(frozen=True, slots=True)
class Operator:
    """Who acts; `key` is the prefix of a key, None for a program or a person on this machine."""

    key: str | None = None
    account: Account = MAIN


@contextmanager
def recorded(
    audit: Collection[Document], who: Operator, act: str, target: Document
) -> Iterator[Document]:
    """Record an act before it is done, and afterwards what the `with` block says came of it.

    Raises PyMongoError: nothing was done, or nobody knows.
    """
    begun = {"at": dt.datetime.now(dt.UTC), "account": who.account, "key": who.key}
    name = audit.insert_one({**begun, "act": act, "target": target, "outcome": None}).inserted_id
    outcome: Document = {}
    try:
        yield outcome
    except BaseException as error:
        outcome = {"error": str(error) or type(error).__name__}
        raise
    finally:
        audit.update_one({"_id": name}, {"$set": {"outcome": outcome}})
