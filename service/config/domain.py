"""Conversion of the configuration into the types of `limits` and `couriers`, for one courier.

Stands apart from `schema`, so that the parent process loads neither of those packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from couriers.slugs import ALIASES, SLUGS
from limits.rules import Rules
from limits.server import RedisAddress
from service.config.address import host_and_port
from service.config.schema import Config, limits_for, together_for
from tracking.line import Line, slug_of
from tracking.request import Slug

if TYPE_CHECKING:
    from couriers.http.credentials import CourierSettings


def rules_for(config: Config, line: Line) -> Rules:
    """Express the limits of one line as `limits` wants them."""
    slug = slug_of(line)
    limits, own = limits_for(config, slug), config.limits.slugs.get(slug)
    return Rules(
        concurrent=limits.concurrent,
        per_second=limits.per_second,
        together=together_for(config, slug),
        fill_ms=limits.fill_ms,
        quotas_count_numbers=bool(own and own.quotas_count_numbers),
        guard_ms=limits.guard_ms,
        guard_most_ms=limits.guard_most_ms,
        call_timeout_seconds=limits.call_timeout_seconds,
        lease_seconds=limits.lease_seconds,
        max_waiting=limits.max_waiting,
        per_hour=limits.per_hour,
        per_day=limits.per_day,
        day_resets_at_seconds=_second_of_day(limits.day_resets_at),
    )


def _second_of_day(time: str) -> int:
    hours, minutes = time.split(":")
    return int(hours) * 3_600 + int(minutes) * 60


def slugs_of(config: Config) -> list[Slug]:
    """List every courier that can be asked, sorted: the built-in ones, and those that are added."""
    return sorted(SLUGS.union(ALIASES.get(slug, Slug(slug)) for slug in config.couriers))


def courier_settings(config: Config) -> dict[Slug, CourierSettings]:
    """List the settings of every courier that the configuration names; others need none."""
    # It brings what reads couriers' answers, and the process that archives reads none.
    from couriers.http.credentials import CourierSettings  # noqa: PLC0415

    return {
        Slug(slug): CourierSettings(
            slug=Slug(slug),
            base_url=courier.base_url,
            token_url=courier.token_url,
            keep=courier.keep,
            module=courier.module,
            # An empty variable is what compose files make of one that is not set.
            credentials={name: text for name, text in courier.credentials.items() if text},
        )
        for slug, courier in config.couriers.items()
    }


def redis_address(config: Config) -> RedisAddress:
    """Say where Redis is."""
    redis = config.redis
    sentinels = tuple(map(host_and_port, redis.sentinels))
    login = redis.sentinel_username, redis.sentinel_password
    return RedisAddress(redis.url, sentinels, redis.service, login)
