"""What is asked of MongoDB, as its driver tells, and by which plan a question is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.monitoring import CommandListener

from service.worker.results.database import Collections

LOOKS = frozenset({"find", "aggregate", "count"})


class Asked(CommandListener):
    """The names of the commands that were sent, to all databases or to one, and those that read."""

    def __init__(self, database: str = "") -> None:
        self.names: list[str] = []
        self.looks: list[Mapping[str, Any]] = []
        self._database = database

    def started(self, event: Any) -> None:
        if self._database in {"", event.database_name}:
            self.names.append(event.command_name)
            if event.command_name in LOOKS:
                self.looks.append(dict(event.command))

    def succeeded(self, event: Any) -> None: ...
    def failed(self, event: Any) -> None: ...


def plan_of(stores: Collections, command: Mapping[str, Any]) -> str:
    """The plan by which it is answered, as text; what was rejected is no part of it."""
    kept = {k: v for k, v in command.items() if k not in {"lsid", "$db", "maxTimeMS"}}
    if "pipeline" not in kept:
        kept.pop("cursor", None)
    told = stores.tracking.database.command("explain", kept, verbosity="queryPlanner")
    return str(_chosen(told))


def _chosen(plan: Any) -> Any:
    if isinstance(plan, dict):
        return {name: _chosen(each) for name, each in plan.items() if name != "rejectedPlans"}
    return [_chosen(each) for each in plan] if isinstance(plan, list) else plan
