"""Which values are secrets, for the log to take out and `config show` to mask."""

from __future__ import annotations

from typing import Any

from couriers.http.redaction import MASK
from service.config.address import masked, passwords_of
from service.config.paths import SECRET_TEXT, Path, is_credential
from service.config.schema import Config

SHORTEST = 4
"""Shorter "secrets" are words of everyday text; taking them out would make a log unreadable."""


def secrets_of(config: Config) -> frozenset[str]:
    """Every text that must not appear anywhere: credentials, and passwords in addresses."""
    found = set(passwords_of(config.redis.url) | passwords_of(config.mongodb.uri))
    found.add(config.redis.sentinel_password)
    for courier in config.couriers.values():
        found.update(courier.credentials.values())
    return frozenset(text for text in found if len(text) >= SHORTEST)


def masked_value(path: Path, value: Any) -> Any:
    """Mask what must not be shown of a value."""
    if path in SECRET_TEXT:
        return masked(str(value))
    if is_credential(path):
        return MASK if value else ""
    return value
