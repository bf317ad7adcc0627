"""The quotas of accounts: how much each may have. They are members of its document in `accounts`.

================= ==================================================================================
member            is how many of these the account may have; where it is missing, any number
================= ==================================================================================
calls_a_day       calls to couriers on a UTC day, over all couriers; Redis counts and grants them
parcels           parcels that are followed: those that are neither delivered nor expired
requests_a_minute requests over HTTP with keys of the account, at each process that serves
================= ==================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from pymongo.collection import Collection

from service.worker.results.database import Document
from tracking.checkpoint import Tag
from tracking.request import MAIN, Account

MOST = 1_000_000_000


class Quota(StrEnum):
    """What an account may have so many of."""

    CALLS = "calls_a_day"
    PARCELS = "parcels"
    REQUESTS = "requests_a_minute"


Quotas = Mapping[str, int]
"""How many an account may have, by the text of a Quota; what is missing has no bound."""

_FOLLOWED = [tag.value for tag in Tag if tag not in {Tag.DELIVERED, Tag.EXPIRED}]


def read_quotas(accounts: Collection[Document]) -> dict[str, dict[str, int]]:
    """Read the quotas of all accounts that have some. What a person miswrote is none."""
    wanted: Document = {"$or": [{each.value: {"$gte": 1}} for each in Quota]}
    found = accounts.find(wanted | {"removed_at": {"$exists": False}}, [*map(str, Quota)])
    return {str(each["_id"]): dict(_quotas_in(each)) for each in found}


def _quotas_in(document: Document) -> Iterable[tuple[str, int]]:
    for each in Quota:
        most: Any = document.get(each.value)
        if isinstance(most, int) and most >= 1:
            yield each.value, int(most)


def calls_of(quotas: Mapping[str, Quotas]) -> dict[Account, int]:
    """Select how many calls accounts may have a day, of those that have such a quota."""
    own = {name: each.get(Quota.CALLS) for name, each in quotas.items()}
    return {Account(name): calls for name, calls in own.items() if calls is not None}


def count_followed(tracking: Collection[Document], account: Account, most: int) -> int:
    """Count the parcels that an account follows, so many at most: in the index alone."""
    whose = None if account == MAIN else account
    wanted = {"account": whose, "tag": {"$in": _FOLLOWED}}
    # What drivers make of `count` reads as many keys into an aggregation.
    told = tracking.database.command("count", tracking.name, query=wanted, limit=most)
    return int(told["n"])


def known_among(tracking: Collection[Document], names: Iterable[str]) -> set[str]:
    """Select the documents that there are, by `_id`."""
    found = tracking.find({"_id": {"$in": [*names]}}, {"_id": 1})
    return {str(each["_id"]) for each in found}
