"""The couriers that the configuration knows, and what makes a request for one of them."""

from __future__ import annotations

from functools import cache

from couriers.detection import Candidate, Sign, detect
from couriers.http.credentials import environment_name
from couriers.registry import MODULES, Registry, required_fields, wanted_credentials
from service.config.domain import courier_settings
from service.config.schema import Config
from tracking.errors import MalformedJob
from tracking.request import Number, Slug, parse_number

__all__ = ["Sign"]


class Catalogue:
    """All couriers there are."""

    def __init__(self, config: Config) -> None:
        self.registry = Registry(courier_settings(config).values())
        # A post may name one a thousand times. What is unknown is looked for each time.
        self._named = cache(self.registry.named)
        self._required_fields = cache(lambda slug: required_fields(self.registry.courier(slug)))

    @property
    def slugs(self) -> tuple[Slug, ...]:
        """Every slug that can be tracked, sorted."""
        return self.registry.slugs

    def resolve(self, text: str) -> tuple[Slug, str]:
        """Find the slug that `text` means and the characters its numbers keep.

        Raises MalformedJob with the nearest one.
        """
        return self._named(text)

    def parcel(self, slug: str, number: str) -> tuple[Slug, Number]:
        """Read a slug and a number as people write them. Raises MalformedJob."""
        found, keep = self.resolve(slug)
        return found, parse_number(number, keep)

    def candidates(self, number: str, *, served: bool = False) -> list[Candidate]:
        """List the couriers that may have a number, the likeliest first; `served`: have a module.

        Raises MalformedJob.
        """
        found = detect(number, self.registry)
        return [each for each in found if not served or each.sign is not Sign.NO_MODULE]

    def likeliest(self, number: str) -> Slug:
        """Find the one courier that has such numbers. Raises MalformedJob with all that may."""
        served = self.candidates(number, served=True)
        first = served[0] if served else None
        alone = first is not None and all(each.rank > first.rank for each in served[1:])
        if first and alone and first.sign in {Sign.CHECKED, Sign.FORM}:
            return first.slug
        slugs = ", ".join(each.slug for each in served)
        why = f"it may be of {slugs}" if slugs else "no courier's numbers look like this one"
        raise MalformedJob("no_slug", f"name the courier (`slug`): {why}")

    def name(self, slug: Slug) -> str:
        """Name a courier as people do; one that a feed serves by its slug."""
        courier = self.registry.courier(slug)
        return slug if courier in MODULES.values() else courier.NAME

    def required_fields(self, slug: Slug) -> tuple[str, ...]:
        """Name the fields that a request for this courier must carry."""
        return self._required_fields(slug)

    def missing_credentials(self, slug: Slug) -> tuple[str, ...]:
        """Name the keys of `[couriers.<slug>]` that are missing for it to be asked."""
        given = self.registry.settings(slug).credentials
        wanted = wanted_credentials(self.registry.courier(slug), given)
        return tuple(key for key in wanted if not given.get(key))

    def lacking(self, slug: Slug) -> str:
        """Say which credentials of a courier are missing and where to get them; "" for none.

        Nor is any missing where nobody asks a courier: on a line of another kind, or one removed.
        """
        if slug not in self.slugs:
            return ""
        names = [environment_name(slug, key) for key in self.missing_credentials(slug)]
        if not names:
            return ""
        source = self.registry.courier(slug).CREDENTIALS_FROM
        return f"{slug} needs {', '.join(names)} (or these with _FILE), from {source}"
