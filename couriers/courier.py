"""What every courier module promises, and what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from couriers.reading import numbers
from tracking.checkpoint import Tracking
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch


class Courier(Protocol):
    """A courier module. The module itself is the value in the registry.

    NAME              as people write it
    BASE_URL          default of `base_url`; TOKEN_URL likewise, "" where there is none
    ASKS              the addresses it asks, for the documentation (Markdown, as the next two)
    AUTH              how it identifies itself
    QUOTA             what the courier allows, and who says so
    CREDENTIALS       names of the keys it needs, () where none; a module that can be asked in a
                      second way, with other keys, has an OTHER_WAY too (couriers.http.settings)
    CREDENTIALS_FROM  where a person gets them, for `doctor`
    REQUIRED_FIELDS   names out of tracking.request.FIELDS that a request must carry
    PATTERNS          forms of its numbers, the most usual first; a hint, never a refusal
    VERIFIED          against what the module was checked, and that no live site was among it
    """

    NAME: str
    BASE_URL: str
    TOKEN_URL: str
    ASKS: str
    AUTH: str
    QUOTA: str
    CREDENTIALS: tuple[str, ...]
    CREDENTIALS_FROM: str
    REQUIRED_FIELDS: tuple[str, ...]
    PATTERNS: tuple[numbers.NumberForm, ...]
    VERIFIED: str

    async def track(self, fetch: Fetch, request: TrackingRequest) -> Tracking:
        """Ask the courier. Raises CourierError (the closed set of tracking.errors), NotStarted.

        The first HTTP request spends the permit; `fetch` asks for leave before each further one.
        Never retries by itself.
        """

    def parse(self, status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
        """Read an answer. Pure, so that kept bodies can be read again after a fix.

        Returns a Tracking (Pending without checkpoints for "not known yet") or raises CourierError.
        """
