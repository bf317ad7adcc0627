"""`doctor`: everything that a worker needs, explained, with what to do where it is not so."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import difflib

from service.cli.codes import code_findings
from service.cli.exit_codes import Exit
from service.cli.output import say, say_json, table
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.health import (
    CourierHealth,
    Finding,
    Grade,
    account_findings,
    archive_findings,
    courier_health,
    environment_name,
    findings_here,
    findings_of,
    guard_findings,
    key_findings,
    refused_findings,
    worries_of,
)
from service.client.limits import set_over_file
from service.client.look import unknown_codes
from service.config.schema import Config

_MARKS = {
    Grade.FINE: "ok",
    Grade.UNREAD: "note",
    Grade.UNSURE: "note",
    Grade.FULL: "FULL",
    Grade.AWAY: "AWAY",
}


def run(options: argparse.Namespace) -> int:
    """Explain everything; 1 when a worker could not start or could not be trusted."""
    setting = loaded(options)
    config, catalogue = setting.config, Catalogue(setting.config)
    findings = [*findings_here(setting), *asyncio.run(_asked(config, catalogue))]
    own = set_over_file(config)
    couriers = [courier_health(config, catalogue, slug, own.get(slug)) for slug in catalogue.slugs]
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


async def _asked(config: Config, catalogue: Catalogue) -> list[Finding]:
    servers = await findings_of(config)
    servers += await key_findings(config, catalogue.slugs)
    servers += await archive_findings(config, catalogue.slugs)
    servers += await account_findings(config)
    servers += await guard_findings(config)
    servers += await asyncio.to_thread(refused_findings, config)
    return servers + code_findings(await unknown_codes(config))


def _print(findings: list[Finding], couriers: list[CourierHealth]) -> None:
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


def _state(health: CourierHealth) -> str:
    words = []
    if health.missing:
        words.append(f"missing: {', '.join(health.missing)}")
    if health.unused:
        words.append(f"not read: {', '.join(health.unused)}")
    return "; ".join(words) or "complete"
