"""Fail points: places at which a fault run kills a worker, before and after steps of the ports.

`FAILPOINT=work.store:after` kills the process once an answer is stored, `work.store:after:3` once a
third one is. A point names a port of the flow, its method, and `before`, `after` or the type of
what the method returned: `granted` for a Granted. docs/flow.md lists what each point proves. A port
that no armed point names is not wrapped.
"""

from __future__ import annotations

import inspect
import itertools
import os
import signal
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar, cast

from service.ports import Job

T = TypeVar("T")
OnJobs = Callable[[Sequence[Job]], None]
Step = TypeVar("Step", bound=Callable[..., Any])


class FailPoint(StrEnum):
    """Every step of the flow after which a worker may vanish."""

    RESERVED = "requests.decode:before"
    GRANTED = "limits.admit:granted"
    PARKED = "limits.admit:parked"
    DRAIN_PUT = "drains.put_drain:after"
    ENDED = "limits.admit:ended"
    ANSWERED = "work.store:before"
    STORED = "work.store:after"
    FINISHED = "limits.finish:after"
    FAILURE_STORED = "work.fail:after"
    RETRIED = "limits.retry:after"
    HANDED_BACK = "limits.hand_back:after"
    HALVED = "limits.halve:after"
    ASKED_ALONE = "limits.ask_alone:after"
    RECORDED_AS_DEAD = "dead.record:after"
    DELETED = "requests.delete:after"
    DRAIN_RESERVED = "wait_list.decode:before"
    TAKEN = "limits.take:after"
    HANDED_OVER = "wait_list.release:after"
    SWEPT = "limits.sweep:swept"


class DeliveryPoint(StrEnum):
    """Every step on the way of a delivery after which a worker may vanish, beside those."""

    MARKED = "outbox.insert:before"
    INSERTED = "outbox.insert:after"
    TOLD = "outbox.pull:after"
    READ = "deliveries.read:after"
    SENT = "sends.send:after"
    NOTED = "deliveries.note:after"
    MOVED = "deliveries.move:after"
    LEASED = "leases.hold:after"


class RelayPoint(StrEnum):
    """Every step of a request that a door took, after which a worker may vanish."""

    RESERVED = "relay.events:before"
    EVENT_INSERTED = "relay.events:after"
    DELIVERY_INSERTED = "relay.deliveries:after"
    PUSH_PUT = "pushes.put:after"
    DELETED = "webhooks.delete:after"


Point = FailPoint | DeliveryPoint | RelayPoint


class FailPoints:
    """Wraps the ports that the `points` name, and calls `reach` where a step comes to a point."""

    def __init__(
        self,
        points: Collection[Point] = (),
        reach: Callable[[Point], None] = lambda _: None,
    ) -> None:
        self._points = points
        self._reach = reach

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> FailPoints:
        """Read `FAILPOINT`. Raises ValueError for no name: such a run proves nothing."""
        port, _, rest = environment.get("FAILPOINT", "").partition(":")
        if not port:
            return cls()
        when, _, visit = rest.partition(":")
        visits, last = itertools.count(1), int(visit or 1)

        def kill(_: Point) -> None:
            if next(visits) == last:
                os.kill(os.getpid(), signal.SIGKILL)

        name = f"{port}:{when}"
        kind = next((each for each in (DeliveryPoint, RelayPoint) if name in list(each)), FailPoint)
        return cls([kind(name)], kill)

    def port(self, name: str, port: T) -> T:
        """Wrap the methods of a port that points name; else it comes back as it is."""
        points = (point.partition(":")[0].partition(".") for point in self._points)
        methods = {method for of, _, method in points if of == name and hasattr(port, method)}
        # What a port does with several at once is the same step.
        named = {each + more: each for each in methods for more in ("", "_all")}
        steps = {
            method: self.step(f"{name}.{each}", getattr(port, method))
            for method, each in named.items()
            if hasattr(port, method)
        }
        return cast("T", _Wrapped(port, steps)) if steps else port

    def jobs(self, name: str, on_jobs: OnJobs) -> OnJobs:
        """Wrap all jobs of a tube."""
        if not any(point.startswith(f"{name}.") for point in self._points):
            return on_jobs
        return lambda jobs: on_jobs([self.port(name, job) for job in jobs])

    def step(self, name: str, step: Step) -> Step:
        """Wrap one step, `port.method`. What it gives to be awaited comes `after` once it has."""
        points = {
            point.partition(":")[2]: point for point in self._points if point.startswith(f"{name}:")
        }
        if not points:
            return step

        def come(when: str) -> None:
            if when in points:
                self._reach(points[when])

        def passed(given: Any) -> Any:
            come("after")
            first = given[0] if isinstance(given, list) and given else given
            come(type(first).__name__.lower())
            return given

        async def awaited(given: Coroutine[Any, Any, Any]) -> Any:
            return passed(await given)

        def wrapped(*args: Any, **more: Any) -> Any:
            come("before")
            given = step(*args, **more)
            return awaited(given) if inspect.iscoroutine(given) else passed(given)

        return cast("Step", wrapped)


class _Wrapped:
    """A port with some of its methods replaced."""

    def __init__(self, port: object, steps: Mapping[str, Callable[..., Any]]) -> None:
        self._port = port
        vars(self).update(steps)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)
