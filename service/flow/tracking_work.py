"""The Work of a courier's line: ask the courier, merge its answer into the document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from service.flow.dead_letters import letter_of
from service.flow.failure_policy import RetryRules, decide
from service.observe.events import Event
from service.observe.log import emit
from service.ports import CodeCounts, Done, Outcome, Results
from tracking.call import Attempt, Call, DeadLetter, Decision
from tracking.checkpoint import Tracking
from tracking.errors import CourierError, NotStarted
from tracking.request import TrackingRequest
from tracking.summary import output_of

TOLD_MOST = 1_000
"""A courier that makes up codes must not fill memory, disk or MongoDB: so many per process."""

Track = Callable[[Call], Awaitable[Tracking]]
"""Asks the courier of a call. Raises CourierError or NotStarted."""


class TrackingWork:
    """Spends permits at couriers; the flow's Work for lines of the kind TRACKING."""

    def __init__(
        self,
        track: Track,
        results: Results,
        codes: CodeCounts,
        retry: RetryRules,
        write_job: Callable[[TrackingRequest], bytes],
    ) -> None:
        self._track = track
        self._results = results
        self._codes = codes
        self._retry = retry
        self._write_job = write_job
        self._told: set[tuple[str, str]] = set()

    async def perform(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """Ask the courier, for one number. What else a module raises is a defect of its own."""
        (call,) = calls
        try:
            tracking = await self._track(call)
        except (CourierError, NotStarted) as error:
            return [error]
        outcome = "answered" if tracking.checkpoints else "not_found"
        tag, status = str(tracking.tag), tracking.http_status
        return [Done(outcome, output_of(tracking), tag, tracking, status)]

    async def store(self, call: Call, done: Done, attempt: Attempt) -> None:
        """Merge the answer into what is known of the parcel; count its unknown codes."""
        await self._results.save(call, done.content, attempt)
        self._tell_unknown(call, done.content)

    async def fail(self, call: Call, error: CourierError, attempt: Attempt, *, final: bool) -> None:
        """Note the failure in the parcel's document."""
        await self._results.fail(call, error, attempt, final=final)

    def decide(self, error: CourierError, call: Call, now: float) -> Decision:
        """Decide by the failure policy."""
        return decide(error, call, now, self._retry)

    def letter(self, call: Call, error: CourierError) -> DeadLetter:
        """Write down the request as a job, so that it can be put again."""
        return letter_of(call, error.code, error.message, self._write_job(call.request))

    def _tell_unknown(self, call: Call, tracking: Tracking) -> None:
        """Count the codes that the courier's module has no meaning for; log each that is new."""
        slug = call.request.slug
        for code in tracking.unknown_codes:
            if (slug, code) not in self._told:
                if len(self._told) >= TOLD_MOST:
                    continue
                self._told.add((slug, code))
                emit(Event.UNKNOWN_CODE, slug=slug, number=call.request.number, code=code)
            self._codes.count(slug, code)
