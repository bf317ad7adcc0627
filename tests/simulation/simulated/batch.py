"""Many seeds, one after the other, and what they came to together."""

from __future__ import annotations

import gc
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from simulated.plan import (
    AT_A_DESTINATION,
    KINDS,
    LEFT_OUT,
    OUTAGES,
    REFUSED_DOCUMENT,
    Plan,
    plan_for,
)
from simulated.scripting import Scripting
from simulated.world import UNBROKEN, Breakage, World

LINES_SHOWN = 60

REPAIRS = (
    "answered by a fresh result",
    "cancelled by hand",
    "courier paused",
    "drain job put again",
    "finish repeated, and ignored",
    "handed back",
    "handed back at a stop",
    "id of another parcel refused",
    "kept waiting by a full redis",
    "lease expired",
    "lost",
    "recorded as dead",
    "repeated",
    "script sent again",
    "second request of a call",
    "server is back",
)
"""Every kind of repair that some seed of a batch must need: else the batch proves little."""

OTHERS = (REFUSED_DOCUMENT, LEFT_OUT, "poison", "time to run is over")
FAULTS = (*KINDS, *AT_A_DESTINATION, *OUTAGES, *OTHERS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One seed. `lines` are the last of its trace; `quiet_after` the last fault, in seconds."""

    seed: int
    digest: str
    breaches: tuple[str, ...]
    lines: tuple[str, ...]
    faults: Counter[str]
    repairs: Counter[str]
    requests: int
    calls: int
    scripts: int
    virtual_seconds: float
    quiet_after: float
    attempts: int = 0


@dataclass(slots=True)
class Batch:
    """What many seeds came to. `quiet_after` is the longest of all."""

    seeds: int = 0
    requests: int = 0
    calls: int = 0
    attempts: int = 0
    scripts: int = 0
    virtual_seconds: float = 0.0
    quiet_after: float = 0.0
    real_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.requests += outcome.requests
        self.calls += outcome.calls
        self.attempts += outcome.attempts
        self.scripts += outcome.scripts
        self.virtual_seconds += outcome.virtual_seconds
        self.quiet_after = max(self.quiet_after, outcome.quiet_after)
        self.faults.update(outcome.faults)
        self.repairs.update(outcome.repairs)
        if outcome.breaches:
            self.failed.append(outcome)

    @property
    def never(self) -> list[str]:
        """Faults and repairs that no seed came to."""
        return [
            *(kind for kind in FAULTS if not self.faults[kind]),
            *(kind for kind in REPAIRS if not self.repairs[kind]),
        ]


def live(seed: int, scripting: Scripting, breakage: Breakage = UNBROKEN) -> Outcome:
    """Live one world through, and leave nothing of it."""
    return live_through(plan_for(seed), scripting, breakage)


def live_through(plan: Plan, scripting: Scripting, breakage: Breakage = UNBROKEN) -> Outcome:
    """The same for a plan that no seed stands for."""
    return live_in(lambda: World(plan, scripting, breakage))


def live_in(make: Callable[[], World]) -> Outcome:
    """The same for a world that is made so."""
    with warnings.catch_warnings():
        # Connections of killed processes were never closed: that is what killing means.
        warnings.simplefilter("ignore", ResourceWarning)
        outcome = _lived(make())
        # A world is full of circles, and nothing of it may end in the midst of the next one.
        gc.collect()
    return outcome


def _lived(world: World) -> Outcome:
    trace = world.run()
    return Outcome(
        seed=world.plan.seed,
        digest=trace.digest,
        breaches=tuple(trace.breaches),
        lines=tuple(trace.last),
        faults=trace.faults,
        repairs=trace.repairs,
        requests=len(world.producer.asked) + len(world.producer.unacknowledged),
        calls=world.couriers.calls,
        scripts=world.redis.scripts_done,
        virtual_seconds=world.loop.now,
        quiet_after=world.loop.now - world.mended_at,
        attempts=world.destinations.sent,
    )


def run(
    seeds: Iterable[int],
    heard: Callable[[Outcome], None] = lambda _: None,
    breakage: Breakage = UNBROKEN,
) -> Batch:
    """Run seeds in order; `heard` is told of each. Stops at none."""
    scripting, batch, began = Scripting(), Batch(), time.perf_counter()
    gc.collect()
    gc.freeze()
    for seed in seeds:
        outcome = live(seed, scripting, breakage)
        batch.add(outcome)
        heard(outcome)
    gc.unfreeze()
    batch.real_seconds = time.perf_counter() - began
    return batch


def replay(seed: int) -> str:
    """The command that repeats a seed."""
    return f"make simulate SEED={seed} SEEDS=1"
