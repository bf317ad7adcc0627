"""What templates write: links, numbers, times, lengths of time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

NOTHING = Markup("&ndash;")
"""Stands where there is no value."""


def link(path: str, **query: object) -> str:
    """Write the path of a page with its query; members that are None or "" are left out."""
    given = {name: f"{value}" for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def part(value: object) -> str:
    """Write a part of a path."""
    return quote(f"{value}", safe="")


def number(value: float | None) -> str:
    """Write a number with its thousands apart."""
    return NOTHING if value is None else f"{value:,}"


def moment(value: dt.datetime | None, form: str = "%Y-%m-%d %H:%M:%S") -> Markup:
    """Write a time in UTC; the browser writes it as its user's own."""
    if value is None:
        return NOTHING
    at = value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        at.isoformat(timespec="seconds"), at.strftime(form)
    )


def day(value: dt.datetime | None) -> Markup:
    """Write a day."""
    return moment(value, "%Y-%m-%d")


def seconds(value: float | None) -> str:
    """Write a length of time in the unit that reads best."""
    if value is None:
        return NOTHING
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value >= 2 * length:
            return f"{value / length:.1f} {unit}"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"  # noqa: PLR2004


FILTERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"number": number, "moment": moment, "day": day, "seconds": seconds, "part": part}
)
"""Their names in templates."""
