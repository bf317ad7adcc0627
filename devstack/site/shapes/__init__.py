"""How each courier is asked and how it answers.

A shape is a module with one pure function `read(asked) -> Reply | None`: what the courier at this
address would say, None where it has no such address. Bodies are made up here after the documented
schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from devstack.site.shapes import dpd_uk, feed, hong_kong_post, usps
from devstack.site.shapes.reply import Asked, Reply

SHAPES: Mapping[str, Callable[[Asked], Reply | None]] = MappingProxyType(
    {
        "dpd-uk": dpd_uk.read,
        "feed": feed.read,
        "hong-kong-post": hong_kong_post.read,
        "usps": usps.read,
    }
)
"""By the first part of the path."""
