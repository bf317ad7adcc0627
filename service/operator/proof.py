"""The proof that limits are kept and no request is lost, in public terms, signed for machines.

It names couriers and their limits; no account, no number, no destination. What is signed is the
JSON of `members`, its members sorted, without blanks, in ASCII: so the same figures have the same
signature, wherever they are written.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from limits.admin.proof import Balance, Measured, balance, measured
from limits.admin.snapshot import LineSnapshot
from limits.admin.view import View
from limits.admin.violations import Worst
from service.config.schema import Config
from service.operator.connections import Collections, view_of
from service.worker.results.database import Document
from tracking.line import courier_line, slug_of
from tracking.request import Slug

VERSION = 1
PROOF_KEY = "proof"
"""The `_id` of the private key's document in `keys`; no account's key is called so."""


class UsedQuota(NamedTuple):
    """How much of a courier's quota is used `per` hour or day."""

    slug: Slug
    per: str
    used: int
    allowed: int


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured and counted until now.

    `oldest_seconds`: of the request that waits longest, None: nobody waits.
    """

    measured: Measured
    balance: Balance
    oldest_seconds: float | None
    quotas: Sequence[UsedQuota]

    @property
    def couriers(self) -> list[tuple[Slug, Worst]]:
        """Who was called in the time, by name."""
        return sorted((slug_of(line), worst) for line, worst in self.measured.lines.items())

    @property
    def violations(self) -> int:
        """How many starts broke a limit."""
        return sum(each.broken for each in self.measured.lines.values())

    @property
    def judged(self) -> bool:
        """Whether any call was measured, and any time in which violations count."""
        return bool(self.measured.lines and self.measured.judged_seconds)

    @property
    def kept(self) -> bool:
        """Whether every limit was kept and every operation is there."""
        return not self.violations and not self.balance.missing

    @property
    def at(self) -> dt.datetime:
        """The instant, by Redis' clock."""
        return _moment(self.measured.until)

    @property
    def measured_since(self) -> dt.datetime:
        """When the hours begin of which there is something."""
        return _moment(self.measured.since)

    @property
    def counted_since(self) -> dt.datetime | None:
        """When operations began to be counted; None: no worker of this version has run."""
        since = self.balance.since
        return None if since is None else _moment(since / 1_000)


async def proof_in(view: View, known: Sequence[Slug]) -> Proof:
    """Read the proof; `known` are all couriers. Raises StoreError."""
    lines = list(map(courier_line, known))
    told = await measured(view.redis)
    found = await balance(view.redis, lines)
    busy = await view.busy(lines)
    ages = [each.oldest_age_seconds for each in busy if each.oldest_age_seconds is not None]
    quotas = [quota for each in busy for quota in _quotas(view, each)]
    return Proof(told, found, max(ages, default=None), quotas)


async def proof_of(config: Config, known: Sequence[Slug]) -> Proof:
    """As `proof_in`, for one verb."""
    async with view_of(config) as view:
        return await proof_in(view, known)


def members(proof: Proof) -> dict[str, Any]:
    """Say it to machines: whole numbers and texts, as programs write others in different ways."""
    found, told = proof.balance, proof.measured
    oldest = proof.oldest_seconds
    return {
        "version": VERSION,
        "at": _text(proof.at),
        "calls": {
            "since": _text(proof.measured_since),
            "measured_seconds": int(told.seconds),
            "judged_seconds": int(told.judged_seconds),
            "violations": proof.violations,
            "couriers": [
                {
                    "courier": slug,
                    "worst_second": each.per_second,
                    "allowed_per_second": each.rate,
                    "peak_in_flight": each.at_once,
                    "allowed_in_flight": each.concurrent,
                    "starts": each.starts,
                    "violations": each.broken,
                }
                for slug, each in proof.couriers
            ],
        },
        "operations": {
            "since": proof.counted_since and _text(proof.counted_since),
            "open_then": found.before,
            "admitted": found.admitted,
            "ended": dict(found.ended),
            "open": found.open,
            "missing": found.missing,
            "refused": dict(found.refused),
        },
        "oldest_waiting_ms": None if oldest is None else round(oldest * 1_000),
        "quotas": [
            {"courier": each.slug, "per": each.per, "used": each.used, "allowed": each.allowed}
            for each in proof.quotas
        ],
    }


def signed(stores: Collections, said: dict[str, Any]) -> dict[str, Any]:
    """Sign what `members` says. Raises PyMongoError."""
    signature = base64.b64encode(_private_key(stores).sign(canonical(said))).decode()
    return {"proof": said, "algorithm": "ed25519", "signature": signature}


def canonical(said: dict[str, Any]) -> bytes:
    """Write what is signed."""
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode("ascii")


def public_key(stores: Collections) -> str:
    """Give the key that checks signatures, as PEM. Raises PyMongoError."""
    key = _private_key(stores).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _private_key(stores: Collections) -> Ed25519PrivateKey:
    """Read the key; made here where there is none."""
    found: Document | None = stores.keys.find_one({"_id": PROOF_KEY})
    while found is None:
        try:
            found = stores.keys.find_one_and_update(
                {"_id": PROOF_KEY},
                {"$setOnInsert": {"key": Ed25519PrivateKey.generate().private_bytes_raw()}},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:  # somebody else made it at the same time
            continue
    return Ed25519PrivateKey.from_private_bytes(bytes(found["key"]))


def _quotas(view: View, line: LineSnapshot) -> Iterator[UsedQuota]:
    rules = view.scripts.rules_of(line.line)
    for per, allowed, left in (
        ("hour", rules.per_hour, line.hour_left),
        ("day", rules.per_day, line.day_left),
    ):
        if allowed is not None and left is not None:
            yield UsedQuota(slug_of(line.line), per, allowed - left, allowed)


def _moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def _text(at: dt.datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
