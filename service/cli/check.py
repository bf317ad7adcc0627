"""`check`: one line and an exit code, for probes of containers and monitors."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses

from service.cli.exit_codes import Exit
from service.cli.living import worker_words
from service.cli.output import say, say_json
from service.cli.settings import loaded
from service.client.catalogue import Catalogue
from service.client.health import Finding, findings_of, key_findings, worries_of
from service.client.look import LiveWorker, live_workers
from service.config.schema import Config

_WELL = "all servers answer and keep what they are given"


def run(options: argparse.Namespace) -> int:
    """Say whether all servers answer and can be trusted; 0 when they do, also without a worker."""
    setting = loaded(options)
    findings, workers, broken = asyncio.run(_asked(setting.config))
    worries = worries_of(findings)
    if options.json:
        live = None if workers is None else [dataclasses.asdict(each) for each in workers]
        told = {"ok": not worries, "worries": [str(each) for each in worries], "workers": live}
        say_json(told | {"broken": [str(each) for each in broken]})
    else:
        line = " ".join(map(str, worries)).rstrip(".")
        words = [f"not ok: {line}" if worries else f"ok: {_WELL}"]
        words += [] if workers is None else [worker_words(workers)]
        # All else works: a probe is to restart nothing for it.
        words += [f"broken: {each}".rstrip(".") for each in broken]
        say("; ".join(words))
    return Exit.NEGATIVE if worries else Exit.DONE


async def _asked(
    config: Config,
) -> tuple[list[Finding], list[LiveWorker] | None, list[Finding]]:
    """Ask servers, and Redis for the workers that live: None when it does not answer.

    The last ones are keys of Redis that stop a courier.
    """
    slugs = Catalogue(config).slugs
    return await asyncio.gather(
        findings_of(config), live_workers(config), key_findings(config, slugs)
    )
