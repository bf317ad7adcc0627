"""The couriers that the configuration knows, and what makes a request for one of them."""

from __future__ import annotations

from couriers.registry import Registry, wanted_credentials
from service.cli.exit_codes import UsageError
from service.config.handover import courier_settings
from service.config.load import Loaded
from tracking.errors import MalformedJob
from tracking.request import Number, Slug, parse_number


class Catalogue:
    """All couriers there are."""

    def __init__(self, loaded: Loaded) -> None:
        self.registry = Registry(courier_settings(loaded.config).values())

    def resolve(self, text: str) -> tuple[Slug, str]:
        """Find the slug that `text` means and the characters its numbers keep.

        Raises MalformedJob.
        """
        return self.registry.named(text)

    def required_fields(self, slug: Slug) -> tuple[str, ...]:
        """Name the fields that a request for this courier must carry."""
        return self.registry.courier(slug).REQUIRED_FIELDS

    def missing_credentials(self, slug: Slug) -> tuple[str, ...]:
        """Name the keys of `[couriers.<slug>]` that are missing for it to be asked."""
        given = self.registry.settings(slug).credentials
        wanted = wanted_credentials(self.registry.courier(slug), given)
        return tuple(key for key in wanted if not given.get(key))

    def slug(self, text: str) -> Slug:
        """Read a slug off the command line. Raises UsageError with the nearest one."""
        try:
            return self.resolve(text)[0]
        except MalformedJob as error:
            raise UsageError(error.detail) from error

    def named(self, slug: str, number: str) -> tuple[Slug, Number]:
        """Read a slug and a number off the command line. Raises UsageError."""
        try:
            found, keep = self.resolve(slug)
            return found, parse_number(number, keep)
        except MalformedJob as error:
            raise UsageError(error.detail) from error
