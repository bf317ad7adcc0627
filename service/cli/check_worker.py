"""`check --worker`: whether a worker of this machine lives, whatever its servers do."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt

from service.cli.exit_codes import Exit
from service.cli.output import moment, say, say_json
from service.cli.settings import installation
from service.supervisor.pulse import Pulse, pulses


def run(options: argparse.Namespace) -> int:
    """Ask the parents; 0 when one answers and a process of it beats."""
    started_with = installation(options)
    found = list(pulses(started_with))
    lives = any(each.beating for each in found)
    if options.json:
        say_json({"ok": lives, "workers": [dataclasses.asdict(each) for each in found]})
    else:
        line = "; ".join(map(_worded, found)) or f"no worker runs here with {started_with}"
        say(f"{'ok' if lives else 'not ok'}: {line}")
    return Exit.DONE if lives else Exit.NEGATIVE


def _worded(pulse: Pulse) -> str:
    if not pulse.version:
        return f"worker {pulse.pid} does not answer"
    since = moment(dt.datetime.fromtimestamp(pulse.since, dt.UTC))
    beating = f"{pulse.beating} of {pulse.processes} processes beat"
    return f"worker {pulse.pid} ({pulse.version}, since {since}): {beating}"
