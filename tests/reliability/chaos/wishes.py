"""What the producer asks for: a seeded stream of requests, ordinary and odd. Pure."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from chaos.scale import POISONS, REFUSED_ANSWERS, Courier


class Kind(StrEnum):
    """What is special about a request.

    ========= ==================================================================================
    PLAIN     nothing: a new number, no id
    NAMED     a new number with an id
    TWICE     the same job again: the same id, the same operation
    SAME      a number that was asked for before, with a new id
    AGAIN     the same, and a fresh answer will not do (`max_age` 0)
    REPEATED  a number that was asked for before, without an id
    AUTOMATIC a new number nobody waits for
    EXPIRING  a new number that nobody wants any more after a second or two
    BORROWED  a new number under the id of an earlier request, by mistake
    CROWD     one of very many with ids of their own for the same new number
    UNKNOWN   a number that the courier does not know
    MALFORMED not a request at all
    POISON    a number that never succeeds, see scale.POISONS
    ========= ==================================================================================
    """

    PLAIN = "plain"
    NAMED = "named"
    TWICE = "twice"
    SAME = "same"
    AGAIN = "again"
    REPEATED = "repeated"
    AUTOMATIC = "automatic"
    EXPIRING = "expiring"
    BORROWED = "borrowed"
    CROWD = "crowd"
    UNKNOWN = "unknown"
    MALFORMED = "malformed"
    POISON = "poison"


SHARES: Mapping[Kind, float] = {
    Kind.PLAIN: 25,
    Kind.NAMED: 30,
    Kind.TWICE: 6,
    Kind.SAME: 8,
    Kind.AGAIN: 5,
    Kind.REPEATED: 5,
    Kind.AUTOMATIC: 10,
    Kind.EXPIRING: 5,
    Kind.BORROWED: 2,
    Kind.CROWD: 0.1,
    Kind.UNKNOWN: 3,
    Kind.MALFORMED: 3,
}
WITHOUT_ID = frozenset({Kind.PLAIN, Kind.REPEATED, Kind.MALFORMED})
OF_KNOWN_NUMBER = frozenset({Kind.TWICE, Kind.SAME, Kind.AGAIN, Kind.REPEATED})
CROWD = 130
"""More than the scripts end in one go."""

TTRS = (1, 2, 5, 60, 120)

MALFORMED = (
    b'{"type":"requests_flow","payload":{"slug":"%s","number":"%s"',
    b'\xff\xfe{"slug":"%s","number":"%s"}',
    b'{"type":"requests_flow","payload":{"slug":"no-%s","number":"%s"}}',
    b'{"type":"requests_flow","payload":{"slug":"%s","number":{"text":"%s"}}}',
    b'{"type":"requests_flow","payload":{"slug":"%s","slug":"b","number":"%s"}}',
    b'{"type":"wait_list","payload":{"slug":"%s","number":"%s"}}',
)


@dataclass(frozen=True, slots=True)
class Wish:
    """One job to be put. `number` is in the one form of lists, keys and `_id`.

    `expires_in` is in seconds, counted from `made_at` (Unix time). A malformed one has its body.
    """

    kind: Kind
    slug: str
    number: str
    id: str | None = None
    ttr: int = 60
    priority: int = 2**16
    expires_in: float | None = None
    malformed: bytes = b""
    made_at: float = 0.0

    @property
    def is_hopeless(self) -> bool:
        """Whether it never succeeds; MongoDB refuses the answers of others too."""
        return self.kind is Kind.POISON or bool(re.search(REFUSED_ANSWERS, self.number))

    @property
    def body(self) -> bytes:
        """The job's body."""
        if self.malformed:
            return self.malformed
        payload: dict[str, object] = {"slug": self.slug, "number": self.number}
        if self.id:
            payload["id"] = self.id
        if self.kind is Kind.AUTOMATIC:
            payload["origin"] = "AUTOMATIC"
        if self.kind is Kind.AGAIN:
            payload["max_age"] = 0
        job: dict[str, object] = {"type": "requests_flow", "payload": payload}
        if self.expires_in is not None:
            payload["expires_in"] = self.expires_in
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.made_at))
            job["meta"] = {"enqueued_at": at}
        return json.dumps(job).encode()


class Wishes:
    """The stream for one courier."""

    def __init__(self, courier: Courier, seed: int, *, poison: bool = False) -> None:
        """The same courier and seed give the same stream; with `poison` it begins with that."""
        self._courier = courier
        self._random = random.Random(f"{courier.slug}:{seed}")
        self._made: list[Wish] = []
        self._count = 0
        self._crowd = [self._poison(begin) for begin in POISONS.values()] if poison else []
        shares = {
            kind: share
            for kind, share in SHARES.items()
            if not courier.ids_only or kind not in WITHOUT_ID
        }
        self._kinds, self._weights = list(shares), list(shares.values())

    def __iter__(self) -> Iterator[Wish]:
        return self

    def __next__(self) -> Wish:
        if most := self._courier.parcels:
            self._count += 1
            if self._count > most:
                raise StopIteration
            return self._new(Kind.NAMED)
        if self._crowd:
            return self._crowd.pop()
        (kind,) = self._random.choices(self._kinds, self._weights)
        if kind in OF_KNOWN_NUMBER and not self._made:
            kind = Kind.NAMED
        wish = self._repeated(kind) if kind in OF_KNOWN_NUMBER else self._new(kind)
        if kind is Kind.CROWD:
            self._crowd = [replace(wish, id=f"{wish.id}-{index}") for index in range(CROWD)]
        if kind is Kind.BORROWED:
            named = [each.id for each in self._made if each.id]
            wish = replace(wish, id=self._random.choice(named or [wish.id]))
        if wish.kind not in {Kind.MALFORMED, Kind.EXPIRING, Kind.BORROWED}:
            self._made = [*self._made[-40:], wish]
        return wish

    def _new(self, kind: Kind) -> Wish:
        slug, draw = self._courier.slug, self._random
        digits = f"{draw.randrange(10**12):012d}"
        number = f"UNKNOWN{digits}" if kind is Kind.UNKNOWN else f"PARCEL{digits}"
        body = b""
        if kind is Kind.MALFORMED:
            body = draw.choice(MALFORMED) % (slug.encode(), number.encode())
        return Wish(
            kind=kind,
            slug=slug,
            number=number,
            id=None if kind in WITHOUT_ID else f"{slug}-{digits}",
            ttr=draw.choice(TTRS),
            priority=draw.randrange(2**16),
            expires_in=float(draw.randint(1, 2)) if kind is Kind.EXPIRING else None,
            malformed=body,
            made_at=time.time(),
        )

    def _poison(self, begin: str) -> Wish:
        slug, digits = self._courier.slug, f"{self._random.randrange(10**10):010d}77"
        return Wish(Kind.POISON, slug, f"{begin}{digits}", f"{slug}-poison-{begin}")

    def _repeated(self, kind: Kind) -> Wish:
        draw = self._random
        old = draw.choice(self._made)
        if kind is Kind.TWICE and old.id:
            return Wish(Kind.TWICE, old.slug, old.number, old.id, ttr=old.ttr)
        name = None if kind is Kind.REPEATED else f"{old.slug}-again-{draw.randrange(10**12)}"
        kept = Kind.SAME if kind is Kind.TWICE else kind
        return Wish(kept, old.slug, old.number, name, ttr=draw.choice(TTRS), made_at=time.time())
