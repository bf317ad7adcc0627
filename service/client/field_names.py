"""What AfterShip calls the fields of requests now: it renamed some of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

AFTERSHIP_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "tracking_postal_code": "destination_postal_code",
        "tracking_ship_date": "tracking_ship_date",
        "tracking_account_number": "tracking_account_number",
        "tracking_key": "tracking_key",
        "tracking_origin_country": "origin_country_region",
        "tracking_destination_country": "destination_country_region",
        "tracking_state": "destination_state",
    }
)
"""By the name of `tracking.request.FIELDS`: all of them."""

_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?!\d)")


def fields_of(words: Mapping[str, Any]) -> dict[str, str]:
    """Take what a courier may want besides the number out of what AfterShip calls otherwise."""
    fields = {ours: words[theirs] for ours, theirs in AFTERSHIP_NAMES.items() if words.get(theirs)}
    if day := _DAY.match(fields.get("tracking_ship_date", "")):
        fields["tracking_ship_date"] = "".join(day.groups())
    return fields
