"""Whose a document is: each account that asks for a parcel has one of its own.

======= ====================== ================
account `_id`                  member `account`
======= ====================== ================
`main`  `"usps:9405…"`         is missing
`shop`  `"usps:9405…@shop"`    `"shop"`
======= ====================== ================

So it is in `tracking`, in `tracking_past` (where the first event follows in `_id`) and in
`unreadable`. No number contains `@`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tracking.account import MAIN, Account

Document = dict[str, Any]


def document_id(parcel: str, account: Account) -> str:
    """Name the document that an account has of a parcel."""
    return parcel if account == MAIN else f"{parcel}@{account}"


def parcel_in(name: str) -> str:
    """Read the parcel out of what `document_id` made."""
    return name.partition("@")[0]


def of_everybody(parcel: str) -> Document:
    """Ask for the documents that accounts have of a parcel, by the index on `_id`."""
    return {"_id": {"$in": [parcel, re.compile(f"^{re.escape(parcel)}@")]}}


def whose(account: Account) -> Document:
    """Say in a document whose it is."""
    return {} if account == MAIN else {"account": account}


def fields_in(document: Mapping[str, Any] | None) -> dict[str, str]:
    """Read what its account asks the courier with, besides the number; {} where nothing is."""
    return (document or {}).get("fields") or {}
