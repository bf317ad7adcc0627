"""Fingerprints of what a courier refused: they tell that it was changed, and nothing else of it."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets

from couriers.http.settings import CourierSettings

ROUNDS = 50_000
"""About 20 ms: who reads Redis must not find a short password out by trying."""


def fingerprint_of(settings: CourierSettings) -> str:
    """Take a fingerprint of a courier's addresses and credentials, salted: each is another text."""
    salt = secrets.token_hex(8)
    return f"{salt}:{_hash(salt, settings)}"


def is_of(fingerprint: str, settings: CourierSettings) -> bool:
    """Whether it was taken of these very addresses and credentials."""
    salt, _, found = fingerprint.partition(":")
    return hmac.compare_digest(found, _hash(salt, settings))


def _hash(salt: str, settings: CourierSettings) -> str:
    told = [settings.base_url, settings.token_url, sorted(settings.credentials.items())]
    written = json.dumps(told).encode()
    return hashlib.pbkdf2_hmac("sha256", written, salt.encode(), ROUNDS).hex()
