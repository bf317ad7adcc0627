"""Checks across settings: what the types and bounds of single values cannot say.

Couriers that the configuration names must exist, and values must make sense together.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Callable, Collection, Iterator

from couriers.slugs import ALIASES, FEEDS, SLUGS
from service import PROGRAM
from service.config.address import (
    BadAddress,
    check_http,
    check_mongodb,
    check_redis,
    host_and_port,
    masked,
)
from service.config.paths import Path, suggestion
from service.config.problems import Finding, Problem, WhereOf, shown
from service.config.schema import LEASE_MOST_SECONDS, Config, limits_for, together_most
from service.config.webhooks_checks import webhooks_findings
from tracking.errors import MalformedJob
from tracking.request import parse_account, parse_slug

ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){0,8}"
)
"""Of one mailbox, plain: no name beside it, no quotes."""

_OWN_COURIER = 'for a courier of your own, set module = "json_feed" and base_url'


def unknown(config: Config, where_of: Callable[[Path], str]) -> Iterator[Finding]:
    """Every courier that is none: its settings or limits would go unnoticed."""
    for slug, courier in config.couriers.items():
        path: Path = ("couriers", slug)
        if courier.module and courier.module not in FEEDS:
            choice = " or ".join(f'"{each}"' for each in sorted(FEEDS))
            fix = f"Write module = {choice}, or remove it."
            yield Finding((*path, "module"), shown(courier.module), choice, fix)
        elif not _is_slug(slug):
            yield _no_slug(path)
        elif not courier.module and slug not in SLUGS and slug not in ALIASES:
            fix = suggestion(path, where_of(path), SLUGS, _list(SLUGS))
            yield _no_courier(path, f"{fix} F{_OWN_COURIER[1:]}.")
        if slug in ALIASES and ALIASES[slug] in config.couriers:
            fix = f"Put all its keys under [couriers.{ALIASES[slug]}]."
            yield Finding(path, "the same courier a second time", "one table for it", fix)
    known = SLUGS | {slug for slug, courier in config.couriers.items() if courier.module}
    limited = [("limits", "slugs", slug) for slug in config.limits.slugs]
    for path in limited + [("recheck", "slugs", slug) for slug in config.recheck.slugs]:
        slug = path[-1]
        if slug in ALIASES:
            fix = f"Write [{'.'.join((*path[:-1], ALIASES[slug]))}]."
            yield Finding(path, "an old name of a courier", "its slug", fix)
        elif not _is_slug(slug):
            yield _no_slug(path)
        elif slug not in known and slug not in config.couriers:
            other = f"{_list(known)} Or add [couriers.{slug}]: {_OWN_COURIER}."
            fix = suggestion(path, where_of(path), known, other)
            yield _no_courier(path, fix)


def _is_slug(text: str) -> bool:
    try:
        parse_slug(text)
    except MalformedJob:
        return False
    return True


def _no_slug(path: Path) -> Finding:
    fix = 'Write the slug as AfterShip spells it, like "royal-mail".'
    return Finding(path, shown(path[-1]), "a slug: a-z, 0-9, single hyphens", fix)


def _no_courier(path: Path, fix: str) -> Finding:
    return Finding(path, "a slug that no courier has", "the slug of a courier", fix)


def _list(slugs: Collection[str]) -> str:
    return f"There are {', '.join(sorted(slugs))}."


def incoherences(config: Config, where_of: WhereOf) -> Iterator[Problem]:
    """Everything that is wrong although each value by itself is valid."""
    findings = itertools.chain(
        _addresses(config),
        _proxies(config),
        _sentinels(config),
        _times(config),
        _together(config),
        unknown(config, where_of),
        _couriers(config),
        webhooks_findings(config),
        _mail(config),
        _sign_up(config),
    )
    for path, found, expected, fix in findings:
        yield Problem(".".join(path), where_of(path), found, expected, fix)


def _addresses(config: Config) -> Iterator[Finding]:
    servers = config.beanstalkd.servers
    for server in servers:
        yield from _checked(("beanstalkd", "servers"), server, host_and_port)
    if len(set(servers)) < len(servers):
        fix = "List each server once."
        yield Finding(("beanstalkd", "servers"), "the same server twice", "different servers", fix)
    yield from _checked(("redis", "url"), config.redis.url, check_redis)
    yield from _checked(("mongodb", "uri"), config.mongodb.uri, check_mongodb)
    yield from _checked(("api", "listen"), config.api.listen, host_and_port)
    yield from _checked(("ingest", "listen"), config.ingest.listen, host_and_port)
    if config.metrics.listen:
        yield from _checked(("metrics", "listen"), config.metrics.listen, host_and_port)


def _checked(path: Path, address: str, check: Callable[[str], object]) -> Iterator[Finding]:
    try:
        check(address)
    except BadAddress as error:
        yield Finding(path, shown(masked(address)), error.expected, error.fix)


def _proxies(config: Config) -> Iterator[Finding]:
    path = ("http", "trusted_proxies")
    for network in config.http.trusted_proxies:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            fix = 'Write it like "10.0.0.7" or "10.1.0.0/16", with zeros behind the prefix.'
            yield Finding(path, shown(network), "an address or a network", fix)
    if config.http.user_header and not config.http.trusted_proxies:
        fix = "List the proxies that set http.user_header, or remove it."
        yield Finding(path, "an empty list", "the addresses of proxies", fix)


def _sentinels(config: Config) -> Iterator[Finding]:
    redis = config.redis
    sentinels, service = ("redis", "sentinels"), ("redis", "service")
    for sentinel in redis.sentinels:
        yield from _checked(sentinels, sentinel, host_and_port)
    if redis.sentinels and not redis.service:
        fix = 'Set redis.service = "mymaster", the name the Sentinels watch it by.'
        yield Finding(service, "no name", "the name of the service", fix)
    if redis.service and not redis.sentinels:
        fix = 'Set redis.sentinels = ["host:26379"], or remove redis.service.'
        yield Finding(sentinels, "an empty list", "the Sentinels' addresses", fix)
    if redis.sentinels and redis.url.startswith("unix:"):
        fix = 'Write redis.url = "redis://:PASSWORD@sentinels/0", with any name as its host.'
        yield Finding(("redis", "url"), "a path", "redis:// or rediss://", fix)
    for name in ("sentinel_username", "sentinel_password"):
        if getattr(redis, name) and not redis.sentinels:
            fix = f"Set redis.sentinels, or remove redis.{name}."
            yield Finding(sentinels, "an empty list", "the Sentinels' addresses", fix)


def _mail(config: Config) -> Iterator[Finding]:
    mail = config.mail
    for name in ("sender", "operators"):
        address = getattr(mail, name)
        if (address or (mail.host and name == "sender")) and not ADDRESS.fullmatch(address):
            fix = f'Write mail.{name} = "tracker@example.com".'
            yield Finding(("mail", name), shown(address), "the address of a mailbox", fix)
    if bool(mail.user) != bool(mail.password):
        fix = "Set both mail.user and mail.password, or neither."
        what = "a login that is not whole"
        yield Finding(("mail", "password"), what, "a user with a password", fix)


def _sign_up(config: Config) -> Iterator[Finding]:
    web = config.web
    if web.sign_up != "closed" and not config.mail.host:
        fix = 'Set mail.host, or web.sign_up = "closed".'
        yield Finding(("mail", "host"), "no server", "the server that mails links", fix)
    if web.sign_up != "domain":
        return
    if not web.sign_up_domains:
        fix = 'Write web.sign_up_domains = ["example.com"].'
        yield Finding(("web", "sign_up_domains"), "an empty list", "domains of mailboxes", fix)
    for domain in web.sign_up_domains:
        if domain != domain.lower() or not ADDRESS.fullmatch(f"a@{domain}"):
            fix = 'Write it in small letters, like "example.com".'
            yield Finding(("web", "sign_up_domains"), shown(domain), "a domain", fix)
    try:
        parse_account(web.sign_up_account)
    except ValueError:
        fix = f"Name an account that `{PROGRAM} account list` shows."
        path = ("web", "sign_up_account")
        yield Finding(path, shown(web.sign_up_account), "the name of an account", fix)


def _times(config: Config) -> Iterator[Finding]:
    tables: list[tuple[Path, str]] = [(("limits",), "")]
    for slug, own in config.limits.slugs.items():
        if own.lease_seconds or own.call_timeout_seconds:
            tables.append((("limits", "slugs", slug), slug))
    for table, slug in tables:
        limits = limits_for(config, slug)
        lease, timeout = limits.lease_seconds, limits.call_timeout_seconds
        path = (*table, "lease_seconds")
        if lease < 2 * timeout:
            wanted = f"at least 2 x call_timeout_seconds = {2 * timeout:g}"
            fix = f"Set call_timeout_seconds = {lease / 2:g} or less."
            yield Finding(path, f"{lease:g}", wanted, fix)
        elif lease > LEASE_MOST_SECONDS:
            fix = f"Set lease_seconds = {LEASE_MOST_SECONDS:g} or less."
            yield Finding(path, f"{lease:g}", f"at most {LEASE_MOST_SECONDS:g}", fix)
    retry = config.retry
    if retry.cap_seconds < retry.first_seconds:
        fix = f"Set retry.cap_seconds = {retry.first_seconds:g} or more."
        wanted = f"at least retry.first_seconds = {retry.first_seconds:g}"
        yield Finding(("retry", "cap_seconds"), f"{retry.cap_seconds:g}", wanted, fix)


def _together(config: Config) -> Iterator[Finding]:
    for slug, own in config.limits.slugs.items():
        most = together_most(config, slug)
        is_known = slug in SLUGS or slug in config.couriers
        if is_known and own.together and own.together > most:
            yield _too_many(config, slug, own.together, most)
    for slug, courier in config.couriers.items():
        path = ("couriers", slug, "numbers_per_call")
        if courier.numbers_per_call > 1 and not courier.module:
            fix = f"Remove it: [limits.slugs.{slug}] together is how many a call to {slug} carries."
            found = str(courier.numbers_per_call)
            yield Finding(path, found, "the feed that module names", fix)


def _too_many(config: Config, slug: str, together: int, most: int) -> Finding:
    path = ("limits", "slugs", slug, "together")
    wanted = f"at most {most}, as {slug} answers for no more numbers in one call"
    fix = f"Set together = {most} or less." if most > 1 else "Remove it."
    if (courier := config.couriers.get(slug)) and courier.module:
        fix += f" Or set couriers.{slug}.numbers_per_call to as many as your feed takes."
    return Finding(path, str(together), wanted, fix)


def _couriers(config: Config) -> Iterator[Finding]:
    for slug, courier in config.couriers.items():
        path = ("couriers", slug)
        for name in ("base_url", "token_url"):
            if address := getattr(courier, name):
                yield from _checked((*path, name), address, check_http)
        for name, credential in courier.credentials.items():
            if not credential.isprintable():
                found = "a line break or another control character"
                fix = "Write the credential alone, on one line."
                yield Finding((*path, name), found, "printable text", fix)
        if courier.module in FEEDS and not courier.base_url:
            fix = "Set base_url: the feed is asked at {base_url}/{slug}/{number}."
            yield Finding((*path, "base_url"), "no address", "the address of the feed", fix)
