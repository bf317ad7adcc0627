"""Events become checkpoints, in order; what the newest says of one parcel, or of several.

Couriers' clocks are read strictly, in the forms they are known to write, and never by guessing. A
courier's text is local to the place of the scan. It becomes an instant only where the courier says
how far that place is from Greenwich; a local time is never taken for UTC.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import NamedTuple
from zoneinfo import ZoneInfo

from couriers.reading.answer import text
from couriers.reading.countries import Country
from couriers.reading.statuses import IN_TRANSIT, Status
from tracking.checkpoint import Checkpoint, Tag, Tracking
from tracking.errors import UnreadableAnswer

_ISO = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<time>\d\d:\d\d(?::\d\d)?)(?:[.,]\d{1,9})?"
    r"\s*(?P<offset>Z|[+-]\d{1,2}(?::?\d\d)?)?)?",
    re.ASCII,
)
_KEPT = re.compile(r"(?:199\d|20\d\d)-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
"""The form in which times are kept, in YEARS only."""
_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?", re.ASCII)
_DAY_FIRST = re.compile(
    r"(?P<day>\d{1,2})[-/. ](?P<month>\d{1,2}|[A-Za-z]{3})[-/. ](?P<year>\d{4})"
    r"(?: (?P<time>\d\d:\d\d(?::\d\d)?)(?:[.,]\d{1,9})?)?",
    re.ASCII,
)
_MONTH_FIRST = re.compile(
    r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4}),? "
    r"(?P<hour>\d{1,2}):(?P<rest>\d\d(?::\d\d)?) (?P<half>AM|PM)",
    re.ASCII,
)
_NOON = 12
_MONTHS = {
    name: f"{number:02}"
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_FARTHEST = timedelta(hours=14)

YEARS = range(1990, 2100)
"""Outside of these a date is a filler (0001-01-01, 9999-12-31), not the time of a scan."""


class Moment(NamedTuple):
    """When something happened, as far as the courier says.

    `local` is ISO 8601 without offset: "2026-01-05T08:15:00", or only the date where no time was
    given. `offset` is "+02:00" or None. `utc` follows from both, None where it does not.
    """

    local: str
    offset: str | None = None
    utc: datetime | None = None

    @property
    def iso(self) -> str:
        """The courier's text with its offset, as far as given."""
        return self.local + (self.offset or "")


def read_iso(text: str, *, place_offset: str | None = None, zone_is_fake: bool = False) -> Moment:
    """Read ISO 8601 in the forms couriers use: date, blank or T, seconds or not, offset or not.

    `place_offset` is an offset that stands beside the time. `zone_is_fake`: this courier writes a Z
    behind local time, so a Z is dropped. Raises UnreadableAnswer.
    """
    if place_offset is None and is_kept(text):
        return Moment(text)
    found = _ISO.fullmatch(text.strip())
    if found is None:
        raise UnreadableAnswer(f"{text[:60]!r} is no date and time in ISO 8601")
    own = None if zone_is_fake and found["offset"] == "Z" else found["offset"]
    return _moment(found["date"], found["time"], place_offset or own, text)


def is_kept(text: str) -> bool:
    """Whether a time without offset is in the very form of `Moment.local`, as most of all are.

    Raises UnreadableAnswer for one that no calendar has.
    """
    if _KEPT.fullmatch(text) is None:
        return False
    _calendar(text, text)
    return True


def read_digits(day: str, clock: str, *, place_offset: str | None = None) -> Moment:
    """Read YYYYMMDD and HHMMSS (or HH:MM:SS); an empty clock is "no time given".

    Raises UnreadableAnswer, also for a clock whose leading zero was lost: 74700 is not repaired.
    """
    days = re.fullmatch(r"(\d{4})(\d\d)(\d\d)", day.strip(), re.ASCII)
    clocks = re.fullmatch(r"(\d\d):?(\d\d):?(\d\d)", clock.strip(), re.ASCII)
    if days is None or (clocks is None and clock.strip()):
        raise UnreadableAnswer(f"{f'{day} {clock}'[:60]!r} is no date and time in digits")
    return _moment(
        "-".join(days.groups()), ":".join(clocks.groups()) if clocks else None, place_offset, day
    )


def read_day_first(text: str) -> Moment:
    """Read DD-MM-YYYY, DD.MM.YYYY or D-Mon-YYYY, with HH:MM[:SS[.fff]] or without.

    Raises UnreadableAnswer.
    """
    found = _DAY_FIRST.fullmatch(text.strip())
    if found is None:
        raise UnreadableAnswer(f"{text[:60]!r} is no date that begins with the day")
    month = _MONTHS.get(found["month"].lower(), found["month"])
    day = f"{found['year']}-{month:0>2}-{found['day']:0>2}"
    return _moment(day, found["time"], None, text)


def read_month_first(text: str) -> Moment:
    """Read M/D/YYYY h:mm:ss AM or PM. Raises UnreadableAnswer, also for a clock of 24 hours.

    Without AM or PM nothing tells that the month comes first.
    """
    found = _MONTH_FIRST.fullmatch(text.strip())
    if found is None or not 1 <= int(found["hour"]) <= _NOON:
        raise UnreadableAnswer(f"{text[:60]!r} is no date and time with AM or PM")
    hour = int(found["hour"]) % _NOON + (_NOON if found["half"] == "PM" else 0)
    day = f"{found['year']}-{found['month']:0>2}-{found['day']:0>2}"
    return _moment(day, f"{hour:02}:{found['rest']}", None, text)


def read_offset(text: str | None) -> timedelta | None:
    """Read "-7:00", "+0200", "Z"; None when there is none, or none that a place could have."""
    if text is None:
        return None
    if text.strip() == "Z":
        return timedelta(0)
    found = _OFFSET.fullmatch(text.strip())
    if found is None or int(found["minutes"] or 0) >= 60:  # noqa: PLR2004 - minutes of an hour
        return None
    offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
    return None if offset > _FARTHEST else offset * (-1 if found["sign"] == "-" else 1)


def in_zone(moment: Moment, zone: str, named_minutes: int) -> Moment:
    """Give a local time the offset that its abbreviation names ("EST": -300), if the date agrees.

    In July no clock of New York shows EST: whether the hour is wrong or its name, nothing tells, so
    such a time stays without an offset. In the hour that comes twice the name says which.
    """
    if "T" not in moment.local:
        return moment
    local = datetime.fromisoformat(moment.local)
    named = timedelta(minutes=named_minutes)
    possible = {
        local.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset()
        for fold in (0, 1)  # before and after the clock is set back
    }
    if named not in possible:
        return moment
    return Moment(moment.local, _written(named), (local - named).replace(tzinfo=UTC))


def offset_between(here: Moment, there: Moment) -> str | None:
    """Tell the offset of a place by its own time and that at Greenwich, both told without one.

    None for what no place has: a date alone, more than 14 hours, not a multiple of 15 minutes.
    """
    if "T" not in here.local or "T" not in there.local:
        return None
    apart = datetime.fromisoformat(here.local) - datetime.fromisoformat(there.local)
    possible = abs(apart) <= _FARTHEST and not apart % timedelta(minutes=15)
    return _written(apart) if possible else None


def _moment(day: str, clock: str | None, offset_text: str | None, text: str) -> Moment:
    if clock is None:
        return Moment(_possible(day, text).date().isoformat())
    local = _possible(f"{day}T{clock}", text)
    offset = read_offset(offset_text)
    if offset is None:
        return Moment(local.isoformat())
    return Moment(local.isoformat(), _written(offset), (local - offset).replace(tzinfo=UTC))


def _possible(iso: str, text: str) -> datetime:
    local = _calendar(iso, text)
    if local.year not in YEARS:
        raise UnreadableAnswer(f"{text[:60]!r} cannot be when a parcel was seen")
    return local


def _calendar(iso: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(iso)
    except ValueError as impossible:
        raise UnreadableAnswer(f"{text[:60]!r} is no possible time: {impossible}") from impossible


def _written(offset: timedelta) -> str:
    minutes = abs(offset) // timedelta(minutes=1)
    sign = "-" if offset < timedelta(0) else "+"
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}"


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
