"""A worker that starts with other credentials ends the pauses that the old ones caused."""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable

from couriers.http.settings import CourierSettings
from couriers.registry import Registry
from limits.admin.pause import Pauses
from service.observe.events import Event
from service.observe.log import emit
from tracking.line import Line, courier_line, slug_of

ROUNDS = 50_000
"""About 20 ms: who reads Redis must not find a short password out by trying."""


def marks_of(registry: Registry) -> Callable[[Line], str]:
    """Make what marks a refusal with the credentials that were refused; each is hashed once."""
    return functools.cache(lambda line: fingerprint_of(registry.settings(slug_of(line))))


async def resume_where_changed(brakes: Pauses, registry: Registry) -> None:
    """Let the couriers go on whose credentials were refused and are others now. Raises LimitsDown.

    A pause by hand stays.
    """
    lines = [courier_line(slug) for slug in registry.slugs]
    for line, mark in (await brakes.marks(lines)).items():
        if not is_of(mark, registry.settings(slug_of(line))):
            await brakes.resume(line, by_hand=False)
            emit(Event.RESUMED, slug=slug_of(line))


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
