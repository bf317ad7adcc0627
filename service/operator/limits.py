"""Changing a courier's limits while workers run: stored in MongoDB, in force through Redis.

Workers hear of a change with their next step that could start a call: Redis refuses it to who goes
by older rules. So a change holds at once and exactly, and who has nothing to do asks for nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from limits.admin.line_scripts import newest_revision
from limits.admin.pause import Pauses
from limits.rules import Changes, Own
from service.config.domain import rules_for
from service.config.schema import Config, together_most
from service.operator.connections import Collections, book_of, collections_of, redis_of
from service.worker.results.limit_changes import (
    SETTABLE,
    checked,
    read_changes,
    reset_limits,
    set_limits,
)
from tracking.errors import LimitsBroken, LimitsDown, ResultsDown
from tracking.line import courier_line
from tracking.request import Slug

__all__ = ["SETTABLE", "Own"]

_WISH = re.compile(r"([a-z_]+)=(none|[0-9]{1,10})")


@dataclass(frozen=True, slots=True)
class CourierLimits:
    """The limits of one courier: those `in_force`, and of these what was `set` over config.toml.

    `is_known`: workers go by them; False: Redis has not heard of the newest change; None: it does
    not answer.
    """

    slug: Slug
    in_force: Own
    set: Own
    is_known: bool | None


def read_wishes(words: Iterable[str]) -> Own:
    """Read `per_second=5 per_hour=none`. Raises ValueError."""
    wishes: dict[str, int | None] = {}
    for word in words:
        found = _WISH.fullmatch(word)
        if not found:
            wanted = "write NAME=NUMBER, like per_second=5, or per_hour=none for no quota"
            raise ValueError(f"{word!r} is no limit: {wanted}")
        name, value = found.groups()
        wishes[name] = None if value == "none" else int(value)
    return checked(wishes)


def named_limits(words: Iterable[str]) -> list[str]:
    """Read the names of limits. Raises ValueError."""
    names = list(words)
    checked(dict.fromkeys(names, 1))
    return names


def check_together(config: Config, slug: Slug, wishes: Own) -> None:
    """Check that a courier answers for so many numbers in one call. Raises ValueError."""
    most = together_most(config, slug)
    if (wishes.get("together") or 0) > most:
        raise ValueError(f"together can be {most} at most: {slug} answers for no more in one call")


def members(found: CourierLimits) -> dict[str, object]:
    """Make the JSON members of a courier's limits."""
    return {
        "slug": found.slug,
        "limits": dict(found.in_force),
        "set": dict(found.set),
        "known_to_workers": found.is_known,
    }


def limits_of(config: Config, stores: Collections, slugs: Sequence[Slug]) -> list[CourierLimits]:
    """Read what holds for couriers. Raises PyMongoError."""
    return _told(config, read_changes(stores.limits), slugs)


def set_over_file(config: Config) -> Mapping[str, Own]:
    """Read what is set, by slug; nothing where MongoDB does not answer."""
    try:
        with collections_of(config) as stores:
            return read_changes(stores.limits).slugs
    except ResultsDown:
        return {}


def change(
    config: Config, stores: Collections, slug: Slug, wishes: Own | Sequence[str]
) -> CourierLimits:
    """Set limits, or take back those of these names, all where none is named.

    Raises PyMongoError; LimitsDown where they are set and Redis has not heard of it: repeat it.
    """
    if isinstance(wishes, Sequence):
        changes = reset_limits(stores.limits, slug, wishes)
    else:
        changes = set_limits(stores.limits, slug, wishes)
    asyncio.run(_announce(config, slug, changes.revision))
    return _told(config, changes, [slug])[0]


async def _announce(config: Config, slug: Slug, revision: int) -> None:
    async with redis_of(config) as redis:
        brakes = Pauses(redis, book_of(config).rules_of)
        await brakes.revise(courier_line(slug), revision)


def _told(config: Config, changes: Changes, slugs: Sequence[Slug]) -> list[CourierLimits]:
    known = asyncio.run(_is_known(config, changes.revision))
    found = []
    for slug in slugs:
        rules, own = rules_for(config, courier_line(slug)), changes.slugs.get(slug, {})
        in_force = {name: getattr(rules, name) for name in SETTABLE} | dict(own)
        found.append(CourierLimits(slug, in_force, own, known))
    return found


async def _is_known(config: Config, revision: int) -> bool | None:
    try:
        async with redis_of(config) as redis:
            return await newest_revision(redis) >= revision
    except (LimitsBroken, LimitsDown):
        return None
