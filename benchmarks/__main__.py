"""Measure the worker on real servers, next to a bare HTTP loop.

Everything is started here, on two cores and on loopback, and gone at the end. `make bench` runs all
scenarios; what they say is kept as JSON, and `--write-docs` puts it into docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.pages import write_docs
from benchmarks.plan import Plan, Scenario
from benchmarks.report import LAST, PART, Report, blank
from benchmarks.scenarios import SCENARIOS
from benchmarks.screen import course, show
from devstack.errors import StackError

CORES = 2
"""Worker, servers, courier and measuring share them, on any machine: so results can be compared."""

HERE = Path(__file__).resolve().parents[1]

WIDTH = 120
"""Of what is not a terminal, like the log of a build."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; returns the exit code."""
    asked = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    if asked.write_docs:
        return _write_docs(asked.json or LAST, console)
    whole = not (asked.quick or asked.only or asked.seconds)
    asked.json = asked.json or (LAST if whole else PART)
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, cores)
    chosen = [each for each in SCENARIOS if each.name in asked.only or not asked.only]
    try:
        _run(asked, chosen, blank(_command(arguments), len(cores), whole=whole), console)
    except (StackError, OSError) as error:
        console.print(f"[bold red]{type(error).__name__}[/bold red]: {error}")
        return 1
    except KeyboardInterrupt:
        console.print("stopped; what was finished is kept")
        return 130
    return 0


def _run(
    asked: argparse.Namespace, chosen: Sequence[Scenario], report: Report, console: Console
) -> None:
    with course(chosen, console) as bar:
        plan = Plan(asked.quick, asked.seconds, bar.say)
        for scenario in chosen:
            bar.begin(scenario)
            tables = scenario.run(plan)
            report = report.having(tables)
            report.write(asked.json)
            bar.end()
            for table in tables:
                show(table, console)
    console.print(f"{report.machine}\nkept in {asked.json}", highlight=False)


def _write_docs(path: Path, console: Console) -> int:
    try:
        report = Report.read(path)
    except (OSError, msgspec.DecodeError) as error:
        console.print(f"no report at {path}: {error}. Measure first: make bench")
        return 1
    for written in write_docs(report):
        console.print(f"wrote {written}", highlight=False)
    return 0


def _command(arguments: Sequence[str] | None) -> str:
    return shlex.join(
        ["python", "-m", "benchmarks", *(sys.argv[1:] if arguments is None else arguments)]
    )


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {each.name:<10} {each.what}" for each in SCENARIOS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=f"scenarios:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [each.name for each in SCENARIOS]
    parser.add_argument("--quick", action="store_true", help="small sizes, in a few minutes")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=names,
        metavar="NAME",
        help="this one; may be repeated",
    )
    parser.add_argument("--seconds", type=float, help="how long each run measures")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help=f"where to keep it; {LAST.relative_to(HERE)} for a whole run, else {PART.name}",
    )
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help="put the tables of the report at --json into docs/performance.md; those of a run that "
        "was not whole replace the tables of the same titles",
    )
    return parser


if __name__ == "__main__":
    # Like Ctrl-C, so that what was started ends too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
