"""The rules of couriers that answer for several numbers in one call."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace

from limits.rules import Changes, RuleBook, Rules, RulesOf
from simulated.plan import Plan
from tracking.line import Line


class RulesOfGroups(RuleBook):
    """The rules of a world, of which the plan says how many numbers go with a call."""

    def __init__(
        self, plain_of: RulesOf, plan: Plan, read: Callable[[], Awaitable[Changes]]
    ) -> None:
        together = {Line(each.slug): each.together for each in plan.slugs}

        @functools.cache
        def plain_with(line: Line) -> Rules:
            return replace(plain_of(line), together=together[line])

        super().__init__(
            lambda line: plain_with(line) if line in together else plain_of(line), read
        )
