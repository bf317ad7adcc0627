"""The health of everything that a worker needs, and the fix where something lacks."""

from __future__ import annotations

import asyncio
import difflib
import platform
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeVar

import msgspec
from redis.asyncio import Redis

from couriers.http.credentials import environment_name
from couriers.registry import MODULES, wanted_credentials
from limits.admin.accounts import older_workers
from limits.admin.running import fitting_guards
from limits.admin.soundness import flaws_of
from limits.archive import MARK_BYTES, waiting_of
from service.config.address import masked_value
from service.config.document import read
from service.config.load import Loaded
from service.config.machine import call_budget
from service.config.paths import values
from service.config.schema import Config, Worker, limits_for, together_for
from service.operator.catalogue import Catalogue
from service.operator.connections import collections_of, redis_of
from service.operator.ingest_labels import ingests_of
from service.operator.look import older_than_this
from service.operator.relays import forged_labels
from service.operator.trials import Trial
from service.worker.deliveries.foreign_request import JOB_MOST
from service.worker.preflight.judgement import Finding, Grade
from service.worker.preflight.survey import read_beanstalkd, survey
from service.worker.results.queries import followed_by_several
from service.worker.results.refused import counted
from service.worker.tubes.put_servers import too_small
from tracking.errors import LimitsBroken, LimitsDown, ResultsDown, TubesDown
from tracking.line import courier_line
from tracking.request import Slug

__all__ = ["Finding", "Grade", "environment_name"]

DAY_SECONDS, GIB = 86_400, 2**30
ARCHIVED_WITHIN_SECONDS = 120.0
"""A worker archives within a minute, also after another one has vanished."""

T = TypeVar("T")

_LIBRARIES = ("aiohttp", "greenstalk", "msgspec", "pymongo", "redis")
_WORRYING = frozenset({Grade.FULL, Grade.AWAY, Grade.LOSES, Grade.UNFIT})


@dataclass(frozen=True, slots=True)
class CourierHealth:
    """One courier: which credentials are missing, which it does not read, and what it allows."""

    slug: Slug
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    credentials_from: str
    limits: str
    verified: str
    tried: Trial | None = None


async def findings_of(config: Config) -> list[Finding]:
    """Ask all servers about themselves."""
    with collections_of(config) as stores:
        async with redis_of(config) as redis:
            return await survey(config, redis, stores.client)


async def archive_findings(config: Config, slugs: Sequence[Slug]) -> list[Finding]:
    """Say what waits to be archived; nothing where Redis does not answer. `slugs`: all couriers."""
    waiting = await _asked(config, waiting_of)
    return [archive_finding(config, slugs, *waiting)] if waiting else []


async def key_findings(config: Config, slugs: Sequence[Slug]) -> list[Finding]:
    """Name keys and records that stop a courier; nothing where Redis does not answer."""
    flaws = await _asked(config, lambda redis: flaws_of(redis, map(courier_line, slugs)))
    return [Finding("Redis", Grade.UNSURE, each.what, each.fix) for each in flaws or ()]


def archive_finding(
    config: Config, slugs: Sequence[Slug], waiting: int, oldest_seconds: float
) -> Finding:
    """Say what waits for the archive, and what memory a day of it would need."""
    per_second = sum(limits_for(config, slug).per_second for slug in slugs)
    day = per_second * DAY_SECONDS * MARK_BYTES / GIB
    need = f"a day of calls at all limits ({per_second:,}/s) would take {day:,.1f} GiB of Redis"
    what = f"{waiting:,} operations that ended wait for MongoDB; {need}"
    if oldest_seconds <= ARCHIVED_WITHIN_SECONDS:
        return Finding("archive", Grade.FINE, what)
    fix = 'Look whether a worker runs, and in its log for "operations are not archived".'
    return Finding("archive", Grade.UNSURE, f"{what}. The oldest: {oldest_seconds:,.0f} s", fix)


async def account_findings(config: Config) -> list[Finding]:
    """Say which workers keep this version from its start, and what several accounts follow."""
    older = older_than_this(await _asked(config, older_workers) or ())
    found = [Finding("workers", Grade.UNSURE, each) for each in older]
    try:
        with collections_of(config) as stores:
            shared = await asyncio.to_thread(followed_by_several, stores.tracking)
    except ResultsDown:
        return found
    what = f"{shared:,} active parcels are followed by several accounts: each costs a call for each"
    return [*found, Finding("accounts", Grade.FINE, what)] if shared else found


async def guard_findings(config: Config) -> list[Finding]:
    """Say which guards would fit what workers measured; nothing where Redis does not answer."""
    guards = await _asked(config, fitting_guards)
    return [] if guards is None else [guard_finding(config, guards)]


async def _asked(config: Config, ask: Callable[[Redis], Awaitable[T]]) -> T | None:
    """Ask Redis; None where it does not answer, or what was asked for is broken."""
    with suppress(LimitsBroken, LimitsDown):
        async with redis_of(config) as redis:
            return await ask(redis)
    return None


def guard_finding(config: Config, guards: Mapping[str, int]) -> Finding:
    """Say whose answers scatter by more than `guard_ms`, and which guard, in ms, would fit."""
    if not guards:
        what = "no courier's answers scatter by more than its guard_ms, as far as workers measured"
        return Finding("pacing", Grade.FINE, what)
    words, short = [], False
    for slug, fits in sorted(guards.items()):
        limits = limits_for(config, slug)
        kept = max(limits.guard_ms, min(fits, limits.guard_most_ms))
        words.append(f"{slug} {fits} ms" + (f" (kept: {kept})" if kept < fits else ""))
        short |= kept < fits
    what = f"the guard that fits the scatter of answers: {', '.join(words)}"
    if not short:
        return Finding("pacing", Grade.FINE, f"{what}. Workers keep it by themselves")
    fix = "Where the way there scatters so, raise its guard_most_ms in [limits.slugs.SLUG]; where "
    fix += "only its answers take varied times, guard_most_ms = 0 gives it its whole rate."
    return Finding("pacing", Grade.UNSURE, what, fix)


def refused_findings(config: Config) -> list[Finding]:
    """Say what MongoDB refuses to have; nothing where it does not answer."""
    try:
        with collections_of(config) as stores:
            return list(_refused(config.mongodb.database, counted(stores.refused)))
    except ResultsDown:
        return []


def relay_findings(config: Config) -> list[Finding]:
    """Say which relays are reached by nobody, and which servers take not all that comes to relays.

    Nothing where there is no relay, or where MongoDB does not answer.
    """
    try:
        with collections_of(config) as stores:
            labels, forged = ingests_of(stores), forged_labels(stores)
    except ResultsDown:
        return []
    what = f"doors take labels for forged, as their key is another one: {', '.join(forged)}"
    fix = f"Restore the key in {config.mongodb.database}.keys, or make these services again."
    found = [Finding("relays", Grade.UNSURE, what, fix)] if forged else []
    for server in config.beanstalkd.servers if labels else ():
        with suppress(TubesDown):
            most = read_beanstalkd(server).job_most
            if most < JOB_MOST:
                found.append(Finding("relays", Grade.UNSURE, *too_small(server, most, JOB_MOST)))
    return found


def _refused(database: str, found: Mapping[str, tuple[int, str]]) -> Iterator[Finding]:
    for name, (count, why) in found.items():
        what = f"refuses {count:,} documents of {database}.{name}, which wait in {database}.refused"
        fix = "Correct the validator or drop the unique index; without a validator: "
        fix += f'db.getSiblingDB("{database}").runCommand({{collMod: "{name}", validator: {{}}}}). '
        fix += "The process that archives tries them again every ten minutes."
        yield Finding("MongoDB", Grade.UNSURE, f"{what}. {why}", fix)


def worries_of(findings: Sequence[Finding]) -> list[Finding]:
    """Pick what a worker cannot work with. It can do with one beanstalkd of several."""
    tubes = {each.server for each in findings if each.server.startswith("beanstalkd")}
    away = {each.server for each in findings if each.grade is Grade.AWAY}
    spared = away & tubes if tubes - away else set()
    return [each for each in findings if each.grade in _WORRYING and each.server not in spared]


def away(findings: Sequence[Finding]) -> bool:
    """Whether a server does not answer that nothing else stands in for."""
    return any(each.grade is Grade.AWAY for each in worries_of(findings))


def courier_health(
    config: Config,
    catalogue: Catalogue,
    slug: Slug,
    own: Mapping[str, Any] | None = None,
    tried: Trial | None = None,
) -> CourierHealth:
    """Compare what a courier needs with what is set for it; `own`: limits set over the file."""
    courier = catalogue.registry.courier(slug)
    given = catalogue.registry.settings(slug).credentials
    missing = catalogue.missing_credentials(slug)
    # A feed needs none, and passes on what it is given.
    reads = given if courier in MODULES.values() else wanted_credentials(courier, given)
    unused = tuple(key for key in given if key not in reads)
    changed = dict(own or {})
    together = changed.pop("together", None) or together_for(config, slug)
    limits = msgspec.structs.replace(limits_for(config, slug), **changed)
    words = [f"{limits.concurrent} at once", f"{limits.per_second}/s"]
    words += [f"{together} numbers a call"] if together > 1 else []
    words += [f"{limits.per_hour}/h"] if limits.per_hour else []
    words += [f"{limits.per_day}/day from {limits.day_resets_at}"] if limits.per_day else []
    words += ["set over config.toml"] if own else []
    source = courier.CREDENTIALS_FROM
    return CourierHealth(slug, missing, unused, source, ", ".join(words), courier.VERIFIED, tried)


def credential_findings(couriers: Iterable[CourierHealth]) -> list[Finding]:
    """Name credentials that no module reads: each is misspelt, or of another courier."""
    found = []
    for courier in couriers:
        for key in courier.unused:
            near = difflib.get_close_matches(key, courier.missing, 1)
            fix = f"Did you mean {near[0]}?" if near else "Remove it."
            what = f"{courier.slug} does not read [couriers.{courier.slug}] {key}"
            found.append(Finding("settings", Grade.UNFIT, what, fix))
    return found


def findings_here(setting: Loaded) -> Iterator[Finding]:
    """Look at this program, this machine and the settings."""
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield Finding("program", Grade.FINE, f"Python {platform.python_version()}, {libraries}")
    yield _capacity(setting.config.worker)
    if setting.file is None:
        yield Finding("settings", Grade.FINE, "no file, all defaults or from the environment")
        return
    yield Finding("settings", Grade.FINE, f"{setting.file}")
    in_file = values(read(setting.file).raw)
    secret = any(masked_value(path, value) != value for path, value in in_file)
    if secret and setting.file.stat().st_mode & stat.S_IROTH:
        fix = f"chmod o-r {setting.file}, or move them to the environment or ..._FILE."
        what = f"{setting.file} holds credentials and everybody may read it"
        yield Finding("settings", Grade.UNSURE, what, fix)


def _capacity(worker: Worker) -> Finding:
    here = call_budget(worker)
    what = f"{here.calls:,} calls in flight per process, bound by {here.bound_by}"
    if here.calls == worker.concurrency:
        return Finding("concurrency", Grade.FINE, what)
    return Finding("concurrency", Grade.UNSURE, f"{what}, not {worker.concurrency:,}", here.fix)
