"""The slugs of all couriers, without their code, which the registry brings.

A configuration is checked against these by every command, and by the parent of the workers, which
must stay small.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tracking.request import Slug

SLUGS = frozenset(
    map(
        Slug,
        (
            "australia-post",
            "brazil-correios",
            "bpost",
            "bring",
            "canada-post",
            "chronopost-france",
            "dhl",
            "dhl-germany",
            "dpd",
            "dpd-uk",
            "fedex",
            "gls",
            "hermes-de",
            "hong-kong-post",
            "inpost-paczkomaty",
            "la-poste-colissimo",
            "new-zealand-post",
            "postnl",
            "postnord",
            "purolator",
            "royal-mail",
            "ups",
            "usps",
        ),
    )
)
"""Every courier with a module of its own."""

TOGETHER: Mapping[Slug, int] = MappingProxyType(
    {
        Slug("australia-post"): 10,
        Slug("brazil-correios"): 50,
        Slug("fedex"): 30,
        Slug("gls"): 10,
        Slug("hermes-de"): 100,
        Slug("la-poste-colissimo"): 10,
        Slug("usps"): 35,
    }
)
"""How many numbers one call may carry at most, of the couriers that answer for several."""

ALONE_AT: Mapping[Slug, str] = MappingProxyType({Slug("usps"): "/tracking/v3"})
"""How the `base_url` of an older service ends, which answers for one number only."""


def together(slug: str, base_url: str) -> int:
    """Tell how many numbers one call to a courier may carry, where it is asked by its own module.

    `base_url` is "" for the module's own.
    """
    known = Slug(slug)
    older = ALONE_AT.get(known)
    alone = older is not None and base_url.rstrip("/").endswith(older)
    return 1 if alone else TOGETHER.get(known, 1)


FEEDS = frozenset({"json_feed"})
"""What `module = …` may name: modules that serve any slug."""

ALIASES: Mapping[str, Slug] = MappingProxyType(
    {"hkpost": Slug("hong-kong-post"), "dpduk": Slug("dpd-uk")}
)
"""Names of the original system. No key, `_id`, metric or log ever carries one."""
