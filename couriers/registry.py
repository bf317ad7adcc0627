"""Registry of couriers: which module a slug means, what a module promises, and what is set for it.

Importing it loads every courier's module, but no HTTP client: to look a courier up takes none.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from couriers.http.credentials import CourierSettings, OtherWay
from couriers.http.several import Ends
from couriers.reading import numbers
from couriers.slugs import ALIASES, FEEDS, SLUGS
from tracking.checkpoint import Tracking
from tracking.errors import CourierError, MalformedJob, MissingField
from tracking.request import Slug, TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch


class Courier(Protocol):
    """A courier module. The module itself is the value in the registry.

    NAME              as people write it
    BASE_URL          default of `base_url`; TOKEN_URL likewise, where there is one
    CREDENTIALS       names of the keys it needs, () where none; a module that can be asked in a
                      second way, with other keys, has an OTHER_WAY too (couriers.http.credentials)
    CREDENTIALS_FROM  where a person gets them, for `doctor`
    REQUIRED_FIELDS   names out of tracking.request.FIELDS that a request must carry, where it must
    PATTERNS          forms of its numbers, the most usual first; a hint, never a refusal
    VERIFIED          against what the module was checked, and that no live site was among it

    A module that asks for several numbers in one call stands in `couriers.slugs.TOGETHER` and is a
    `CourierForMany` too.
    """

    NAME: str
    BASE_URL: str
    CREDENTIALS: tuple[str, ...]
    CREDENTIALS_FROM: str
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


class CourierForMany(Courier, Protocol):
    """A courier module that asks for several numbers in one call, of one HTTP request."""

    async def track_many(self, fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
        """Ask for all of them, each once. Raises as `track`, for an error of the whole call.

        What comes back is by the number as asked: its answer, or the error that is its own. A
        number that is not there was left out of the answer.
        """

    def parse_many(
        self, status: int, headers: Mapping[str, str], body: bytes, numbers: Sequence[str]
    ) -> Ends:
        """Read an answer about several numbers. Pure, as `parse`; raises only CourierError."""


def _module(name: str) -> Courier:
    """Load a courier's module; the names are those of `couriers.slugs`, never from outside."""
    return cast(Courier, import_module(f"couriers.{name}"))


COURIERS: Mapping[Slug, Courier] = MappingProxyType(
    {slug: _module(slug.replace("-", "_")) for slug in sorted(SLUGS)}
)
"""Every courier with a module of its own. Adding one is one line in `couriers.slugs`."""

MODULES: Mapping[str, Courier] = MappingProxyType({name: _module(name) for name in FEEDS})
"""The modules that serve any slug."""

LISTED = 20
"""Slugs that are listed for one that nothing is like."""


class Registry:
    """The couriers of one worker: the built-in ones, and those that configuration adds."""

    def __init__(self, configured: Iterable[CourierSettings] = ()) -> None:
        """Take sections that `service.config` found to be right."""
        self._couriers: dict[Slug, Courier] = dict(COURIERS)
        self._settings: dict[Slug, CourierSettings] = {}
        for section in configured:
            slug = ALIASES.get(section.slug, section.slug)
            self._couriers[slug] = MODULES[section.module] if section.module else COURIERS[slug]
            self._settings[slug] = _complete(replace(section, slug=slug), self._couriers[slug])
        for slug, courier in COURIERS.items():
            if slug not in self._settings:
                self._settings[slug] = _complete(CourierSettings(slug), courier)
        # To compare with a thousand slugs takes 30 ms, and a slip seldom comes alone.
        self._why_unknown = lru_cache(256)(partial(_why_unknown, slugs=self.slugs))

    @property
    def slugs(self) -> tuple[Slug, ...]:
        """Every slug that can be tracked, sorted."""
        return tuple(sorted(self._couriers))

    def resolve(self, text: str) -> Slug | None:
        """Return the slug that `text` means, aliases resolved; None when no courier has it."""
        slug = ALIASES.get(text, Slug(text))
        return slug if slug in self._couriers else None

    def named(self, text: str) -> tuple[Slug, str]:
        """Return the slug that `text` means, and the characters that its numbers keep.

        Raises MalformedJob, with the courier that was probably meant.
        """
        section = self._settings.get(Slug(ALIASES.get(text, text)))
        if section is None:
            raise MalformedJob("unknown_slug", self._why_unknown(text))
        return section.slug, section.keep

    def settings(self, slug: Slug) -> CourierSettings:
        """Return what is set for a resolved slug, with the module's defaults filled in."""
        return self._settings[slug]

    def courier(self, slug: Slug) -> Courier:
        """Return the module of a resolved slug."""
        return self._couriers[slug]

    def track(self, fetch: Fetch, request: TrackingRequest) -> Awaitable[Tracking]:
        """Ask the courier of `request`, once it carries what that courier needs.

        `fetch` has the settings of the same slug. Raises MissingField at once; CourierError,
        NotStarted, LimitsDown where it is awaited.
        """
        courier = self.courier(request.slug)
        _check_fields(courier, request)
        return courier.track(fetch, request)

    async def track_many(self, fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
        """Ask one courier for several numbers in one call: no more than its line takes together.

        What comes back is by number: its answer, or the error that is its own; a number that the
        answer leaves out is missing. Raises CourierError for an error of the whole call,
        NotStarted, LimitsDown.
        """
        courier = cast(CourierForMany, self.courier(requests[0].slug))
        ends: dict[str, Tracking | CourierError] = {}
        asked: list[TrackingRequest] = []
        for request in requests:
            try:
                _check_fields(courier, request)
                asked.append(request)
            except MissingField as missing:
                ends[request.number] = missing
        if asked:
            ends |= await courier.track_many(fetch, asked)
        return ends


def _check_fields(courier: Courier, request: TrackingRequest) -> None:
    for name in required_fields(courier):
        if not request.fields.get(name):
            raise MissingField(name, f"{courier.NAME} needs {name} besides the number")


def _why_unknown(text: str, slugs: Sequence[Slug]) -> str:
    near = difflib.get_close_matches(text.lower(), (*slugs, *ALIASES), 1)
    if near:
        return f"no courier is called {text!r}: did you mean {near[0]}?"
    more = ", …" if len(slugs) > LISTED else ""
    return f"no courier is called {text!r}; there are: {', '.join(slugs[:LISTED])}{more}"


def required_fields(courier: Courier) -> tuple[str, ...]:
    """Name what a request must carry besides the number: of most couriers nothing."""
    names: tuple[str, ...] = getattr(courier, "REQUIRED_FIELDS", ())
    return names


def wanted_credentials(courier: Courier, given: Mapping[str, str]) -> tuple[str, ...]:
    """Name the keys that a courier needs, of the way in which those that are given ask it."""
    other = _other_way(courier, given)
    return other.credentials if other else courier.CREDENTIALS


def _other_way(courier: Courier, given: Mapping[str, str]) -> OtherWay | None:
    other: OtherWay | None = getattr(courier, "OTHER_WAY", None)
    return other if other and other.is_chosen(given) else None


def _complete(section: CourierSettings, courier: Courier) -> CourierSettings:
    other = _other_way(courier, section.credentials)
    return replace(
        section,
        base_url=section.base_url or (other.base_url if other else courier.BASE_URL),
        token_url=section.token_url or getattr(courier, "TOKEN_URL", ""),
    )
