"""How large a run is: couriers with their limits, workers, times.

Times are a tenth of production's, so that leases end and retries come within a run of minutes;
the rates of the couriers `contract-*` are production's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from devstack.site.shapes.failures import SILENT, Failure
from service.worker.deliveries.secret_box import new_key

CALL_TIMEOUT = 2.0
LEASE = 5.0
GRACE = 3.0
GUARD_MS = 50
HOOKS_GUARD_MS = 20
"""Production's own: of a rate of 0.98 that it leaves, 0.95 are judged."""

MAX_AGE = 30.0
ATTEMPTS = 8
FIRST_RETRY, RETRY_CAP = 0.5, 3.0
LONGEST_PROBE = 300.0
"""Between two calls of a courier that has failed for long: production's own."""

CONCURRENCY = 60
"""Jobs and calls per process: small, so that processes are full now and then."""

STEP_SECONDS = 120.0
"""How far Redis' clock is stepped in runs that ask for it."""

POISONS = {
    "always 429": Failure.LIMITED.value,
    "always 403": Failure.AUTH.value,
    "always 500": Failure.DOWN.value,
    "never readable": Failure.CHANGED.value,
    "never answered": SILENT,
    "never stored": "PARCEL",
}
"""How numbers begin that never succeed, in runs that ask for them; the last kind ends in 77."""

REFUSED_ANSWERS, REFUSED_ENDS, REFUSED_RECORDS = "77$", "88$", "[05]77$"
"""Which numbers MongoDB refuses: a document of `tracking`, of `operations`, of `dead`."""

LATENCY, JITTER = 0.02, 0.5
"""Seconds a courier takes for an answer when it behaves."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A receiver of webhooks: its service's name, how it behaves, and how often it is tried."""

    name: str
    behaviour: Mapping[str, object] = field(default_factory=dict)
    attempts: int = 10

    @property
    def is_healthy(self) -> bool:
        """Whether it takes all that comes, sooner or later in its two seconds."""
        return self.name.startswith(("well", "slow"))


def _several(kind: str, count: int, attempts: int, **behaviour: object) -> list[Destination]:
    return [Destination(f"{kind}{number}", behaviour, attempts) for number in range(count)]


DOWN = "down"
"""How the names of those begin that are away for a minute."""

CATCHES_UP = 5
"""Times the rate of the others these have: they rest for five minutes."""

DESTINATIONS = (
    *_several("well", 32, 10),
    *_several("slow", 6, 10, latency=0.6, jitter=0.8),
    *_several("fails", 4, 2, fault="status", status=500, share=0.3),
    *_several("refuses", 4, 2, fault="status", status=404, share=0.3),
    *_several(DOWN, 2, 10),
    Destination("hangs", {"fault": "hang"}),
    Destination("gone", {"fault": "status", "status": 410}),
)
HEARD = "heard-of"
"""The courier of whose parcels all of these hear."""

FILLED = 0.1
"""In this part of a run its parcels change."""

DRAINED = 0.75
"""By this part of a run all is delivered, where nothing is in the way."""


SHORT_SECONDS, LONG_SECONDS, HOOKS_SECONDS = 45.0, 180.0, 300.0
"""Of faults, where nobody says how many minutes."""

HOOKS_GAP = (18.0, 28.0)
"""Seconds between two faults of a run that delivers: in between all goes at its rate again."""


@dataclass(frozen=True, slots=True)
class Courier:
    """A made-up courier and its limits; `pace` is how many requests per second are put for it.

    `ids_only`: every request carries an id, so operations can be counted exactly. `by_hand`:
    numbers are pushed onto its list by hand; else its list may be deleted by hand. `away_seconds`:
    it answers 503 for the last so many seconds of the faults, and nothing else is done to it.
    `together`: how many numbers it answers for in one call. `parcels`: if set, it is asked for so
    many, each once, and for nothing else.
    """

    slug: str
    concurrent: int
    per_second: int
    pace: float
    most_waiting: int = 1_000_000
    ids_only: bool = False
    by_hand: bool = False
    away_seconds: float = 0.0
    together: int = 1
    parcels: int = 0


COURIERS = (
    Courier("contract-one", concurrent=20, per_second=2, pace=1.4, ids_only=True),
    Courier("contract-two", concurrent=20, per_second=2, pace=1.4, most_waiting=12),
    Courier("five-at-once", concurrent=5, per_second=20, pace=8.0, by_hand=True),
    Courier("three-at-once", concurrent=3, per_second=10, pace=5.0, ids_only=True),
    Courier("ten-a-second", concurrent=20, per_second=10, pace=5.0),
    Courier("thirty-a-call", concurrent=20, per_second=2, pace=4.0, together=30),
    Courier("five-a-call", concurrent=3, per_second=5, pace=4.0, ids_only=True, together=5),
)


ABSENT = Courier("away-for-long", concurrent=20, per_second=2, pace=0.7, ids_only=True)


def couriers(
    count: int = len(COURIERS), rate: float | None = None, outage: float = 0.0
) -> tuple[Courier, ...]:
    """Make up `count` couriers: those above, then more with production's limits.

    `rate` is how many requests per second are put for all of them together; None: as each one
    would have it by itself. With an `outage` there is one more, which is away for so many seconds.
    """
    more = (
        replace(COURIERS[number % 2], slug=f"contract-{number}", most_waiting=1_000_000)
        for number in range(len(COURIERS), count)
    )
    every = (*COURIERS[:count], *more)
    share = 1.0 if rate is None else rate / sum(each.pace for each in every)
    absent = (replace(ABSENT, away_seconds=outage),) if outage else ()
    return (*(replace(each, pace=each.pace * share) for each in every), *absent)


def followed(deliveries: int, seconds: float) -> tuple[Courier, ...]:
    """Make up the courier of which every destination hears; none where nothing is delivered.

    Its parcels change in the first part of the run: from then on deliveries wait.
    """
    parcels = math.ceil(deliveries / len(DESTINATIONS))
    pace = max(1.0, parcels / (FILLED * seconds))
    rate = max(20, math.ceil(pace))
    heard = Courier(HEARD, rate, rate, pace, ids_only=True, parcels=parcels)
    return (heard,) if deliveries else ()


@dataclass(frozen=True, slots=True)
class Scale:
    """One run. `seconds` is the length of the faults.

    `gap` seconds lie between the beginnings of two faults, drawn between its two bounds. `rate` is
    what the `couriers` were made up with. `fail_points` are among the cards of each deal.
    `disk_fills` only where a small disk can be mounted. `forget_redis` and `step_clock` are judged
    as docs/reliability.md says: less is promised. MongoDB is away for `away_seconds`, once. With
    `sentinels` Redis is a pair of servers that three Sentinels watch, with `members` MongoDB is
    one of three, whose majority goes and comes. With `poison` each courier is asked for one number
    of each of the POISONS, to the end of the run. With `hooks` so many webhooks are delivered, and
    only workers are killed and servers restarted.
    """

    seed: int = 1
    workers: int = 3
    seconds: float = 180.0
    gap: tuple[float, float] = (0.4, 1.6)
    couriers: tuple[Courier, ...] = field(default=COURIERS)
    rate: float | None = None
    fail_points: int = 10
    disk_fills: bool = True
    forget_redis: bool = False
    step_clock: bool = False
    is_short: bool = False
    away_seconds: float = 0.0
    sentinels: bool = False
    members: bool = False
    poison: bool = False
    hooks: int = 0

    @classmethod
    def short(cls, seed: int, seconds: float = SHORT_SECONDS, *, poison: bool = False) -> Scale:
        """A run of about a minute, for `make prove`: most kinds of faults, close together."""
        gap = (0.4, 1.0)
        return cls(seed=seed, seconds=seconds, gap=gap, fail_points=3, is_short=True, poison=poison)

    @property
    def names(self) -> tuple[str, ...]:
        """The workers' names."""
        return tuple(f"worker-{number}" for number in range(1, self.workers + 1))

    @property
    def present(self) -> tuple[Courier, ...]:
        """The couriers to which anything may be done at any time."""
        return tuple(each for each in self.couriers if not each.away_seconds and not each.parcels)

    @property
    def service_rate(self) -> int:
        """How many attempts a second each service allows: so that some wait most of the time."""
        parcels = sum(courier.parcels for courier in self.couriers)
        return max(1, round(parcels / ((DRAINED - FILLED) * self.seconds)))

    def limits_of(self, destination: str) -> tuple[int, int]:
        """How many attempts at once and in a second a service allows: more after a minute away."""
        per_second = self.service_rate * (CATCHES_UP if destination.startswith(DOWN) else 1)
        return 3 + 2 * per_second, per_second

    @property
    def outage_seconds(self) -> float:
        """For how long a courier is away."""
        return sum(courier.away_seconds for courier in self.couriers)

    @property
    def command(self) -> str:
        """What runs exactly this again."""
        marked = "".join(
            f" {name}=1"
            for name, asked in (
                ("FORGET", self.forget_redis),
                ("STEP", self.step_clock),
                ("SENTINELS", self.sentinels),
                ("MEMBERS", self.members),
                ("POISON", self.poison),
            )
            if asked
        )
        minutes = f"{self.seconds / 60:g}"
        size = f"MINUTES={minutes} " + ("SHORT=1" if self.is_short else f"WORKERS={self.workers}")
        if len(self.present) != len(COURIERS):
            size += f" COURIERS={len(self.present)}"
        if self.rate is not None:
            size += f" RATE={self.rate:g}"
        if self.away_seconds:
            size += f" AWAY={self.away_seconds:g}"
        if self.hooks:
            size += f" HOOKS={self.hooks}"
        if self.outage_seconds:
            size += f" OUTAGE={self.outage_seconds:g}"
        return f"make chaos SEED={self.seed} {size}{marked}"


def settings(scale: Scale, site_url: str) -> str:
    """Write the workers' config.toml."""
    lines = [
        f"[worker]\nconcurrency = {CONCURRENCY}\ngrace_seconds = {GRACE}",
        f"[requests]\nmax_age_seconds = {MAX_AGE}",
        f"[limits]\nguard_ms = {HOOKS_GUARD_MS if scale.hooks else GUARD_MS}",
        f"call_timeout_seconds = {CALL_TIMEOUT}\nlease_seconds = {LEASE}",
        f"[retry]\nattempts = {ATTEMPTS}",
        f"first_seconds = {FIRST_RETRY}\ncap_seconds = {RETRY_CAP}",
        '[recheck]\nenabled = false\n[log]\nformat = "json"',
        f"[redis]\nmirror = {str(scale.forget_redis).lower()}",
    ]
    for courier in scale.couriers:
        lines += [
            f"[limits.slugs.{courier.slug}]",
            f"concurrent = {courier.concurrent}\nper_second = {courier.per_second}",
            f"max_waiting = {courier.most_waiting}",
            f'[couriers.{courier.slug}]\nmodule = "json_feed"\nbase_url = "{site_url}/feed"',
        ]
        if courier.together > 1:
            lines.append(f"numbers_per_call = {courier.together}")
    if scale.hooks:
        allowed = f'networks = ["127.0.0.0/8"]\nhttp = true\nports = [{urlsplit(site_url).port}]'
        lines += [
            f'[webhooks]\nkeys = "{new_key("a")}"\ntimeout_seconds = {CALL_TIMEOUT}',
            f"[webhooks.allowed.main]\n{allowed}",
        ]
    return "\n".join(lines) + "\n"
