"""The couriers that the configuration knows, and what makes a request for one of them."""

from __future__ import annotations

from couriers.registry import Registry
from service.cli.exits import UsageError
from service.config.handover import courier_settings
from service.config.load import Loaded
from tracking.errors import MalformedJob
from tracking.request import Number, Slug, parse_number


class Catalogue:
    """All couriers there are."""

    def __init__(self, loaded: Loaded) -> None:
        self.registry = Registry(courier_settings(loaded.config).values())

    def resolve(self, text: str) -> tuple[Slug, str] | None:
        """Find the slug that `text` means and the characters its numbers keep."""
        slug = self.registry.resolve(text)
        return (slug, self.registry.settings(slug).keep) if slug else None

    def required_fields(self, slug: Slug) -> tuple[str, ...]:
        """Name the fields that a request for this courier must carry."""
        return self.registry.courier(slug).REQUIRED_FIELDS

    def named(self, slug: str, number: str) -> tuple[Slug, Number]:
        """Read a slug and a number off the command line. Raises UsageError."""
        found = self.resolve(slug)
        if found is None:
            known = ", ".join(self.registry.slugs)
            raise UsageError(f"no courier is called {slug!r}; there are: {known}")
        try:
            return found[0], parse_number(number, found[1])
        except MalformedJob as error:
            raise UsageError(error.detail) from error
