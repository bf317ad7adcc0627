"""`check`: one line and an exit code, for probes of containers and monitors."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from service.cli.exits import Exit
from service.cli.paper import say, say_json
from service.cli.settings import loaded
from service.cli.stores import findings_of
from service.upkeep.preflight import Finding, Grade

_WORRYING = frozenset({Grade.AWAY, Grade.LOSES, Grade.UNFIT})


def run(options: argparse.Namespace) -> int:
    """Say whether all servers answer and can be trusted; 0 when they do."""
    setting = loaded(options)
    worries = worries_of(asyncio.run(findings_of(setting.config)))
    line = "; ".join(f"{each.server} {each.what}" for each in worries)
    if options.json:
        say_json({"ok": not worries, "worries": [str(each) for each in worries]})
    else:
        say(f"not ok: {line}" if worries else "ok: all servers answer and keep what they are given")
    return Exit.NEGATIVE if worries else Exit.DONE


def worries_of(findings: Sequence[Finding]) -> list[Finding]:
    """Pick what a worker cannot work with. It can do with one beanstalkd of several."""
    tubes = {each.server for each in findings if each.server.startswith("beanstalkd")}
    away = {each.server for each in findings if each.grade is Grade.AWAY}
    spared = away & tubes if tubes - away else set()
    return [each for each in findings if each.grade in _WORRYING and each.server not in spared]
