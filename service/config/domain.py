"""Conversion of the configuration into the types of `limits` and `couriers`, for one courier."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from couriers.http.credentials import CourierSettings
from limits.rules import Rules
from limits.server import RedisAddress
from service.config.address import host_and_port
from service.config.schema import Config, Limits, Recheck, Section
from tracking.line import Line, slug_of
from tracking.request import Slug

S = TypeVar("S", bound=Section)


def silence_seconds(config: Config) -> float:
    """How long a worker may hang: the least by which any courier's lease outlasts its call.

    A worker that hangs for longer could have a call open whose slot is already given to another.
    """
    tables = [config.limits, *(limits_for(config, slug) for slug in config.limits.slugs)]
    return min(limits.lease_seconds - limits.call_timeout_seconds for limits in tables)


def limits_for(config: Config, slug: str) -> Limits:
    """Lay `[limits.slugs.<slug>]` over `[limits]`: the limits of one courier."""
    return _laid_over(config.limits, config.limits.slugs.get(slug))


def recheck_for(config: Config, slug: str) -> Recheck:
    """Lay `[recheck.slugs.<slug>]` over `[recheck]`: the re-checks of one courier."""
    return _laid_over(config.recheck, config.recheck.slugs.get(slug))


def _laid_over(common: S, own: Section | None) -> S:
    differing = msgspec.structs.asdict(own) if own is not None else {}
    return msgspec.structs.replace(
        common, **{name: value for name, value in differing.items() if value is not None}
    )


def rules_for(config: Config, line: Line) -> Rules:
    """Express the limits of one line as `limits` wants them."""
    limits = limits_for(config, slug_of(line))
    hours, minutes = limits.day_resets_at.split(":")
    return Rules(
        concurrent=limits.concurrent,
        per_second=limits.per_second,
        guard_ms=limits.guard_ms,
        guard_most_ms=limits.guard_most_ms,
        call_timeout_seconds=limits.call_timeout_seconds,
        lease_seconds=limits.lease_seconds,
        max_waiting=limits.max_waiting,
        per_hour=limits.per_hour,
        per_day=limits.per_day,
        day_resets_at_seconds=int(hours) * 3600 + int(minutes) * 60,
    )


def courier_settings(config: Config) -> dict[Slug, CourierSettings]:
    """List the settings of every courier that the configuration names; others need none."""
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
