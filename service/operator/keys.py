"""API keys: made, and recognized by what is kept of them.

A key is `tk_`, 12 characters by which it is found, `_`, and 192 random bits. It is shown once; what
is kept is its SHA-256, from which nobody makes the key again: so many bits need no slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from service.operator.signatures import Signing
from service.worker.deliveries.service import Ingest
from tracking.request import Account

PREFIX_CHARACTERS = 15


class Scope(StrEnum):
    """The scope of a key: what it is good for."""

    INGEST = "ingest"
    READ = "read"
    HOOKS = "hooks"
    ADMIN = "admin"


def needed(scope: Scope) -> tuple[Scope, ...]:
    """List the scopes of a key for what asks for this one: who makes services sees them, too."""
    return (scope, Scope.READ) if scope is Scope.HOOKS else (scope,)


class Key(msgspec.Struct, frozen=True):
    """A key as it is kept, without its secret. It works until `ends_at` (Unix time), None for ever.

    `signing`: requests with it must be signed, and what checks that. `per_second`: how often it
    may be used, None as often as the settings say.
    """

    prefix: str
    account: Account
    scopes: tuple[Scope, ...]
    sha256: str
    ends_at: float | None = None
    signing: Signing | None = None
    per_second: float | None = None

    def works(self, now: float) -> bool:
        """Whether it works at `now` (Unix time)."""
        return self.ends_at is None or now < self.ends_at


class Keys(msgspec.Struct, frozen=True):
    """All keys of a moment. Made by `keys_of`; `known` holds also those that have ended.

    `ingest_key`: of ingest labels, b"" where none was made. `ingests`: how services take requests,
    by their labels. `quotas`: of each account that has some (account_quotas.py). `suspended`:
    accounts whose keys are refused, by the reasons.
    """

    known: dict[str, Key] = {}
    ingest_key: bytes = b""
    ingests: dict[str, Ingest] = {}
    quotas: dict[str, dict[str, int]] = {}
    suspended: dict[Account, str] = {}

    def find(self, text: str, now: float) -> Key | None:
        """Recognize a key that works at `now` (Unix time); None for anything else."""
        key = self.recognize(text)
        return key if key and key.works(now) else None

    def recognize(self, text: str) -> Key | None:
        """Recognize a key, also one that has ended; None for anything else."""
        key = self.known.get(text[:PREFIX_CHARACTERS])
        return key if key and hmac.compare_digest(digest(text), key.sha256) else None


def keys_of(kept: Iterable[Key]) -> Keys:
    """Make the set in which a door looks a key up by its prefix."""
    return Keys({key.prefix: key for key in kept})


def make_key() -> str:
    """Make a key."""
    return f"tk_{secrets.token_hex(6)}_{secrets.token_hex(24)}"


def digest(text: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
