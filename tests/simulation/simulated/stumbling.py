"""Parts of a worker in whose background a defect comes up now and then."""

from __future__ import annotations

from typing import Any

from service.flow.dispatch import Dispatcher
from service.flow.drain import Drainer
from service.upkeep.sweeper import Sweeper
from simulated.chance import Chance
from tracking.line import Line

KIND = "background task breaks"
DEFECT = "a defect of the module"


def stumbling(chance: Chance) -> dict[str, Any]:
    """The parts, for `service.wiring.assemble`."""

    def stumble(where: str) -> None:
        if chance.strikes(KIND, detail=where):
            raise KeyError(DEFECT)

    class StumblingSweeper(Sweeper):
        async def sweep(self) -> None:
            stumble("sweeper")
            await super().sweep()

    class StumblingDrainer(Drainer):
        async def run(self, dispatcher: Dispatcher) -> None:
            stumble("drainer")
            await super().run(dispatcher)

        async def _ask_for(self, line: Line, dispatcher: Dispatcher, *, called_in: bool) -> None:
            stumble(f"drainer, {line}")
            await super()._ask_for(line, dispatcher, called_in=called_in)

    return {"Sweeper": StumblingSweeper, "Drainer": StumblingDrainer}
