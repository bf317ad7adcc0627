"""`doctor`: everything that a worker needs, explained, with what to do where it is not so."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import difflib
import platform
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

from couriers.http.settings import environment_name
from couriers.registry import MODULES, wanted_credentials
from service.cli.catalogue import Catalogue
from service.cli.check import worries_of
from service.cli.codes import code_findings, unknown_codes
from service.cli.exit_codes import Exit
from service.cli.output import say, say_json, table
from service.cli.settings import loaded
from service.client.connections import findings_of
from service.config.capacity import capacity_of
from service.config.load import Loaded
from service.config.paths import is_credential
from service.config.per_slug import limits_for
from service.config.schema import Config, Worker
from service.preflight.judgement import Finding, Grade
from tracking.request import Slug

_LIBRARIES = ("aiohttp", "greenstalk", "msgspec", "pymongo", "redis")
_MARKS = {Grade.FINE: "ok", Grade.UNREAD: "note", Grade.UNSURE: "note", Grade.AWAY: "AWAY"}


@dataclass(frozen=True, slots=True)
class Health:
    """One courier: which credentials are missing, which it does not read, and what it allows."""

    slug: Slug
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    credentials_from: str
    limits: str
    verified: str


def run(options: argparse.Namespace) -> int:
    """Explain everything; 1 when a worker could not start or could not be trusted."""
    setting = loaded(options)
    catalogue = Catalogue(setting)
    findings = [*_ourselves(setting), *asyncio.run(_asked(setting.config))]
    couriers = [_health(setting, catalogue, slug) for slug in catalogue.registry.slugs]
    if options.json:
        say_json(
            {
                "findings": [dataclasses.asdict(each) for each in findings],
                "couriers": [dataclasses.asdict(each) for each in couriers],
            }
        )
    else:
        _print(findings, couriers)
    return Exit.NEGATIVE if worries_of(findings) else Exit.DONE


async def _asked(config: Config) -> list[Finding]:
    servers = await findings_of(config)
    return servers + code_findings(await unknown_codes(config))


def _print(findings: list[Finding], couriers: list[Health]) -> None:
    for each in findings:
        say(f"{_MARKS.get(each.grade, 'BAD'):<5} {each.server}: {each.what}")
        if each.fix:
            say(f"      -> {each.fix}")
    say("")
    headers = ("courier", "credentials", "limits", "checked against")
    table(headers, [(each.slug, _state(each), each.limits, each.verified) for each in couriers])
    for health in couriers:
        if health.missing:
            names = ", ".join(environment_name(health.slug, key) for key in health.missing)
            say("")
            say(f"{health.slug} needs {names} (or these with _FILE)")
            say(f"      -> from {health.credentials_from}")
        for key in health.unused:
            near = difflib.get_close_matches(key, health.missing, 1)
            fix = f"Did you mean {near[0]}?" if near else "Remove it."
            say("")
            say(f"{health.slug} does not read [couriers.{health.slug}] {key}")
            say(f"      -> {fix}")


def _state(health: Health) -> str:
    words = []
    if health.missing:
        words.append(f"missing: {', '.join(health.missing)}")
    if health.unused:
        words.append(f"not read: {', '.join(health.unused)}")
    return "; ".join(words) or "complete"


def _health(setting: Loaded, catalogue: Catalogue, slug: Slug) -> Health:
    courier = catalogue.registry.courier(slug)
    given = catalogue.registry.settings(slug).credentials
    missing = catalogue.missing_credentials(slug)
    # A feed needs none, and passes on what it is given.
    reads = given if courier in MODULES.values() else wanted_credentials(courier, given)
    unused = tuple(key for key in given if key not in reads)
    limits = limits_for(setting.config, slug)
    words = [f"{limits.concurrent} at once", f"{limits.per_second}/s"]
    words += [f"{limits.per_hour}/h"] if limits.per_hour else []
    words += [f"{limits.per_day}/day from {limits.day_resets_at}"] if limits.per_day else []
    source = courier.CREDENTIALS_FROM
    return Health(slug, missing, unused, source, ", ".join(words), courier.VERIFIED)


def _capacity(worker: Worker) -> Finding:
    here = capacity_of(worker)
    what = f"{here.calls:,} calls in flight per process, bound by {here.bound_by}"
    if here.calls == worker.concurrency:
        return Finding("concurrency", Grade.FINE, what)
    return Finding("concurrency", Grade.UNSURE, f"{what}, not {worker.concurrency:,}", here.fix)


def _ourselves(setting: Loaded) -> Iterator[Finding]:
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield Finding("program", Grade.FINE, f"Python {platform.python_version()}, {libraries}")
    yield _capacity(setting.config.worker)
    if setting.file is None:
        yield Finding("settings", Grade.FINE, "no file, all defaults or from the environment")
        return
    yield Finding("settings", Grade.FINE, f"{setting.file}")
    secret = any(
        is_credential(path) and where.startswith(str(setting.file))
        for path, where in setting.origins.items()
    )
    if secret and setting.file.stat().st_mode & stat.S_IROTH:
        fix = f"chmod o-r {setting.file}, or move them to the environment or ..._FILE."
        what = f"{setting.file} holds credentials and everybody may read it"
        yield Finding("settings", Grade.UNSURE, what, fix)
