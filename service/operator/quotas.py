"""The quotas of accounts: set while workers run, and how much of each is used.

They stand in MongoDB. Doors learn them with their keys; workers hear of a new one as of a changed
limit: Redis refuses who goes by older ones. So the calls of a day are counted exactly, at once.
What waited for the end of the day goes on: requests within seconds, re-checks with the next look
for those that are due (upkeep/recheck.py).
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from limits.admin.accounts import AccountQuotas
from service.config.schema import Config
from service.operator.accounts import insist_on
from service.operator.audit import Operator, recorded
from service.operator.connections import Collections, book_of, redis_of
from service.worker.results.account_quotas import (
    MOST,
    Quota,
    calls_of,
    count_followed,
    read_quotas,
)
from service.worker.results.document import stored_now
from service.worker.results.limit_changes import note_change
from service.worker.results.queries import call_in_checks
from tracking.errors import LimitsBroken, LimitsDown, NotDone
from tracking.request import MAIN, Account

__all__ = ["Quota"]

_DAY = dt.timedelta(days=1)


class Use(NamedTuple):
    """What an account is `allowed` of a quota, None for any number, and how much is `used`.

    `used` None: nobody counts it, or Redis does not answer. What is used is so at `resets_at` no
    more; None: it goes with the parcels.
    """

    allowed: int | None
    used: int | None = None
    resets_at: dt.datetime | None = None


Uses = Mapping[Quota, Use]


class QuotaUsedUp(NotDone):
    """An account has as much as a quota of it allows; `seconds`: until it may have more."""

    def __init__(self, quota: Quota, account: Account, use: Use) -> None:
        why = f"the account {account} may have {use.allowed} {_OF[quota]}"
        super().__init__(f"{why}: {_THEN[quota]}")
        self.quota = quota
        self.use = use

    @property
    def seconds(self) -> int | None:
        """Whole seconds; None where time alone does not help."""
        if self.use.resets_at is None:
            return None
        return max(1, math.ceil((self.use.resets_at - dt.datetime.now(dt.UTC)).total_seconds()))

    @property
    def members(self) -> dict[str, Any]:
        """What programs are to know of it."""
        some = {name: each for name, each in self.use._asdict().items() if each is not None}
        return {"quota": self.quota.value, **some}


_OF = {
    Quota.CALLS: "calls a day",
    Quota.PARCELS: "parcels that are followed",
    Quota.REQUESTS: "requests a minute",
}
_THEN = {
    Quota.CALLS: "what is more waits for the next day",
    Quota.PARCELS: "further ones are taken once others are delivered or forgotten",
    Quota.REQUESTS: "come again later",
}


def set_quotas(
    config: Config,
    stores: Collections,
    who: Operator,
    name: Account,
    wishes: Mapping[Quota, int | None],
) -> None:
    """Set quotas of an account, None for none; its others stay.

    Raises NotDone, PyMongoError; LimitsDown where they are set and Redis has not heard of it:
    repeat it.
    """
    target = {"account": name, **{each.value: most for each, most in wishes.items()}}
    with recorded(stores.audit, who, "account set", target):
        for quota, most in wishes.items():
            if most is not None and not 1 <= most <= MOST:
                wanted = f"{quota}=NUMBER, 1 to {MOST:,}, or {quota}=none"
                raise NotDone(f"{most} is no quota: write {wanted}")
        insist_on(stores, name)
        some = {each.value: most for each, most in wishes.items() if most is not None}
        none = {each.value: "" for each, most in wishes.items() if most is None}
        change = ({"$set": some} if some else {}) | ({"$unset": none} if none else {})
        stores.accounts.update_one({"_id": name}, change, upsert=name == MAIN)
        if Quota.CALLS in wishes:
            revision = note_change(stores.limits)
            asyncio.run(_announce(config, name, calls_of(read_quotas(stores.accounts)), revision))
            call_in_checks(stores.tracking, name, _day_ends(), stored_now())


async def _announce(
    config: Config, account: Account, calls: Mapping[Account, int], revision: int
) -> None:
    async with redis_of(config) as redis:
        await AccountQuotas(redis, book_of(config).rules_of).set(account, calls, revision)


def quotas_of(config: Config, stores: Collections, names: Iterable[Account]) -> dict[Account, Uses]:
    """Say what accounts may have and how much of it is used. Raises PyMongoError.

    Of the requests of a minute each door knows its own.
    """
    quotas, day_ends = read_quotas(stores.accounts), _day_ends()
    called = asyncio.run(_calls_today(config)) if calls_of(quotas) else {}
    found: dict[Account, Uses] = {}
    for name in names:
        own = quotas.get(name, {})
        calls, parcels = own.get(Quota.CALLS), own.get(Quota.PARCELS)
        used = None if calls is None or called is None else called.get(name, 0)
        followed = parcels and count_followed(stores.tracking, name, parcels)
        found[name] = {
            Quota.CALLS: Use(calls, used, day_ends if calls else None),
            Quota.PARCELS: Use(parcels, followed),
            Quota.REQUESTS: Use(own.get(Quota.REQUESTS)),
        }
    return found


async def _calls_today(config: Config) -> dict[Account, int] | None:
    async with redis_of(config) as redis:
        with suppress(LimitsBroken, LimitsDown):
            return await AccountQuotas(redis, book_of(config).rules_of).calls_today()
    return None


def _day_ends() -> dt.datetime:
    now = dt.datetime.now(dt.UTC)
    return now.replace(hour=0, minute=0, second=0, microsecond=0) + _DAY
