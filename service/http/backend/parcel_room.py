"""Room for further parcels: a door takes none of an account that follows as many as it may.

Only where an account has such a quota a door asks MongoDB for each post: how many it follows, and
which of the parcels it knows already; those are always taken. What was let in and stands in MongoDB
not yet is remembered for an hour, so that one process lets in no more than there is room for.

It is soft where several doors let in at once, and where a line takes longer than that hour. While
MongoDB is away all is taken.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from service.http.backend.keyring import Keyring
from service.operator.put import Sendable
from service.operator.quotas import Quota, QuotaUsedUp, Use
from service.worker.results.account_quotas import count_followed, known_among
from service.worker.results.database import Collections
from service.worker.results.document import document_id
from tracking.errors import ResultsDown
from tracking.request import Account, account_and_id

LET_IN_SECONDS = 3_600.0

AGAIN_SECONDS = 5.0
"""How long a MongoDB that was away is not asked: posts would wait for it one after the other."""


class ParcelRoom:
    """For one event loop."""

    def __init__(self, keyring: Keyring, clock: Callable[[], float] = time.monotonic) -> None:
        self._keyring = keyring
        self._clock = clock
        self._let_in: defaultdict[Account, dict[str, float]] = defaultdict(dict)
        """The `_id`s of parcels that were let in and may not be in MongoDB yet, and when."""
        self._asks_again_at = -math.inf
        self._turns: defaultdict[Account, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def insist(self, requests: Sequence[Sendable]) -> None:
        """Insist on room for all parcels of one account's requests. Raises QuotaUsedUp."""
        if not (quotas := self._keyring.keys.quotas) or not requests:
            return
        account, _ = account_and_id(requests[0].id)
        most = quotas.get(account, {}).get(Quota.PARCELS)
        if most is None:
            return
        asked = {document_id(f"{each.slug}:{each.number}", account) for each in requests}
        async with self._turns[account]:
            if self._clock() < self._asks_again_at:
                return
            try:
                await self._let(account, asked, most)
            except ResultsDown:
                self._asks_again_at = self._clock() + AGAIN_SECONDS

    async def _let(self, account: Account, asked: set[str], most: int) -> None:
        now, let_in = self._clock(), self._let_in[account]
        old = [name for name, at in let_in.items() if now - at >= LET_IN_SECONDS]
        followed, known = await self._keyring.ask(_look, account, asked | let_in.keys(), most)
        for name in {*old, *known} & let_in.keys():
            del let_in[name]
        further = asked - known - let_in.keys()
        used = min(most, followed + len(let_in))
        if further and followed + len(let_in) + len(further) > most:
            raise QuotaUsedUp(Quota.PARCELS, account, Use(most, used))
        let_in |= dict.fromkeys(further, now)


def _look(
    stores: Collections, account: Account, names: set[str], most: int
) -> tuple[int, set[str]]:
    # Counted first: what is stored in between is counted twice, and not at all otherwise.
    followed = count_followed(stores.tracking, account, most)
    return followed, known_among(stores.tracking, names)
