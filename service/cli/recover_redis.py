"""`recover --redis`: put again what waited in a Redis that was emptied."""

from __future__ import annotations

import argparse
import sys

from service.cli.exit_codes import Exit, UsageError
from service.cli.progress_bar import Bar
from service.cli.recover import line_of, note
from service.cli.settings import loaded
from service.client.mirrored import Recovered, Recovery, Standing
from service.client.put import Bad


def run(options: argparse.Namespace) -> int:
    """Put what MongoDB has as open and Redis does not know; 1 where some could not be put."""
    if options.files:
        raise UsageError("--redis reads no FILE: leave one of both out")
    config = loaded(options).config
    put = bad = ended = 0
    with Recovery(config, dry_run=options.dry_run) as recovery, Bar(recovery.total) as bar:
        for each in recovery.run():
            match each:
                case Bad():
                    bad += 1
                    bar.count(sys.stderr, f"worker.py: {each}, and was left out\n")
                case Recovered(kept, place):
                    put += 1
                    bar.count(sys.stdout, line_of(kept, place, as_json=options.json) + "\n")
                case Standing.ENDED:
                    ended += 1
                    bar.count(sys.stdout, "")
                case Standing.WAITS:
                    bar.count(sys.stdout, "")
    total = recovery.total
    how = "would be" if options.dry_run else "were"
    note(f"{put} of {total} open requests {how} put, {ended} had ended")
    if not total and not config.redis.mirror:
        note("[redis] mirror is off: nothing is written down of what waits")
    return Exit.NEGATIVE if bad else Exit.DONE
