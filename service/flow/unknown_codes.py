"""Status codes that a courier's module has no meaning for: logged once, counted for its table."""

from __future__ import annotations

from service.observe.events import Event
from service.observe.log import emit
from service.ports import CodeCounts
from tracking.call import Call
from tracking.checkpoint import Tracking

TOLD_MOST = 1_000
"""A courier that makes up codes must not fill memory, disk or MongoDB: so many per process."""


class UnknownCodes:
    """Remembers which codes of which courier this process has logged; counts each answer."""

    def __init__(self, counts: CodeCounts) -> None:
        self._counts = counts
        self._told: set[tuple[str, str]] = set()

    def tell(self, call: Call, tracking: Tracking) -> None:
        """Count the codes of an answer, and log each that is new here."""
        slug = call.request.slug
        for code in tracking.unknown_codes:
            if (slug, code) not in self._told:
                if len(self._told) >= TOLD_MOST:
                    continue
                self._told.add((slug, code))
                emit(Event.UNKNOWN_CODE, slug=slug, number=call.request.number, code=code)
            self._counts.count(slug, code)
