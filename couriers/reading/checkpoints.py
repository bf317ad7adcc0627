"""Events become checkpoints, in order; what the newest says of one parcel, or of several."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from couriers.reading.answer import text
from couriers.reading.countries import Country
from couriers.reading.statuses import IN_TRANSIT, Status
from couriers.reading.times import Moment
from tracking.checkpoint import Checkpoint, Tag, Tracking

_LOCAL = attrgetter("checkpoint_time")
_UTC = attrgetter("checkpoint_utc")
_PLACE = ("location", "city", "state", "postal_code", "country_name")
_IDENTITY = attrgetter("checkpoint_time", "checkpoint_offset", "message", "raw_tag", *_PLACE)


class Place(NamedTuple):
    """Where something happened, as far as the courier says."""

    country: Country | None = None
    city: str | None = None
    state: str | None = None
    postal_code: str | int | None = None
    location: str | None = None


NOWHERE = Place()


class Scan(NamedTuple):
    """One event as a checkpoint, and whether it says how the parcel stands.

    A notice ("a photo was taken") does not: it is shown as in transit and decides nothing.
    """

    checkpoint: Checkpoint
    bears_status: bool


class History(NamedTuple):
    """All events of a parcel, oldest first, and the newest that says how the parcel stands."""

    checkpoints: tuple[Checkpoint, ...]
    last: Checkpoint | None

    @property
    def status(self) -> Status | None:
        """What the newest event with a status says; None where there is none."""
        return Status(self.last.tag, self.last.subtag) if self.last else None


def scan(
    moment: Moment,
    message: str | None,
    status: Status | None,
    code: str | int | None = None,
    place: Place = NOWHERE,
) -> Scan:
    """Make the checkpoint of one event; `status` is None for an event that decides nothing.

    `code` is the courier's own. All texts are trimmed here, and empty ones become None.
    """
    tag, subtag = status or IN_TRANSIT
    return Scan(
        Checkpoint(
            checkpoint_time=moment.local,
            checkpoint_offset=moment.offset,
            checkpoint_utc=moment.utc,
            message=text(message) or "",
            tag=tag,
            subtag=subtag,
            country_name=place.country.name if place.country else None,
            country_iso3=place.country.iso3 if place.country else None,
            city=text(place.city),
            state=text(place.state),
            postal_code=text(place.postal_code),
            location=text(place.location),
            raw_tag=text(code),
        ),
        status is not None,
    )


def history(scans: Iterable[Scan], *, newest_first: bool) -> History:
    """Put a courier's events in order; `newest_first` says how the courier lists them."""
    listed = list(scans)
    events = oldest_first((each.checkpoint for each in listed), newest_first=newest_first)
    bearing = {each.checkpoint for each in listed if each.bears_status}
    return History(events, decisive(events, bearing))


def oldest_first(events: Iterable[Checkpoint], *, newest_first: bool) -> tuple[Checkpoint, ...]:
    """Put a courier's events in order, each once.

    `newest_first` says how the courier lists them. Sorted by instant when every event has one, else
    by local time; events of one second stay in the courier's order, because several often share
    one. Repeats are dropped by (time, text, code, place), not by time.
    """
    listed = list(events)
    if newest_first:
        listed.reverse()
    if len(set(map(_LOCAL, listed))) < len(listed):
        # Only what was at the same time can be the same, and nearly always nothing was.
        listed = _each_once(listed)
    return tuple(sorted(listed, key=_LOCAL if None in map(_UTC, listed) else _seconds))


def decisive(events: Sequence[Checkpoint], bearing: Container[Checkpoint]) -> Checkpoint | None:
    """Return the newest event that carries a status, None when none does. Expects oldest first.

    Notices follow a delivery ("a photo was taken", "tell us how we did"): the last event alone
    would make a delivered parcel one in transit.
    """
    return next((event for event in reversed(events) if event in bearing), None)


def tracking_of(past: History, status: Status | None = None) -> Tracking:
    """Make the answer about a parcel; a module adds what else it knows with `_replace`.

    `status` is what the courier says of the parcel as a whole; without one the newest event says
    it. A delivered parcel was delivered at its last delivery, where an event tells one.
    """
    tag, subtag = status or past.status or IN_TRANSIT
    delivery = newest(past.checkpoints, Tag.DELIVERED) if tag is Tag.DELIVERED else None
    return Tracking(
        tag,
        subtag,
        past.checkpoints,
        delivered_at=delivery.checkpoint_time if delivery else None,
        delivered_at_utc=delivery.checkpoint_utc if delivery else None,
    )


def newest(events: Sequence[Checkpoint], tag: Tag | None = None) -> Checkpoint | None:
    """Return the last event (of that tag), None when there is none. Expects oldest first."""
    return next((event for event in reversed(events) if tag in (None, event.tag)), None)


def _each_once(events: Iterable[Checkpoint]) -> list[Checkpoint]:
    once: dict[tuple[object, ...], Checkpoint] = {}
    for event in events:
        once.setdefault(_IDENTITY(event), event)
    return list(once.values())


def _seconds(event: Checkpoint) -> float:
    return event.checkpoint_utc.timestamp() if event.checkpoint_utc else 0.0


def together(pieces: Sequence[Tracking]) -> Tracking:
    """Put the answers about all pieces of a consignment together; expects at least one.

    Every event of every piece is kept. The status is that of the piece seen last among those still
    under way, else among those not delivered: delivered means that all are. The weight is that of
    all, known where each piece's is.
    """
    if len(pieces) == 1:
        return pieces[0]
    active = [piece for piece in pieces if piece.active]
    slowest = active or [piece for piece in pieces if not piece.delivered] or list(pieces)
    codes = {code for piece in pieces for code in piece.unknown_codes}
    weights = [piece.weight_grams for piece in pieces if piece.weight_grams]
    return max(slowest, key=_seen_last)._replace(
        checkpoints=oldest_first(
            chain.from_iterable(piece.checkpoints for piece in pieces), newest_first=False
        ),
        weight_grams=sum(weights) if len(weights) == len(pieces) else None,
        unknown_codes=tuple(sorted(codes)),
    )


def latest(parcels: Iterable[Tracking]) -> Tracking:
    """Choose among parcels that were given the same number the one seen last; expects one."""
    return max(parcels, key=_seen_last)


def _seen_last(piece: Tracking) -> str:
    return piece.checkpoints[-1].checkpoint_time if piece.checkpoints else ""
