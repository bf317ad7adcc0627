"""Carries a plan out: breaks things when their time has come, and mends them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from chaos.arena import Arena
from chaos.plan import Planned

AT_ONCE = 24
"""Faults at once; more than a plan ever has."""

WATCH_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Done:
    """One fault as it happened; `began` and `ended` are seconds of `time.monotonic()`.

    `needs` names what it had in hand, as its card does.
    """

    kind: str
    began: float
    ended: float
    needs: frozenset[str] = frozenset()


class Nemesis:
    """Breaks an arena by a plan. Workers that end unasked are started again, as an init does."""

    def __init__(self, arena: Arena, plan: Sequence[Planned]) -> None:
        self.done: list[Done] = []
        self.exits: list[tuple[str, int]] = []
        """Workers that ended unasked, with their exit codes."""
        self._arena = arena
        self._plan = plan
        self._over = threading.Event()
        needs = sorted({need for planned in plan for need in planned.card.needs})
        self._locks = {need: threading.Lock() for need in needs}

    def run(self) -> None:
        """Carry the whole plan out; returns when everything is mended. Raises what went wrong."""
        watcher = threading.Thread(target=self._watch, name="init", daemon=True)
        watcher.start()
        began = time.monotonic()
        under_way: list[Future[None]] = []
        with ThreadPoolExecutor(AT_ONCE, "fault") as pool:
            for planned in self._plan:
                time.sleep(max(0.0, began + planned.at - time.monotonic()))
                under_way.append(pool.submit(self._carry_out, planned))
            for fault in under_way:
                fault.result()
        self._arena.network.heal()

    def watch_no_more(self) -> None:
        """From now on a worker that ends has ended."""
        self._over.set()

    def _carry_out(self, planned: Planned) -> None:
        with ExitStack() as held:
            # The plan keeps faults apart, but one may take longer to mend than was planned.
            for need in sorted(planned.card.needs):
                held.enter_context(self._locks[need])
            began = time.monotonic()
            undo = planned.card.do(self._arena, random.Random(planned.seed))
            time.sleep(max(0.0, began + planned.lasts - time.monotonic()))
            undo()
            card = planned.card
            self.done.append(Done(card.kind, began, time.monotonic(), card.needs))

    def _watch(self) -> None:
        while not self._over.wait(WATCH_SECONDS):
            for name, worker in self._arena.workers.items():
                code = worker.restart_if_ended()
                if code is not None:
                    self.exits.append((name, code))
