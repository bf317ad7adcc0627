"""`check`: one line and an exit code, for probes of containers and monitors."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

from service.config import schema
from service.console import settings, wording
from service.console.arguments import Exit, Options, Parser, add_json
from service.console.output import moment, tell
from service.operator import catalogue, health, look
from service.worker.supervisor import pulse
from tracking.request import Slug

_WELL = "all servers answer and keep what they are given"


def check_arguments(parser: Parser) -> None:
    """Add the arguments of `check`."""
    parser.add_argument(
        "--worker",
        action="store_const",
        const=_check_workers_here,
        dest="run",
        help="tell instead whether a worker lives on this machine, whatever the servers do",
    )
    add_json(parser)


def run_check(options: Options) -> int:
    """Say whether all servers answer and can be trusted: 0, also without a worker; else 3 or 1."""
    config = settings.loaded(options).config
    known = catalogue.Catalogue(config)
    findings, workers, broken = asyncio.run(_ask(config, known.slugs))
    couriers = (health.courier_health(config, known, slug) for slug in known.slugs)
    worries = [*health.credential_findings(couriers), *health.worries_of(findings)]
    live = None if workers is None else [dataclasses.asdict(each) for each in workers]
    members = {"ok": not worries, "worries": [str(each) for each in worries], "workers": live}
    members["broken"] = [str(each) for each in broken]
    line = " ".join(map(str, worries)).rstrip(".")
    words = [f"not ok: {line}" if worries else f"ok: {_WELL}"]
    words += [] if workers is None else [wording.worker_words(workers)]
    # All else works: a probe is to restart nothing for it.
    words += [f"broken: {each}".rstrip(".") for each in broken]
    tell(members, "; ".join(words), as_json=options.json)
    if health.away(findings):
        return Exit.AWAY
    return Exit.NEGATIVE if worries else Exit.DONE


async def _ask(
    config: schema.Config, slugs: Sequence[Slug]
) -> tuple[list[health.Finding], list[look.LiveWorker] | None, list[health.Finding]]:
    """Ask servers, and Redis for the workers that live: None when it does not answer.

    The last findings are keys of Redis that stop a courier.
    """
    return await asyncio.gather(
        health.findings_of(config), look.live_workers(config), health.key_findings(config, slugs)
    )


def _check_workers_here(options: Options) -> int:
    """Ask the parents of this machine; 0 when one answers and a process of it beats."""
    started_with = settings.installation(options)
    found = list(pulse.pulses(started_with))
    lives = any(each.beating for each in found)
    line = "; ".join(map(_worded, found)) or f"no worker runs here with {started_with}"
    members = {"ok": lives, "workers": [dataclasses.asdict(each) for each in found]}
    tell(members, f"{'ok' if lives else 'not ok'}: {line}", as_json=options.json)
    return Exit.DONE if lives else Exit.NEGATIVE


def _worded(found: pulse.Pulse) -> str:
    if not found.version:
        return f"worker {found.pid} does not answer"
    beating = f"{found.beating} of {found.processes} processes beat"
    return f"worker {found.pid} ({found.version}, since {moment(found.since)}): {beating}"
