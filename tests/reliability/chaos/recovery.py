"""How soon everything went on after a crash or a server's return. Pure.

Faults overlap: a drain that nobody takes on while Redis is frozen is no broken promise. So each
recovery has two durations: `took`, by the clock, and `clear`, without the spells in which something
else was broken that it needs: a server, or some link or process of every worker. `clear` is judged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.evidence import Evidence
from chaos.intervals import Spell, common, covered, merged
from chaos.nemesis import Done
from chaos.sampler import PERIOD
from chaos.scale import CALL_TIMEOUT, LEASE

SECOND_NS = 1_000_000_000
SERVERS = ("beanstalkd", "redis", "mongodb")
TUBES = frozenset({"beanstalkd", "beanstalkd-2"})
CALLS = frozenset({"redis", "mongodb"})
"""What a call needs: no permit is asked for while no answer could be stored."""
FROZEN = "process frozen until it is killed"
HARMLESS = ("by hand", "wrong eviction policy", "process killed")
"""Ends of kinds that leave the servers working, or are what a recovery is from."""

JOBS_WITHIN = 1.0
DRAINS_WITHIN = 10.0
TRAFFIC_WITHIN = 5.0
SLOTS_WITHIN = LEASE + 1.0
"""Seconds: what is promised; jobs "at once", slots with their lease (and the looks' spacing)."""

QUIET = {"redis": CALL_TIMEOUT}
"""Seconds more, where another server may have taken over: nobody calls for one call time-out."""

SETTLES = 1.0
"""Seconds after another fault that still count as its own."""

MOMENT = 0.05
AT_ONCE = 0.3
"""Seconds within which the kernel ends a dead process' connections."""

STALE = 3 * PERIOD
FRESH = 4.0
"""Seconds: a process that was not seen for so long before a crash did not die in it."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """One thing that went on again. Seconds; `took` is infinite for what never did."""

    what: str
    took: float
    clear: float

    @property
    def is_alone(self) -> bool:
        """Whether nothing else was broken meanwhile."""
        return self.clear == self.took


def jobs(found: Evidence) -> list[Recovery]:
    """After `kill -9`: until beanstalkd let go of each connection, and so put its jobs back."""
    recovered = []
    for crash in _kills(found):
        for name in crash.needs:
            for release in found.meanwhile.releases.get(name, ()):
                if crash.began <= release.left <= crash.began + AT_ONCE:
                    span = (crash.began, release.ended)
                    broken = _broken(found, crash, TUBES, (name,))
                    recovered.append(_recovery(found, f"jobs of {name}", crash, span, broken))
    return recovered


def slots(found: Evidence) -> list[Recovery]:
    """After a crash: until each place of the dead process was free."""
    newest = _last_seen(found)
    recovered = []
    for crash in [*_kills(found), *(each for each in found.meanwhile.done if each.kind == FROZEN)]:
        dead = _dead(newest, crash)
        for (slug, call), lease in found.meanwhile.leases.items():
            if process_of(call) in dead and lease.last > crash.began:
                span = (crash.began, lease.last)
                recovered.append(_recovery(found, f"slot {call} of {slug}", crash, span, ()))
    return recovered


def drains(found: Evidence) -> list[Recovery]:
    """After `kill -9`: until each courier that the dead process drained was called, or drained."""
    newest = _last_seen(found)
    looks, starts = found.meanwhile.looks, _starts(found)
    recovered = []
    for crash in _kills(found):
        index = bisect_right(looks, crash.began, key=lambda look: look.at) - 1
        if index < 0 or crash.began - looks[index].at > STALE:
            continue
        dead, broken = _dead(newest, crash), _broken(found, crash, CALLS | TUBES)
        for slug, told in looks[index].drainers.items():
            if _drainer(told) in dead and looks[index].waiting[slug]:
                later = bisect_left(starts.get(slug, []), crash.began + MOMENT)
                called = starts.get(slug, [])[later : later + 1]
                back = min([*called, *_taken_on(found, slug, index)], default=float("inf"))
                spells = merged([*broken, *_broken(found, crash, frozenset({slug}), ())])
                span = (crash.began, back)
                recovered.append(_recovery(found, f"drain of {slug}", crash, span, spells))
    return recovered


def traffic(found: Evidence, server: str) -> list[Recovery]:
    """After a server's return: until a courier is called although some wait.

    beanstalkd's second server goes on meanwhile, so what counts there is the first answer of the
    returned one to any worker.
    """
    looks = found.meanwhile.looks
    every = sorted(at for starts in _starts(found).values() for at in starts)
    signs = found.meanwhile.heard.get(server, ()) if server == SERVERS[0] else every
    recovered = []
    for outage in found.meanwhile.done:
        if outage.kind.partition(" ")[0] != server or not _breaks(outage):
            continue
        index = bisect_left(looks, outage.ended, key=lambda look: look.at)
        if index == len(looks) or not any(looks[index].waiting.values()):
            continue
        later = bisect_left(signs, outage.ended)
        back = signs[later] if later < len(signs) else float("inf")
        broken = _broken(found, outage, TUBES if server in TUBES else CALLS)
        recovered.append(_recovery(found, "traffic", outage, (outage.ended, back), broken))
    return recovered


def promised(found: Evidence) -> list[tuple[str, str, Sequence[Recovery], float]]:
    """Every promise: what it says, its invariant, what happened, and within which clear time."""
    return [
        ("jobs of a killed process are back after", "I7", jobs(found), JOBS_WITHIN),
        ("drains of a killed process go on after", "I7", drains(found), DRAINS_WITHIN),
        ("slots of dead processes are free after", "I4", slots(found), SLOTS_WITHIN),
        *(
            (
                f"traffic after a return of {name}",
                "I7",
                traffic(found, name),
                TRAFFIC_WITHIN + QUIET.get(name, 0.0),
            )
            for name in SERVERS
        ),
    ]


def process_of(call: str) -> str:
    """The process that made a call's id, by the name which begins it."""
    return call.partition(":")[0].rpartition("-")[0]


def _kills(found: Evidence) -> list[Done]:
    return [
        Done("kill -9", at, at, frozenset({name}))
        for name, times in found.meanwhile.kills.items()
        for at in times
    ]


def _recovery(
    found: Evidence, what: str, cause: Done, span: Spell, broken: Sequence[Spell]
) -> Recovery:
    began, back = span
    # What never went on is judged by the time there was for it.
    ended = back if back < float("inf") else max(began, _end(found))
    clear = ended - began - covered(broken, (began, ended))
    return Recovery(f"{what} after {cause.kind} at {cause.began:.3f}", back - began, clear)


def _broken(
    found: Evidence, cause: Done, servers: frozenset[str], workers: Sequence[str] | None = None
) -> list[Spell]:
    """When one of these servers, or something of each of these workers (None: all), was broken."""
    others = [each for each in found.meanwhile.done if each is not cause and _breaks(each)]
    spells = [_spell(each) for each in others if each.needs & servers]
    names = found.scale.names if workers is None else workers
    each_ones = [
        merged(_spell(each) for each in others if each.needs & _links(name, servers))
        for name in names
    ]
    return merged([*spells, *common(each_ones)])


def _links(worker: str, servers: frozenset[str]) -> frozenset[str]:
    return frozenset({worker, *(f"{worker} to {server}" for server in servers)})


def _spell(fault: Done) -> Spell:
    quiet = max((QUIET.get(name, 0.0) for name in fault.needs), default=0.0)
    return fault.began, fault.ended + SETTLES + quiet


def _breaks(fault: Done) -> bool:
    return not fault.kind.endswith(HARMLESS) and fault.ended - fault.began >= MOMENT


def _last_seen(found: Evidence) -> dict[str, float]:
    """By process, when it was last granted a call or named as the one who drains."""
    newest: dict[str, float] = {}
    for (_, call), lease in found.meanwhile.leases.items():
        newest[process_of(call)] = max(lease.first, newest.get(process_of(call), 0.0))
    before: dict[str, str] = {}
    for look in found.meanwhile.looks:
        for slug, told in look.drainers.items():
            if before.get(slug) != told:
                before[slug] = told
                newest[_drainer(told)] = max(look.at, newest.get(_drainer(told), 0.0))
    return newest


def _dead(newest: dict[str, float], crash: Done) -> set[str]:
    """Who was seen right before a crash and never again."""
    return {
        process
        for process, seen in newest.items()
        if crash.began - FRESH <= seen <= crash.began + 2 * PERIOD
    }


def _taken_on(found: Evidence, slug: str, index: int) -> Iterator[float]:
    """When another process drained the courier after this look, or nobody waited any more."""
    looks = found.meanwhile.looks
    dead = _drainer(looks[index].drainers[slug])
    for look in looks[index + 1 :]:
        drainer = _drainer(look.drainers.get(slug, ""))
        if not look.waiting[slug] or (drainer and drainer != dead):
            yield look.at
            return


def _drainer(told: str) -> str:
    """The process that `wait_drainer:<slug>` names; empty while the job is on its way."""
    name = told.partition(" ")[0]
    return "" if name.startswith("tube:") else name


def _starts(found: Evidence) -> dict[str, list[float]]:
    starts: dict[str, list[float]] = {}
    for each in found.calls:
        starts.setdefault(each.call.slug, []).append(each.call.arrived_ns / SECOND_NS)
    return {slug: sorted(times) for slug, times in starts.items()}


def _end(found: Evidence) -> float:
    looks = found.meanwhile.looks
    return looks[-1].at if looks else 0.0
