"""`make simulate SEED=1 SEEDS=500`: exit code 1 when a promise was broken in any world."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from simulated.batch import LINES_SHOWN, Batch, Outcome, replay, run

ENOUGH_SEEDS = 300
"""From so many seeds on, every kind of fault and of repair must have come."""

HASH_SEED = "PYTHONHASHSEED"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    fresh = int(time.time())
    parser.add_argument("--seed", type=int, default=fresh, help="the first seed (others each time)")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--trace", action="store_true", help="print what is kept of each trace")
    wanted = parser.parse_args(arguments)
    if os.environ.get(HASH_SEED) != "0":
        # The order of a set of texts must be the same in every run of a seed.
        os.environ[HASH_SEED] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulated", *sys.argv[1:]])  # noqa: S606
    console = Console(stderr=True, highlight=False)
    seeds = range(wanted.seed, wanted.seed + wanted.seeds)
    digests: dict[int, str] = {}
    with Progress(
        TextColumn("worlds"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[broken]}"),
        console=console,
        disable=not console.is_terminal or wanted.json,
        transient=True,
    ) as progress:
        bar = progress.add_task("", total=wanted.seeds, broken="")

        def heard(outcome: Outcome) -> None:
            digests[outcome.seed] = outcome.digest
            progress.advance(bar)
            if outcome.breaches:
                progress.update(bar, broken=f"broken: {outcome.seed}")
                explain(outcome, console)
            elif wanted.trace:
                console.print(*outcome.lines, sep="\n", markup=False, soft_wrap=True)

        batch = run(seeds, heard)
    missing = batch.never if wanted.seeds >= ENOUGH_SEEDS else []
    if wanted.json:
        print(json.dumps(_told(batch, digests, missing)))  # noqa: T201 - it is asked for
    else:
        _summary(batch, missing, wanted.seed)
    return 1 if batch.failed or missing else 0


def explain(outcome: Outcome, console: Console) -> None:
    lines = [
        *outcome.lines[-LINES_SHOWN:],
        "",
        *(f"seed {outcome.seed}: {breach}" for breach in outcome.breaches),
        f"again: {replay(outcome.seed)}",
        "",
    ]
    console.print(*lines, sep="\n", markup=False, soft_wrap=True)


def _told(batch: Batch, digests: dict[int, str], missing: list[str]) -> dict[str, object]:
    return {
        "seeds": batch.seeds,
        "requests": batch.requests,
        "calls": batch.calls,
        "attempts": batch.attempts,
        "scripts": batch.scripts,
        "virtual_seconds": round(batch.virtual_seconds),
        "quiet_after": round(batch.quiet_after),
        "real_seconds": round(batch.real_seconds, 2),
        "faults": dict(sorted(batch.faults.items())),
        "repairs": dict(sorted(batch.repairs.items())),
        "failed": {str(each.seed): list(each.breaches) for each in batch.failed},
        "never": missing,
        "digests": {str(seed): digest for seed, digest in digests.items()},
    }


def _summary(batch: Batch, missing: list[str], seed: int) -> None:
    hours, seconds = batch.virtual_seconds / 3600, batch.real_seconds
    pace = f"{seconds:.1f} s ({batch.seeds / seconds:.1f} a second)"
    did = f"{batch.calls} calls, {batch.attempts} attempts to deliver, {batch.scripts} scripts"
    lines = [
        f"{batch.seeds} worlds from seed {seed} on in {pace}, {hours:.1f} hours of theirs",
        f"{batch.requests} requests, {did}",
        _listed(f"{batch.faults.total()} faults", batch.faults),
        _listed("repairs", batch.repairs),
        f"all quiet {batch.quiet_after:.0f} s after the last fault, at most",
        *(f"never came: {each}" for each in missing),
        f"broken worlds: {len(batch.failed)}",
    ]
    print(*lines, sep="\n")  # noqa: T201 - what it was run for


def _listed(title: str, counts: dict[str, int]) -> str:
    return f"{title}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    gc.disable()  # what ends, ends between two worlds
    sys.exit(main())
