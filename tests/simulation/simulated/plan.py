"""What a seed stands for: a small world, and the faults that it has. Pure.

Each seed has a part of the faults only, each at a rate of its own: with all of them on at once,
some would hide the others (swarm testing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

PORTS = ("redis", "tubes", "putter", "mongodb")
AT_A_PORT = (
    "request delayed",
    "answer delayed",
    "request lost",
    "answer lost",
    "done twice",
    "killed before",
    "killed after",
    "paused",
)
AT_THE_COURIER = (
    "courier slow",
    "courier silent",
    "courier refuses a connection",
    "courier answers 500",
    "courier answers 429",
    "courier refuses credentials",
    "no credentials",
    "answer unreadable",
    "number not found",
    "module broken",
)
BY_ITSELF = (
    "worker killed",
    "worker stopped",
    "worker paused",
    "worker paused for long",
    "redis away",
    "redis forgets scripts",
    "beanstalkd away",
    "mongodb away",
    "list deleted",
    "number taken out by hand",
    "number pushed by hand",
    "number cancelled by hand",
    "redis clock steps back",
    "mongodb away for long",
    "redis full",
)
IN_A_WORKER = ("background task breaks",)
OUTAGES = ("courier away for long", "courier refuses for long", "courier asks for patience")
LENGTHS = {30.0: 90, 120.0: 80, 900.0: 20, 7_200.0: 4, 21_600.0: 1}
"""Seconds of an outage, and how frequent they are: hours are lived through in seconds."""

PROMOTED = "redis replica promoted"
"""In worlds that have it Redis has a replica, and confirms by it."""
LEAPS = "redis clock leaps"
BY_HAND = "number pushed by hand"
PLAIN, OFTEN = "N", 8
"""How ordinary numbers begin, and how many are asked for again and again."""

SLUGS = ("usps", "ups", "dhl", "gls")
RARE = {"killed before", "killed after", "paused"}
LONG = "mongodb away for long"
SEVERE = {"courier refuses credentials", "no credentials", LONG}
LONG_SECONDS = 100.0
"""So much longer things break in a world with such absences."""
KINDS = (
    *(f"{port}: {each}" for port in PORTS for each in AT_A_PORT),
    *AT_THE_COURIER,
    *BY_ITSELF,
    *IN_A_WORKER,
    PROMOTED,
    LEAPS,
)
ALWAYS = ("ALWAYS429", "ALWAYS403", "ALWAYS500", "ALWAYSODD", "ALWAYSMUM")
"""What the courier says to each is in simulated/courier.py."""

TOGETHER_SHARE = 0.4
"""Of the worlds, that have a courier which answers for several numbers in one call."""

LEFT_OUT = "answer leaves a number out"

REFUSED_DOCUMENT = "mongodb refuses a number's document"


@dataclass(frozen=True, slots=True)
class SlugPlan:
    """One courier: what it allows, and for how many numbers it answers in one call."""

    slug: str
    concurrent: int
    per_second: int
    max_waiting: int
    together: int = 1


@dataclass(frozen=True, slots=True)
class Outage:
    """A courier answers no request at all, from `begins` to `ends`."""

    kind: str
    slug: str
    begins: float
    ends: float


HOOKED_SHARE = 0.5
"""Of the worlds, that have services to which changes are delivered."""

DESTINATIONS = ("well", "slow", "failing", "hanging", "asking for a rest", "refusing", "gone")
"""How a destination is from `begins` to `ends`; then it is well, but for one that is gone."""

NO_CONNECTION = "destination refuses a connection"
AT_A_DESTINATION = (*(f"destination {each}" for each in DESTINATIONS[1:]), NO_CONNECTION)
REFUSING_SHARE = 0.3
"""Of the worlds, in which a connection to a destination may be refused."""


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """One service: what it allows and wants, and what its destination is like for a while.

    `picky`: some deliveries it never takes.
    """

    id: str
    name: str
    concurrent: int
    per_second: int
    attempts: int
    ordered: bool
    delivered_only: bool
    picky: bool
    is_like: str
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class Plan:
    """One world. Times in seconds; `rates` holds the chance of each fault that is on."""

    seed: int
    slugs: tuple[SlugPlan, ...]
    workers: int
    concurrency: int
    requests: int
    producing: float
    faulty: float
    call_timeout: float
    lease: float
    ttr: int
    attempts: int
    deaths: int
    poison: int
    shuffle: bool
    rates: Mapping[str, float]
    clock_ahead: float
    outage: Outage | None = None
    refused: str = ""
    """The number whose documents MongoDB refuses, also when all else is mended."""
    always: tuple[str, ...] = ()
    """Numbers that every courier is asked for, and that never succeed."""
    left_out: float = 0.0
    """How frequently an answer for several numbers leaves one of them out."""
    services: tuple[ServicePlan, ...] = ()

    @property
    def hopeless(self) -> tuple[str, ...]:
        """All for whom no end is waited for, where such are asked for."""
        return (*self.always, self.refused) if self.always else ()


def plan_for(seed: int) -> Plan:
    """Draw a world. The same seed, the same plan."""
    draw = Random(f"plan {seed}")
    timeout = draw.choice((2.0, 3.0, 5.0))
    producing = draw.choice((2.0, 10.0, 30.0))
    slugs = tuple(_slug(draw, number) for number in range(draw.randint(2, 4)))
    if Random(f"together {seed}").random() < TOGETHER_SHARE:
        slugs = (replace(slugs[0], together=3), *slugs[1:])
    plan = Plan(
        seed=seed,
        slugs=slugs,
        workers=draw.randint(2, 3),
        concurrency=draw.choice((1, 3, 6, 20)),
        requests=draw.randint(20, 60),
        producing=producing,
        faulty=producing + draw.choice((5.0, 20.0, 40.0)),
        call_timeout=timeout,
        lease=timeout * draw.choice((2.0, 3.0)),
        ttr=draw.choice((1, 3, 10, 60)),
        attempts=draw.randint(2, 6),
        deaths=draw.choice((2, 3, 10)),
        poison=draw.choice((0, 0, 1, 2)),
        shuffle=draw.random() < 0.7,
        rates=_rates(draw),
        clock_ahead=draw.uniform(-0.4, 0.4),
        outage=_outage(Random(f"outage {seed}"), slugs, producing),
        always=ALWAYS if seed % 4 == 0 else (),
        left_out=Random(f"left out {seed}").choice((0.0, 0.05, 0.3)),
        refused=f"{PLAIN}{seed % OFTEN:05}" if seed % 3 == 0 else "",
    )
    plan = replace(plan, faulty=plan.faulty + LONG_SECONDS) if LONG in plan.rates else plan
    refuses = Random(f"destinations {seed}")
    if refuses.random() < REFUSING_SHARE:
        plan = replace(plan, rates={**plan.rates, NO_CONNECTION: _rate(refuses)})
    return replace(plan, services=services_for(seed, plan.faulty))


def services_for(seed: int, faulty: float) -> tuple[ServicePlan, ...]:
    """Draw the services of a world, for whose sake the rest of it is no other one."""
    draw = Random(f"services {seed}")
    if draw.random() >= HOOKED_SHARE:
        return ()
    return tuple(_service(draw, number, faulty) for number in range(draw.randint(1, 4)))


def _service(draw: Random, number: int, faulty: float) -> ServicePlan:
    begins = draw.uniform(0.0, 0.5 * faulty)
    return ServicePlan(
        id=f"{number:016}",
        name=f"hook{number}",
        concurrent=draw.choice((1, 2, 20)),
        per_second=draw.choice((1, 3, 10)),
        attempts=draw.choice((2, 4, 10)),
        ordered=draw.random() < 0.3,
        delivered_only=draw.random() < 0.2,
        picky=draw.random() < 0.2,
        is_like=draw.choice(DESTINATIONS),
        begins=begins,
        ends=draw.uniform(begins, faulty),
    )


def _outage(draw: Random, slugs: tuple[SlugPlan, ...], producing: float) -> Outage | None:
    if draw.random() < 0.8:
        return None
    begins = draw.uniform(0.0, producing)
    lasts = draw.choices(list(LENGTHS), list(LENGTHS.values()))[0]
    return Outage(draw.choice(OUTAGES), draw.choice(slugs).slug, begins, begins + lasts)


def _slug(draw: Random, number: int) -> SlugPlan:
    return SlugPlan(
        slug=SLUGS[number],
        concurrent=draw.choice((1, 2, 3, 20)),
        per_second=draw.choice((2, 2, 3, 10)),
        max_waiting=draw.choice((1_000_000, 1_000_000, 1_000_000, 6)),
    )


def _rate(draw: Random) -> float:
    return float(10 ** draw.uniform(-2.3, -0.8))


def _rates(draw: Random) -> dict[str, float]:
    share = draw.choice((0.0, 0.15, 0.35, 0.6))
    rates = {}
    for kind in KINDS:
        chosen, size = draw.random() < share, _rate(draw)
        name = kind.partition(": ")[2]
        if not chosen:
            continue
        rates[kind] = size * (0.2 if name in RARE else 0.3 if kind in SEVERE else 1.0)
    if PROMOTED in rates:
        rates.pop(BY_HAND, None)  # who pushes does not wait for a replica
    return rates
