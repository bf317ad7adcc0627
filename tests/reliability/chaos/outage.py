"""What a courier that was away cost, and how soon it was asked at its full rate again. Pure.

Its rate is judged by the clock, from when nothing else is broken any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaos.evidence import Evidence
from chaos.faults.couriers import AWAY
from chaos.nemesis import Done
from chaos.scale import LONGEST_PROBE, Courier
from devstack import judge
from devstack.judge import SECOND_NS
from tracking.errors import CourierDown

MOST_CALLS = 50
"""Ten minutes are about 25: a few failures in a row, then a call after 1 s, 2 s, … 5 min. Each that
a killed worker or a lost store leaves behind is made again."""

LEAST_RATE = 0.85
"""Of what is allowed; the guard takes 5 % of each second here."""

RATED = 0.9
"""Of the calls; the last ones are retries that wait for their own time."""

FEWEST_RATED = 40
"""Calls: 20 seconds of them."""

TOLD = (200, 404)


@dataclass(frozen=True, slots=True)
class Outage:
    """One absence. Seconds; `back_after` is infinite where it was never asked again.

    `rate` is None where too few calls were left to tell when everything else was mended.
    """

    slug: str
    seconds: float
    calls: int
    dead: int
    back_after: float
    rate: float | None

    def rows(self) -> Iterator[tuple[str, str]]:
        """Tell it in lines of name and figure."""
        yield f"calls of {self.slug} while it was away", f"{self.calls} in {self.seconds:.0f} s"
        yield "its requests that died of it", str(self.dead)
        yield "it was called again after", f"{self.back_after:.1f} s"
        told = "too few calls to tell" if self.rate is None else f"{self.rate:.2f} of its rate"
        yield "and then at", told

    def breaches(self) -> Iterator[tuple[str, bool]]:
        """What should not be so, and whether that is a matter of time only."""
        if self.calls > MOST_CALLS:
            yield f"{self.calls} calls of {self.slug} while it was away, not {MOST_CALLS}", False
        if self.dead:
            yield f"{self.dead} requests of {self.slug} died while it was away", False
        if self.back_after > LONGEST_PROBE + 1.0:
            yield f"{self.slug} was back, and called after {self.back_after:.1f} s", True
        elif self.rate is not None and self.rate < LEAST_RATE:
            yield f"{self.slug} was back, and called at {self.rate:.2f} of its rate", True


def outages(found: Evidence) -> list[Outage]:
    """Every absence of a courier in this run."""
    absent = {each.slug: each for each in found.scale.couriers if each.away_seconds}
    return [
        _outage(found, courier, done)
        for done in found.meanwhile.done
        if done.kind == AWAY
        for slug, courier in absent.items()
        if slug in done.needs
    ]


def _outage(found: Evidence, courier: Courier, done: Done) -> Outage:
    calls = [each.call for each in found.calls if each.call.slug == courier.slug]
    began, ended = done.began * SECOND_NS, done.ended * SECOND_NS
    answered = [
        each.arrived_ns for each in calls if each.arrived_ns >= ended and each.status in TOLD
    ]
    back = min(answered, default=float("inf"))
    mended = max(each.ended for each in found.meanwhile.done) * SECOND_NS
    later = sorted(each.arrived_ns for each in calls if each.arrived_ns > max(back, mended))
    until = later[round((len(later) - 1) * RATED)] if later else 0
    rated = [each for each in calls if max(back, mended) < each.arrived_ns <= until]
    died = [each for each in found.dead if each["reason"] == CourierDown.code]
    return Outage(
        slug=courier.slug,
        seconds=done.ended - done.began,
        calls=sum(began <= each.arrived_ns < ended for each in calls),
        dead=sum(each["slug"] == courier.slug for each in died),
        back_after=(back - ended) / SECOND_NS,
        rate=judge.rate_share(rated, courier.per_second) if len(rated) >= FEWEST_RATED else None,
    )
