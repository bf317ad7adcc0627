"""Where MongoDB is, and what its collections are called."""

from __future__ import annotations

from dataclasses import dataclass

from service.config.schema import Config

UNKNOWN_CODES, FORGOTTEN = "unknown_codes", "forgotten"
OPERATIONS, STATISTICS = "operations", "statistics"
ACCOUNTS, KEYS, AUDIT = "accounts", "keys", "audit"
SHIPMENTS, LINKS = "shipments", "links"
REFUSED, LIMITS = "refused", "limits"
"""The names of collections that nobody needs to call otherwise: they hold no answers."""


@dataclass(frozen=True, slots=True)
class Names:
    """Where MongoDB is and what its collections are called.

    `dead_keep_days` until TTL removal, of dead requests and of unreadable answers;
    `results_keep_days` after the end of a parcel, 0 for never. `operations_keep_days` after the end
    of an operation; `excerpt_days` for what attempts quote of answers.
    """

    uri: str
    database: str = "bucket"
    tracking: str = "tracking"
    past: str = "tracking_past"
    dead: str = "dead"
    unreadable: str = "unreadable"
    dead_keep_days: int = 30
    results_keep_days: int = 0
    operations_keep_days: int = 90
    excerpt_days: int = 30


def names_of(config: Config) -> Names:
    """The names that are configured."""
    mongodb = config.mongodb
    return Names(
        uri=mongodb.uri,
        database=mongodb.database,
        tracking=mongodb.collection,
        past=mongodb.past_collection,
        dead=mongodb.dead_collection,
        unreadable=mongodb.unreadable_collection,
        dead_keep_days=config.dead.keep_days,
        results_keep_days=config.results.keep_days,
        operations_keep_days=config.operations.keep_days,
        excerpt_days=config.results.excerpt_days,
    )
