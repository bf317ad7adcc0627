"""A courier that answers for several numbers in one call, and the rules that say so."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from limits.rules import RuleBook, Rules, RulesOf
from service.ports import Done, Outcome
from service.worker.flow.tracking_work import TrackingWork
from simulated.courier import ALWAYS, POISON, refused
from simulated.plan import Plan
from tracking.call import Call
from tracking.errors import CourierDown
from tracking.line import Line
from tracking.request import Number

ALL = Number("GROUP")
"""What the courier is asked for several numbers."""


class RulesOfGroups(RuleBook):
    """The rules of a world, of which the plan says how many numbers go with a call."""

    def __init__(self, plain_of: RulesOf, plan: Plan) -> None:
        together = {Line(each.slug): each.together for each in plan.slugs}

        @functools.cache
        def plain_with(line: Line) -> Rules:
            return replace(plain_of(line), together=together.get(line, 1))

        super().__init__(plain_with)


class WorkOfGroups(TrackingWork):
    """Asks once for a group. An error of the whole call is that of each of its numbers."""

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """Ask for all; one that kills who asks for it does so in company too."""
        if len(calls) == 1:
            return await super().perform(calls)
        numbers = [each.request.number for each in calls]
        asked = next((each for each in numbers if each.startswith(POISON)), ALL)
        lead = calls[0]
        whole = lead._replace(request=lead.request._replace(number=asked))
        (outcome,) = await super().perform([whole])
        return [_own(number, outcome) for number in numbers]


def _own(number: str, outcome: Outcome) -> Outcome:
    """What the courier says of a number in an answer for all."""
    if not isinstance(outcome, Done):
        return outcome
    if number in ALWAYS:
        return (ALWAYS[number] or (lambda: CourierDown("nothing is said of it")))()
    error = refused(number)
    return error() if error else outcome
