"""Couriers as AfterShip shows them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from service.client.catalogue import Catalogue, Sign
from service.client.shipments import AFTERSHIP_NAMES
from tracking.request import Slug


def shown(catalogue: Catalogue, slugs: Sequence[Slug]) -> dict[str, Any]:
    """Show couriers, in their order."""
    return {"total": len(slugs), "couriers": [_courier(catalogue, slug) for slug in slugs]}


def named(catalogue: Catalogue, names: Sequence[str], *, active: bool) -> list[Slug]:
    """List the couriers that names mean, all where there is none; `active`: that can be asked."""
    resolved = {catalogue.registry.resolve(name) for name in names}
    return [
        slug
        for slug in catalogue.slugs
        if (not names or slug in resolved) and not (active and catalogue.missing_credentials(slug))
    ]


def detected(catalogue: Catalogue, number: str, among: Sequence[str]) -> list[Slug]:
    """List couriers that may have a number, the likeliest first. Raises MalformedJob."""
    asked = named(catalogue, among, active=False)
    return [
        each.slug
        for each in catalogue.candidates(number)
        if each.sign is not Sign.NO_MODULE and each.slug in asked
    ]


def _courier(catalogue: Catalogue, slug: Slug) -> dict[str, Any]:
    return {
        "slug": slug,
        "name": catalogue.name(slug),
        "phone": None,
        "other_name": None,
        "web_url": None,
        "required_fields": [AFTERSHIP_NAMES[each] for each in catalogue.required_fields(slug)],
        "optional_fields": [],
        "default_language": None,
        "support_languages": [],
        "service_from_country_regions": [],
    }
