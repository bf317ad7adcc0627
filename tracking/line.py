"""A line: requests that share a limit and wait together; and its kind, the rules for these.

=================== ======================================== =======================
line                shared by                                kind
=================== ======================================== =======================
`<slug>`            all who ask a courier                    TRACKING
`<slug>@<account>`  an account's own credentials for it      none yet: it waits
`~<service>`        what is delivered to one webhook         DELIVERY
=================== ======================================== =======================

Rules, wait lists, calls in flight, starts, pauses and counts belong to a line; answers, documents
and history to a slug and a number. What is done on a line follows from its kind, and nobody else
asks for that. Scripts know a kind by these rules only, which each step brings along:

=========== ======================================= =============================================
rule        on                                      off
=========== ======================================= =============================================
merges      requests for one number are one call    a request for what waits or runs changes
                                                    nothing
remembers   an answer serves later requests that    each request is a call
            find it fresh enough
takes_over  a job that comes back gets a new call   it waits until that lease has ended, because
            before the lease of the vanished        two calls at once would do harm
            worker ends
operations  a request is an operation: it has a     only the record of its number carries it: an
            state under its id; its end enters      id means nothing, no state and no end is
            the archive, the stream and counters    written; that a job which comes back has
                                                    ended is for its work to know
counted     what happens enters the statistics;     it enters none; parcels have neither
            parcels have a history and may be
            forgotten
=========== ======================================= =============================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, NewType

from tracking.request import SLUG, Slug, TrackingRequest

Line = NewType("Line", str)
"""Made by `line_of` and `courier_line` only, or read from Redis or a drain job."""


@dataclass(frozen=True, slots=True)
class Brake:
    """The brake of a line: after which failures the line stops, and for how long.

    It stops once `after` different numbers have failed in a row. The first pause lasts
    `first_seconds`, each further one twice as long, at most `cap_seconds`, and at most
    `early_seconds` in the first hour, where given. After each, one call alone tries; an answer
    lets all go.
    """

    after: int
    first_seconds: float
    cap_seconds: float
    early_seconds: float | None = None


class Kind(NamedTuple):
    """A kind of lines: the rules for requests on them; `form` is how these lines are written.

    What carries its calls out is chosen by its `name`, in the wiring (service.ports.Work).
    `brakes`: what stops a line, by the code of the error. `yields`: calls of such lines have half
    of the slots of a process at most, all lines together. The others are the rules of the table
    above.
    """

    name: str
    form: re.Pattern[str]
    merges: bool
    remembers: bool
    takes_over: bool
    operations: bool
    counted: bool
    brakes: Mapping[str, Brake]
    yields: bool = False


_CHANGED = Brake(after=3, first_seconds=60.0, cap_seconds=3_600.0)
"""Answers in a new form stay so until somebody acts."""

TRACKING = Kind(
    name="tracking",
    form=re.compile(SLUG),
    merges=True,
    remembers=True,
    takes_over=True,
    operations=True,
    counted=True,
    brakes=MappingProxyType(
        {
            "courier_down": Brake(3, first_seconds=1.0, cap_seconds=300.0, early_seconds=30.0),
            "unreadable_answer": _CHANGED,
            "wrong_number": _CHANGED,
            # It is MongoDB that refuses, perhaps these numbers only: others are tried soon.
            "unstorable_answer": Brake(3, first_seconds=1.0, cap_seconds=300.0, early_seconds=30.0),
            "request_refused": _CHANGED,
            # One parcel of somebody else's account is refused like a bad key.
            "auth_failed": Brake(after=3, first_seconds=60.0, cap_seconds=3_600.0),
            "rate_limited": Brake(after=1, first_seconds=60.0, cap_seconds=3_600.0),
            # New ones are noticed within a minute: looking costs no call.
            "no_credentials": Brake(after=1, first_seconds=60.0, cap_seconds=60.0),
        }
    ),
)

DELIVERY = Kind(
    name="delivery",
    form=re.compile("~[a-z0-9]{16}"),
    merges=False,
    remembers=False,
    takes_over=False,
    operations=False,
    counted=False,
    brakes=MappingProxyType(
        {
            "destination_down": Brake(20, first_seconds=300.0, cap_seconds=3_600.0),
            "rate_limited": Brake(after=1, first_seconds=60.0, cap_seconds=3_600.0),
            # A worker that cannot sign; another one may.
            "no_key": Brake(after=1, first_seconds=60.0, cap_seconds=60.0),
        }
    ),
    yields=True,
)

KINDS = (TRACKING, DELIVERY)


def line_of(request: TrackingRequest) -> Line:
    """Say on which line a request is called or waits."""
    return Line(request.slug)


def courier_line(slug: Slug) -> Line:
    """Name the line of all who ask a courier."""
    return Line(slug)


def service_line(service: str) -> Line:
    """Name the line of a service by its id."""
    return Line(f"~{service}")


def service_of(line: Line) -> str:
    """Name the service of a line of the kind DELIVERY by its id."""
    return line.removeprefix("~")


def kind_of(line: Line) -> Kind | None:
    """Find the kind of a line; None for one that only a later version knows: it waits."""
    return next((kind for kind in KINDS if kind.form.fullmatch(line)), None)


def is_courier(line: Line) -> bool:
    """Whether a line is that of a courier: lists of couriers show no other."""
    return kind_of(line) is TRACKING


def slug_of(line: Line) -> Slug:
    """Name the courier that is asked on a line of the kind TRACKING."""
    return Slug(line)
