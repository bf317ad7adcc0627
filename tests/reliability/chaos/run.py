"""One run from beginning to end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from chaos import hooks
from chaos.arena import Arena, arena
from chaos.evidence import (
    Evidence,
    Meanwhile,
    deaths_of,
    defects_of,
    events_of,
    gather,
    heard_of,
    logged_of,
    releases_of,
)
from chaos.faults import couriers, deck, marked
from chaos.faults.disk import DISK_FULL
from chaos.nemesis import Nemesis
from chaos.plan import kinds, plan, with_early, with_last, with_marked
from chaos.quiet import until_archived, until_quiet
from chaos.sampler import Sampler
from chaos.scale import Scale
from chaos.verdict import Breach, breaches, missed
from chaos.workers import REPOSITORY, wait_until
from devstack.command import run_to_end

BOOT_SECONDS = 40.0
END_SECONDS = 10.0
RECOVER_SECONDS = 120.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is over: what it left behind, and every promise that was broken."""

    evidence: Evidence
    breaches: Sequence[Breach]


def run(scale: Scale, wanted: frozenset[str], say: Say) -> Finished:
    """Run once. `wanted` names repairs and events that must have come; `say` takes progress."""
    with arena(scale) as world:
        if not world.scale.disk_fills:
            say("skipped: disk full, as only root may mount a small disk")
        planned = plan(world.scale, partial(deck, world.scale))
        planned = with_marked(planned, marked.cards(scale), scale)
        planned = with_last(planned, couriers.outages(scale), scale)
        planned = with_early(planned, couriers.downs(scale), scale)
        say(f"{len(planned)} faults of {len(kinds(planned))} kinds in {scale.seconds:g} s")
        nemesis = Nemesis(world, planned)
        found = _broken_and_mended(world, nemesis, say)
        stopped = list(_stop(world, nemesis))
    came = frozenset(kinds(planned))
    # A disk that was to be full must have been.
    judged = [*breaches(found), *missed(found, came, wanted | (came & {DISK_FULL})), *stopped]
    return Finished(found, judged)


def _broken_and_mended(world: Arena, nemesis: Nemesis, say: Say) -> Evidence:
    workers = world.workers.values()
    if not wait_until(lambda: all(each.serves for each in workers), BOOT_SECONDS):
        raise RuntimeError(f"the workers do not start: {defects_of(world)}")
    sampler = Sampler(world)
    sampler.start()
    world.producer.start()
    nemesis.run()
    if world.watched:
        world.watched.promote_no_more()
        world.watched.mend()
    world.producer.stop()
    say(f"everything is mended; {len(world.producer.log)} requests were put")
    if world.scale.forget_redis:
        say(recovered(world))
    left = hooks.until_over(world, say)
    quiet = until_quiet(world, say)
    quiet = replace(quiet, left=[*left, *quiet.left, *until_archived(world)])
    sampler.stop()
    say(f"{'not ' if quiet.left else ''}quiet after {quiet.seconds:.1f} s")
    meanwhile = Meanwhile(
        done=nemesis.done,
        looks=sampler.looks,
        leases=sampler.leases,
        breaches=sampler.faults,
        marks=dict(world.marks),
        events=events_of(world),
        defects=defects_of(world),
        heard=heard_of(world),
        releases=releases_of(world),
        deaths=deaths_of(world),
        logged=logged_of(world),
        kills={name: tuple(worker.kills) for name, worker in world.workers.items()},
    )
    return gather(world, meanwhile, quiet)


def recovered(world: Arena) -> str:
    """Put again what Redis was emptied of, as an operator does; tells what was said of it."""
    command = [sys.executable, str(REPOSITORY / "worker.py"), "recover", "--redis"]
    done = run_to_end(command, {**os.environ, **world.environment}, seconds=RECOVER_SECONDS)
    if done.returncode:
        raise RuntimeError(f"recover --redis ended with {done.returncode}: {done.stderr}")
    return done.stderr.strip()


def _stop(world: Arena, nemesis: Nemesis) -> Iterator[Breach]:
    """Stop all workers in order: each ends with 0, and leaves no process behind."""
    nemesis.watch_no_more()
    for worker in world.workers.values():
        try:
            code = worker.stop()
        except subprocess.TimeoutExpired:
            yield Breach("stop", f"{worker.name} does not stop")
            continue
        if code:
            yield Breach("stop", f"{worker.name} ended with {code}")
        pids = worker.all_pids
        deadline = time.monotonic() + END_SECONDS
        while left := worker.living(pids):
            if time.monotonic() > deadline:
                yield Breach("stop", f"{worker.name} left {len(left)} processes behind")
                break
            time.sleep(0.1)
