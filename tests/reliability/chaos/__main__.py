"""`make chaos`: one fault run; exit code 1 when a promise was broken."""

from __future__ import annotations

import argparse
import datetime as dt
import signal
import sys
import time
from pathlib import Path

from chaos import report, timeline
from chaos.run import run
from chaos.scale import (
    COURIERS,
    HOOKS_GAP,
    HOOKS_SECONDS,
    LONG_SECONDS,
    SHORT_SECONDS,
    Scale,
    couriers,
    followed,
)

DOCS = Path(__file__).resolve().parents[3] / "docs"
WANTED = frozenset(
    {
        *("lost", "repeated"),
        *("server is away", "server is back", "jobs are lost", "sweeper repaired"),
        *("request will be tried again", "courier is paused", "job is malformed"),
        *("process died", "process was silent and is killed", "worker refuses to start"),
        *("answer lost", "cancelled by hand", "wait list is full"),
        *("answer cannot be stored", "document is refused"),
        *("redis key is broken", "record cut off"),
    }
)
"""What every long run must have seen at least once."""

KILLED = frozenset({"process died", "server is away", "server is back", "lost"})
"""What of it is seen where only workers are killed and servers are restarted."""

ENOUGH_SECONDS = 150.0
"""A run that calls couriers for a shorter time may miss something by chance."""


def main() -> int:
    """Run, print the table, write what was asked for."""
    asked = _arguments().parse_args()
    # So that everything that was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    scale = _scale(asked)
    began = time.monotonic()

    def say(what: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {what}\n")
        sys.stdout.flush()

    say(scale.command)
    calling = scale.seconds - scale.away_seconds
    wanted = WANTED if calling >= ENOUGH_SECONDS else frozenset[str]()
    if scale.hooks:
        wanted &= KILLED
    finished = run(scale, wanted, say)
    sys.stdout.write("\n" + report.text(finished.evidence, finished.breaches))
    if asked.timeline:
        asked.timeline.write_text(timeline.draw(finished.evidence))
    if asked.write_docs:
        day = dt.datetime.now(dt.UTC).date().isoformat()
        page = report.page(finished.evidence, finished.breaches, day)
        report.write(DOCS / "reliability.md", page, "hooks" if scale.hooks else "chaos")
        if not scale.hooks:
            (DOCS / "reliability.svg").write_text(timeline.draw(finished.evidence))
    return 1 if finished.breaches else 0


def _scale(asked: argparse.Namespace) -> Scale:
    seconds = asked.minutes and asked.minutes * 60
    if asked.hooks:
        return Scale(
            seed=asked.seed,
            workers=asked.workers,
            seconds=seconds or HOOKS_SECONDS,
            gap=HOOKS_GAP,
            couriers=(*couriers(asked.couriers), *followed(asked.hooks, seconds or HOOKS_SECONDS)),
            fail_points=4,
            disk_fills=False,
            hooks=asked.hooks,
        )
    if asked.short:
        return Scale.short(asked.seed, seconds or SHORT_SECONDS, poison=asked.poison)
    return Scale(
        seed=asked.seed,
        workers=asked.workers,
        seconds=seconds or LONG_SECONDS,
        couriers=couriers(asked.couriers, asked.rate, asked.outage),
        rate=asked.rate,
        forget_redis=asked.forget_redis,
        step_clock=asked.step_clock,
        sentinels=asked.sentinels,
        members=asked.members,
        poison=asked.poison,
        away_seconds=asked.away,
    )


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    fresh = int(time.time())
    parser.add_argument("--seed", type=int, default=fresh, help="what is drawn (another each time)")
    parser.add_argument("--minutes", type=float, help="length of the faults (3; 0.75 with --short)")
    parser.add_argument("--workers", type=int, default=3, help="worker.py run, this often (3)")
    parser.add_argument("--couriers", type=int, default=len(COURIERS), help="how many (7)")
    parser.add_argument("--rate", type=float, help="requests put per second (29 for 7 couriers)")
    parser.add_argument("--away", type=float, default=0.0, help="seconds without MongoDB, at once")
    parser.add_argument("--outage", type=float, default=0.0, help="seconds without one courier")
    parser.add_argument(
        "--hooks",
        type=int,
        default=0,
        help="deliver so many webhooks to 50 destinations, while workers are killed and servers "
        "restarted; nothing else is broken (for 5 minutes, and as many more until all is over)",
    )
    parser.add_argument("--short", action="store_true", help="the size of the one in `make prove`")
    parser.add_argument("--timeline", type=Path, help="write a picture of the run (SVG)")
    parser.add_argument(
        "--write-docs", action="store_true", help="write the table and picture into docs/"
    )
    parser.add_argument(
        "--forget-redis",
        action="store_true",
        help="empty Redis in mid-run, and put again what waited; judged by I1 only",
    )
    parser.add_argument(
        "--step-clock", action="store_true", help="step Redis' clock; nothing is lost, limits hold"
    )
    parser.add_argument(
        "--sentinels", action="store_true", help="two Redis servers under three Sentinels"
    )
    parser.add_argument("--members", action="store_true", help="a MongoDB of three members")
    parser.add_argument("--poison", action="store_true", help="numbers that never succeed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
