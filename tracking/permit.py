"""The right to send one HTTP request to a courier, as a courier module sees it."""

from __future__ import annotations

from typing import Protocol


class Permit(Protocol):
    """Paces the requests of one `track()`; made by `limits`, used by `couriers.http.fetch`.

    One permit is one HTTP request to the courier's tracking address; token endpoints need none.
    """

    @property
    def deadline(self) -> float:
        """The end of the whole call, on the clock of `time.monotonic()`."""

    @property
    def started(self) -> bool:
        """True once a byte may have left: the start is spent then."""

    async def again(self) -> None:
        """Get leave for one further request (a second page, a second step).

        Call it before every request but the first. Raises LimitsDown.
        """

    async def before_send(self) -> None:
        """Hold until the granted instant; called with the connection in hand, before any byte.

        Raises NotStarted when the grant is too old, or was used for a request before.
        """

    def after_send(self) -> None:
        """Stamp the instant at which the request left; called right after the write."""

    def answered(self, ago: float) -> None:
        """Note that its answer began to arrive, so many seconds ago."""
