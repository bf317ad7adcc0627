"""Decides, from the seed, what goes wrong at each step."""

from __future__ import annotations

from random import Random

from simulated.plan import Plan
from simulated.trace import Trace


class Chance:
    """While `on`, faults happen at the plan's rates; afterwards none does."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        self._rates = plan.rates
        self._trace = trace
        self.draw = Random(f"chance {plan.seed}")
        self.on = True

    def rate(self, kind: str) -> float:
        return self._rates.get(kind, 0.0) if self.on else 0.0

    def strikes(self, kind: str, who: str = "world", detail: str = "") -> bool:
        """Whether a fault of this kind happens now; it is noted then."""
        rate = self.rate(kind)
        if not rate or self.draw.random() >= rate:
            return False
        self._trace.fault(kind, who, detail)
        return True

    def latency(self, least: float = 0.000_2, most: float = 0.002) -> float:
        return self.draw.uniform(least, most)

    def delay(self) -> float:
        """Mostly short, now and then as long as a time-out."""
        return float(10 ** self.draw.uniform(-2.0, 0.7))
