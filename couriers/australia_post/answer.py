"""The shape of Australia Post's answers, as far as they are read."""

from __future__ import annotations

from typing import Any

import msgspec


class Event(msgspec.Struct):
    """One scan."""

    description: str | None = None
    date: str | None = None
    location: str | None = None


class Item(msgspec.Struct, rename={"article": "article_id", "product": "product_type"}):
    """An article; or a consignment, whose articles are its `items`."""

    article: str | None = None
    status: str | None = None
    events: list[Event] | None = None
    items: list[Item] | None = None
    product: Any = None


class Complaint(msgspec.Struct):
    """Why there is no answer. Some services write `error_code`."""

    code: str | None = None
    error_code: str | None = None
    name: str | None = None
    message: str | None = None


class Result(msgspec.Struct, rename={"number": "tracking_id", "items": "trackable_items"}):
    """The answer about one of the numbers that were asked for."""

    number: str | None = None
    status: str | None = None
    items: list[Item] | None = None
    errors: list[Complaint] | None = None


class Reply(msgspec.Struct, rename={"results": "tracking_results"}):
    """The whole answer."""

    results: list[Result] | None = None
    errors: list[Complaint] | None = None
