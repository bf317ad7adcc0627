"""A line: who shares a limit and waits together.

=================== ======================================== =======================
line                shared by                                kind
=================== ======================================== =======================
`<slug>`            all who ask a courier                    TRACKING
`<slug>@<account>`  an account's own credentials for it      none yet: it waits
`hook:<service>`    what is delivered to one webhook         none yet: it waits
=================== ======================================== =======================

Rules, wait lists, calls in flight, starts, pauses and counts belong to a line; answers, documents
and history to a slug and a number. What is done on a line follows from its kind, and nobody else
asks for that.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NewType, Protocol

from tracking.request import SLUG, Slug

Line = NewType("Line", str)
"""Made by `line_of` and `courier_line` only, or read from Redis or a drain job."""


class Kind(NamedTuple):
    """What is done on the lines of a kind; `form` is how they are written.

    `call` and `failures` name what carries a call out, and what decides after a failed one.
    `merges`: requests for one number are one call, and its answer is remembered for later ones.
    `goes_on_at_once`: a job that comes back gets a new call before the lease of the vanished worker
    ends; two calls at once must do no harm then.
    """

    form: re.Pattern[str]
    call: str
    merges: bool
    goes_on_at_once: bool
    failures: str


TRACKING = Kind(
    form=re.compile(SLUG),
    call="couriers.courier.Courier",
    merges=True,
    goes_on_at_once=True,
    failures="service.flow.failure_policy.decide",
)

KINDS = (TRACKING,)


class Asked(Protocol):
    """Whatever is asked of a courier: a request, or a wish to cancel one."""

    @property
    def slug(self) -> Slug:
        """Of the courier."""


def line_of(asked: Asked) -> Line:
    """Say on which line a request is called or waits."""
    return courier_line(asked.slug)


def courier_line(slug: Slug) -> Line:
    """Name the line of all who ask a courier."""
    return Line(slug)


def kind_of(line: Line) -> Kind | None:
    """Find the kind of a line; None for one that only a later version knows: it waits."""
    return next((kind for kind in KINDS if kind.form.fullmatch(line)), None)


def slug_of(line: Line) -> Slug:
    """Name the courier that is asked on a line of the kind TRACKING."""
    return Slug(line)
