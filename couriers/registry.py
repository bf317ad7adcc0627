"""Which courier a slug means, and what is set for it.

Only `service.wiring` imports this: the modules bring aiohttp with them, which `--help` must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from couriers import (
    australia_post,
    bring,
    canada_post,
    dhl,
    dpd_uk,
    fedex,
    gls,
    hong_kong_post,
    json_feed,
    la_poste_colissimo,
    postnl,
    postnord,
    royal_mail,
    ups,
    usps,
)
from couriers.courier import Courier
from couriers.http.addresses import root
from couriers.http.fetch import Fetch
from couriers.http.settings import CourierSettings
from tracking.checkpoint import Tracking
from tracking.errors import MissingField, RequestRefused, TrackingError
from tracking.request import Slug, TrackingRequest

COURIERS: Mapping[Slug, Courier] = MappingProxyType(
    {
        Slug("australia-post"): australia_post,
        Slug("bring"): bring,
        Slug("canada-post"): canada_post,
        Slug("dhl"): dhl,
        Slug("dpd-uk"): dpd_uk,
        Slug("fedex"): fedex,
        Slug("gls"): gls,
        Slug("hong-kong-post"): hong_kong_post,
        Slug("la-poste-colissimo"): la_poste_colissimo,
        Slug("postnl"): postnl,
        Slug("postnord"): postnord,
        Slug("royal-mail"): royal_mail,
        Slug("ups"): ups,
        Slug("usps"): usps,
    }
)
"""Every courier with a module of its own. Adding one is one line here (docs/couriers.md)."""

MODULES: Mapping[str, Courier] = MappingProxyType({"json_feed": json_feed})
"""What `module = …` may name: modules that serve any slug."""

ALIASES: Mapping[str, Slug] = MappingProxyType(
    {"hkpost": Slug("hong-kong-post"), "dpduk": Slug("dpd-uk")}
)
"""Names of the original system. No key, `_id`, metric or log ever carries one."""


class BadCourierSettings(TrackingError):
    """`[couriers.<slug>]` cannot be used; the message names the setting and the fix."""


class Registry:
    """The couriers of one worker: the built-in ones, and those that configuration adds."""

    def __init__(self, configured: Iterable[CourierSettings] = ()) -> None:
        """Check every section. Raises BadCourierSettings: the worker must not start."""
        self._couriers: dict[Slug, Courier] = dict(COURIERS)
        self._settings: dict[Slug, CourierSettings] = {}
        for section in configured:
            slug = ALIASES.get(section.slug, section.slug)
            if slug in self._settings:
                raise BadCourierSettings(f"[couriers.{slug}] is there twice: once by an alias")
            self._couriers[slug] = _module(section)
            self._settings[slug] = _complete(replace(section, slug=slug), self._couriers[slug])
        for slug, courier in COURIERS.items():
            if slug not in self._settings:
                self._settings[slug] = _complete(CourierSettings(slug), courier)

    @property
    def slugs(self) -> tuple[Slug, ...]:
        """Every slug that can be tracked, sorted."""
        return tuple(sorted(self._couriers))

    def resolve(self, text: str) -> Slug | None:
        """Return the slug that `text` means, aliases resolved; None when no courier has it."""
        slug = ALIASES.get(text, Slug(text))
        return slug if slug in self._couriers else None

    def settings(self, slug: Slug) -> CourierSettings:
        """Return what is set for a resolved slug, with the module's defaults filled in."""
        return self._settings[slug]

    def courier(self, slug: Slug) -> Courier:
        """Return the module of a resolved slug."""
        return self._couriers[slug]

    async def track(self, fetch: Fetch, request: TrackingRequest) -> Tracking:
        """Ask the courier of `request`, once it carries what that courier needs.

        `fetch` has the settings of the same slug. Raises CourierError (MissingField before any
        request), NotStarted, LimitsDown.
        """
        courier = self.courier(request.slug)
        for name in courier.REQUIRED_FIELDS:
            if not request.fields.get(name):
                raise MissingField(name, f"{courier.NAME} needs {name} besides the number")
        return await courier.track(fetch, request)


def _module(section: CourierSettings) -> Courier:
    slug = ALIASES.get(section.slug, section.slug)
    known = ", ".join(sorted(MODULES))
    if section.module:
        if section.module not in MODULES:
            raise BadCourierSettings(
                f"couriers.{slug}.module: {section.module!r} is no module; choose one of: {known}"
            )
        return MODULES[section.module]
    if slug not in COURIERS:
        raise BadCourierSettings(
            f"couriers.{slug}: no courier has this slug; for a courier of your own set "
            f"module (one of: {known}) and base_url. Built in: {', '.join(sorted(COURIERS))}"
        )
    return COURIERS[slug]


def _complete(section: CourierSettings, courier: Courier) -> CourierSettings:
    for key, value in section.credentials.items():
        if not value.isprintable():
            raise BadCourierSettings(
                f"couriers.{section.slug}.{key}: holds a line break or control character; "
                "set the bare value"
            )
    whole = replace(
        section,
        base_url=section.base_url or courier.BASE_URL,
        token_url=section.token_url or courier.TOKEN_URL,
    )
    for key, url in (("base_url", whole.base_url), ("token_url", whole.token_url)):
        if not url and key == "token_url":
            continue
        try:
            root(url)
        except RequestRefused as unfit:
            raise BadCourierSettings(f"couriers.{section.slug}.{key}: {unfit}") from unfit
    return whole
