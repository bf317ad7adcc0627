"""How each courier is asked and how it answers.

A shape is a module with one pure function `read(asked) -> Reply | None`: what the courier at this
address would say, None where it has no such address. Bodies are made up here after the documented
schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from devstack.site.shapes import (
    australia_post,
    bring,
    canada_post,
    dhl,
    dpd_uk,
    fedex,
    feed,
    gls,
    hong_kong_post,
    la_poste_colissimo,
    postnl,
    postnord,
    royal_mail,
    ups,
    usps,
)
from devstack.site.shapes.reply import Asked, Reply

SHAPES: Mapping[str, Callable[[Asked], Reply | None]] = MappingProxyType(
    {
        "australia-post": australia_post.read,
        "bring": bring.read,
        "canada-post": canada_post.read,
        "dhl": dhl.read,
        "dpd-uk": dpd_uk.read,
        "fedex": fedex.read,
        "feed": feed.read,
        "gls": gls.read,
        "hong-kong-post": hong_kong_post.read,
        "la-poste-colissimo": la_poste_colissimo.read,
        "postnl": postnl.read,
        "postnord": postnord.read,
        "royal-mail": royal_mail.read,
        "ups": ups.read,
        "usps": usps.read,
    }
)
"""By the first part of the path."""
