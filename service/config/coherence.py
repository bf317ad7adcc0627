"""Do the values make sense together? What types and bounds cannot say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from service.config.address import (
    BadAddress,
    check_http,
    check_mongodb,
    check_redis,
    host_and_port,
    masked,
)
from service.config.check import WhereOf
from service.config.per_slug import limits_for
from service.config.problem import Problem, shown
from service.config.schema import Config, Courier
from service.config.tree import Path
from tracking.errors import MalformedJob
from tracking.request import parse_slug

LEASE_MOST_SECONDS = 60.0
"""The documented expiry of `calls_number:<slug>`: a slot must not be held longer by the dead."""


def incoherences(config: Config, where_of: WhereOf) -> Iterator[Problem]:
    """Everything that is wrong although each value by itself is valid."""
    problems = itertools.chain(
        _addresses(config), _sentinels(config), _times(config), _slugs(config), _couriers(config)
    )
    for path, found, expected, fix in problems:
        yield Problem(".".join(path), where_of(path), found, expected, fix)


_Finding = tuple[Path, str, str, str]


def _addresses(config: Config) -> Iterator[_Finding]:
    servers = config.beanstalkd.servers
    for server in servers:
        yield from _checked(("beanstalkd", "servers"), server, host_and_port)
    if len(set(servers)) < len(servers):
        fix = "List each server once."
        yield ("beanstalkd", "servers"), "the same server twice", "different servers", fix
    yield from _checked(("redis", "url"), config.redis.url, check_redis)
    yield from _checked(("mongodb", "uri"), config.mongodb.uri, check_mongodb)


def _checked(path: Path, address: str, check: Callable[[str], object]) -> Iterator[_Finding]:
    try:
        check(address)
    except BadAddress as error:
        yield path, shown(masked(address)), error.expected, error.fix


def _sentinels(config: Config) -> Iterator[_Finding]:
    redis = config.redis
    for sentinel in redis.sentinels:
        yield from _checked(("redis", "sentinels"), sentinel, host_and_port)
    if redis.sentinels and not redis.service:
        fix = 'Set redis.service = "mymaster", the name the Sentinels watch it by.'
        yield ("redis", "service"), "no name", "the name of the service", fix
    if redis.service and not redis.sentinels:
        fix = 'Set redis.sentinels = ["host:26379"], or remove redis.service.'
        yield ("redis", "sentinels"), "an empty list", "the Sentinels' addresses", fix


def _times(config: Config) -> Iterator[_Finding]:
    tables: list[tuple[Path, str]] = [(("limits",), "")]
    for slug, own in config.limits.slugs.items():
        if own.lease_seconds or own.call_timeout_seconds:
            tables.append((("limits", "slugs", slug), slug))
    for table, slug in tables:
        limits = limits_for(config, slug)
        lease, timeout = limits.lease_seconds, limits.call_timeout_seconds
        path = (*table, "lease_seconds")
        if lease < 2 * timeout:
            fix = f"Set call_timeout_seconds = {lease / 2:g} or less."
            yield path, f"{lease:g}", f"at least 2 x call_timeout_seconds = {2 * timeout:g}", fix
        elif lease > LEASE_MOST_SECONDS:
            fix = f"Set lease_seconds = {LEASE_MOST_SECONDS:g} or less."
            yield path, f"{lease:g}", f"at most {LEASE_MOST_SECONDS:g}", fix
    retry = config.retry
    if retry.cap_seconds < retry.first_seconds:
        fix = "Set retry.cap_seconds to retry.first_seconds or more."
        found = f"{retry.cap_seconds:g}"
        yield ("retry", "cap_seconds"), found, f"at least {retry.first_seconds:g}", fix


def _slugs(config: Config) -> Iterator[_Finding]:
    tables: tuple[tuple[Path, list[str]], ...] = (
        (("couriers",), list(config.couriers)),
        (("limits", "slugs"), list(config.limits.slugs)),
    )
    for table, slugs in tables:
        for slug in slugs:
            try:
                parse_slug(slug)
            except MalformedJob:
                fix = "Write the courier's slug as AfterShip spells it."
                yield (*table, slug), shown(slug), "a slug: a-z, 0-9, single hyphens", fix


def _couriers(config: Config) -> Iterator[_Finding]:
    for slug, courier in config.couriers.items():
        path = ("couriers", slug)
        for name in ("base_url", "token_url"):
            if address := getattr(courier, name):
                yield from _checked((*path, name), address, check_http)
        yield from _feed(path, courier)


def _feed(path: Path, courier: Courier) -> Iterator[_Finding]:
    if courier.module == "json_feed" and not courier.base_url:
        fix = "Set base_url: the feed is asked at {base_url}/{slug}/{number}."
        yield (*path, "base_url"), "no address", "the address of the feed", fix
