"""Status codes that a courier's module has no meaning for: told once, for its table to be kept."""

from __future__ import annotations

from service.observe.events import Event
from service.observe.log import emit
from tracking.call import Call
from tracking.checkpoint import Tracking

TOLD_MOST = 1_000
"""A courier that makes up codes must not fill memory or disk: so many are told per process."""


class UnknownCodes:
    """Remembers which codes of which courier this process has told of."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def tell(self, call: Call, tracking: Tracking) -> None:
        """Log each code of an answer that was not told before."""
        slug = call.request.slug
        for code in tracking.unknown_codes:
            if (slug, code) in self._told or len(self._told) >= TOLD_MOST:
                continue
            self._told.add((slug, code))
            emit(Event.UNKNOWN_CODE, slug=slug, number=call.request.number, code=code)
