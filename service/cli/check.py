"""`check`: one line and an exit code, for probes of containers and monitors."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
from collections.abc import Sequence

from limits.workers import LiveWorker
from service.cli.exit_codes import Exit
from service.cli.living import worker_words
from service.cli.output import say, say_json
from service.cli.settings import loaded
from service.client.connections import findings_of, view_of
from service.config.schema import Config
from service.preflight.judgement import Finding, Grade
from tracking.errors import LimitsDown

_WELL = "all servers answer and keep what they are given"
_WORRYING = frozenset({Grade.AWAY, Grade.LOSES, Grade.UNFIT})


def run(options: argparse.Namespace) -> int:
    """Say whether all servers answer and can be trusted; 0 when they do, also without a worker."""
    setting = loaded(options)
    findings, workers = asyncio.run(_asked(setting.config))
    worries = worries_of(findings)
    if options.json:
        live = None if workers is None else [dataclasses.asdict(each) for each in workers]
        say_json({"ok": not worries, "worries": [str(each) for each in worries], "workers": live})
    else:
        line = " ".join(map(str, worries)).rstrip(".")
        words = [f"not ok: {line}" if worries else f"ok: {_WELL}"]
        words += [] if workers is None else [worker_words(workers)]
        say("; ".join(words))
    return Exit.NEGATIVE if worries else Exit.DONE


async def _asked(config: Config) -> tuple[list[Finding], list[LiveWorker] | None]:
    """Ask servers, and Redis for the workers that live: None when it does not answer."""
    return await asyncio.gather(findings_of(config), _workers(config))


async def _workers(config: Config) -> list[LiveWorker] | None:
    try:
        async with view_of(config) as view:
            return await view.workers()
    except LimitsDown:
        return None


def worries_of(findings: Sequence[Finding]) -> list[Finding]:
    """Pick what a worker cannot work with. It can do with one beanstalkd of several."""
    tubes = {each.server for each in findings if each.server.startswith("beanstalkd")}
    away = {each.server for each in findings if each.grade is Grade.AWAY}
    spared = away & tubes if tubes - away else set()
    return [each for each in findings if each.grade in _WORRYING and each.server not in spared]
