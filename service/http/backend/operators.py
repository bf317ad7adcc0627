"""Questions and acts of operators, for a process that serves; `audit` records each act."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from limits.admin.snapshot import LineSnapshot
from limits.admin.view import View
from service.config.schema import Config
from service.operator.audit import Operator, recorded
from service.operator.catalogue import Catalogue
from service.operator.connections import Collections
from service.operator.dead import Document, Filter, delete_dead, find
from service.operator.limits import CourierLimits, Own, change, limits_of
from service.operator.look import Lines, behind_in, overview
from service.operator.pause import Resumed, pausing, resuming
from service.operator.producer import Producer
from service.operator.resend import NotResent, of_record, resend
from service.worker.results.database import in_thread
from tracking.errors import StoreError
from tracking.line import courier_line
from tracking.request import Slug

__all__ = ["Filter"]

ACT_SECONDS = 20.0
"""No further record is begun after that: proxies give up after a minute."""

_MILLISECONDS = re.compile(r"-?[0-9]{1,15}")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)

T = TypeVar("T")
Step = Callable[[Document, Producer], object]


@dataclass(slots=True)
class Acted:
    """The result of an act on dead requests: how many are `done`, and by id why others are not.

    `cursor` names the last one of those that were looked at, None where no more are meant.
    """

    done: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    cursor: str | None = None


class Operators:
    """For one event loop. Its methods raise StoreError; an act that raises may have been done."""

    def __init__(self, config: Config, view: View, stores: Collections) -> None:
        self.config = config
        self.view = view
        self._stores = stores

    async def lines(self, known: Sequence[Slug]) -> Lines:
        """Look at all lines; `known` are all couriers."""
        return await overview(self.view, known, behind_in(self._stores.tracking))

    async def line(self, named: str, couriers: Catalogue) -> LineSnapshot:
        """Look at one line, also at one that waits for a courier which is not configured any more.

        Raises MalformedJob where there is none.
        """
        for each in (await self.lines(couriers.slugs)).told:
            if each.line == named:
                return each
        return await self.view.line(courier_line(couriers.resolve(named)[0]))

    async def pause(self, who: Operator, slug: Slug, seconds: float | None, why: str) -> None:
        """Let nobody call a courier, for so many seconds or until `resume`."""
        await self._do(who, *pausing(self.config, slug, seconds, why))

    async def resume(self, who: Operator, slug: Slug) -> Resumed:
        """Let a courier be called again."""
        return await self._do(who, *resuming(self.config, slug))

    async def limits(
        self, who: Operator, slug: Slug, wishes: Own | Sequence[str] | None = None
    ) -> CourierLimits:
        """Look at a courier's limits, set them, or take back those of these names or all."""
        if wishes is None:
            return (await in_thread(limits_of, self.config, self._stores, [slug]))[0]
        act = "limits reset" if isinstance(wishes, Sequence) else "limits set"
        target: Document = {"slug": slug, "limits": wishes}
        return await self._do(
            who, act, target, lambda _: change(self.config, self._stores, slug, wishes)
        )

    async def dead(self, wanted: Filter, most: int) -> list[Document]:
        """List dead requests, the newest first."""
        return await in_thread(find, self._stores.dead, wanted, most)

    async def kick(self, who: Operator, wanted: Filter, most: int) -> Acted:
        """Put dead requests again, the newest first, and delete their records."""

        def step(each: Document, producer: Producer) -> None:
            resend(of_record(each), self._stores, producer)

        return await self._each((who, "kick"), wanted, most, step)

    async def delete(self, who: Operator, wanted: Filter, most: int) -> Acted:
        """Delete records of dead requests, the newest first, with their buried jobs."""
        dead = self._stores.dead
        return await self._each(
            (who, "delete"), wanted, most, lambda each, producer: delete_dead(each, dead, producer)
        )

    async def _each(
        self, act: tuple[Operator, str], wanted: Filter, most: int, step: Step
    ) -> Acted:
        def go(outcome: Document) -> Acted:
            acted = self._through(wanted, most, step)
            outcome |= {"done": acted.done, "failed": len(acted.failures)}
            return acted

        given = {name: value for name, value in dataclasses.asdict(wanted).items() if value}
        return await self._do(*act, given or {"all": True}, go)

    def _through(self, wanted: Filter, most: int, step: Step) -> Acted:
        acted, ends = Acted(), time.monotonic() + ACT_SECONDS
        documents = find(self._stores.dead, wanted, most)
        with Producer(self.config.beanstalkd.servers) as producer:
            for count, document in enumerate(documents, start=1):
                try:
                    step(document, producer)
                except (NotResent, StoreError) as error:
                    acted.failures[str(document["_id"])] = str(error)
                else:
                    acted.done += 1
                late = count < len(documents) and time.monotonic() >= ends
                if late or count == most:
                    acted.cursor = behind(document)
                    break
        return acted

    async def _do(
        self, who: Operator, act: str, target: Document, step: Callable[[Document], T]
    ) -> T:
        def whole() -> T:
            with recorded(self._stores.audit, who, act, target) as outcome:
                return step(outcome)

        return await in_thread(whole)


def behind(document: Document) -> str | None:
    """Name what follows a record in a list of dead requests; None of one without a date."""
    at = document.get("at")
    if not isinstance(at, dt.datetime):
        return None
    return cursor_of(at, str(document["_id"]))


def cursor_of(at: dt.datetime, identity: str) -> str:
    """Name what follows this in a list that is in the order of a time, and then of an id."""
    return f"{(at - _EPOCH) // _MILLISECOND}.{identity}"


def read_behind(text: str) -> tuple[dt.datetime, str]:
    """Read what `cursor_of` wrote. Raises ValueError."""
    at, _, identity = text.partition(".")
    if not (_MILLISECONDS.fullmatch(at) and identity):
        raise ValueError("no such cursor")
    try:
        return _EPOCH + int(at) * _MILLISECOND, identity
    except OverflowError as error:
        raise ValueError("no such time") from error
