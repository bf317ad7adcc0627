"""What the query of a list asks for: filters, a page of so many, and fields. Pure."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.api.aftership.envelope import Code, refusal
from service.client.shipments import Filters, Position
from tracking.account import Account, account_and_id, operation_id
from tracking.checkpoint import Tag

LIMIT, LIMIT_MOST = 100, 200
NUMBERS_MOST = 50

_NOT_OFFERED = ("transit_time", "courier_destination_country_region")
_FEW = re.compile(r"[1-9][0-9]{0,2}")
_PLUS = re.compile(r" (\d\d:?\d\d)\Z")
"""A zone whose + was not escaped."""

_LISTS = {
    "slug": "slug",
    "tracking_numbers": "number",
    "origin": "words.origin_country_region",
    "destination": "words.destination_country_region",
    "shipment_tags": "words.shipment_tags",
    "order_id": "words.order_id",
}
"""Where the values stand that a parameter lists."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Page:
    """How much of it, and from where."""

    most: int
    after: Position | None


def filters_of(
    query: Mapping[str, str], account: Account, resolve: Callable[[str], str | None]
) -> Filters:
    """Read filters; `resolve` finds the slug that a name means. Raises Problem."""
    for name in _NOT_OFFERED:
        if query.get(name):
            raise _invalid(name, "it is not offered here as a filter")
    texts = {where: _list(query, name) for name, where in _LISTS.items()}
    if len(texts["number"]) > NUMBERS_MOST:
        raise _invalid("tracking_numbers", f"list {NUMBERS_MOST} at most")
    texts["number"] = [form for each in texts["number"] for form in _forms(each)]
    texts["slug"] = [resolve(each) or each for each in texts["slug"]]
    tags = _list(query, "tag")
    if unknown := [each for each in tags if each not in set(Tag)]:
        raise _invalid("tag", f"{unknown[0][:40]} is none; there are {', '.join(Tag)}")
    if "\0" in (keyword := query.get("keyword", "").strip()):
        raise _invalid("keyword", "leave control characters out")
    return Filters(
        account,
        texts,
        keyword,
        (_instant(query, "created_at_min"), _instant(query, "created_at_max")),
        (_instant(query, "updated_at_min"), _instant(query, "updated_at_max")),
        tags,
        _returning(query),
    )


def page_of(query: Mapping[str, str], account: Account) -> Page:
    """Read how many are wanted, and after which. Raises Problem."""
    text = query.get("limit") or f"{LIMIT}"
    if not (_FEW.fullmatch(text) and int(text) <= LIMIT_MOST):
        raise _invalid("limit", f"write a number from 1 to {LIMIT_MOST}")
    cursor = query.get("cursor")
    return Page(int(text), position_of(cursor, account) if cursor else None)


def fields_of(query: Mapping[str, str]) -> list[str]:
    """Read which members are wanted; none: all."""
    return _list(query, "fields")


def cursor_of(position: Position) -> str:
    """Write a position for a client, who need not read it."""
    ms = (position.created_at - _EPOCH) // dt.timedelta(milliseconds=1)
    written = json.dumps([ms, account_and_id(position.name)[1]], separators=(",", ":"))
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def position_of(cursor: str, account: Account) -> Position:
    """Read a position that `cursor_of` wrote. Raises Problem."""
    try:
        written = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        ms, identity = json.loads(written)
        if type(ms) is int and isinstance(identity, str):
            identity.encode()  # half of a surrogate pair is no text that MongoDB takes
            at = _EPOCH + dt.timedelta(milliseconds=ms)
            return Position(at, operation_id(account, identity))
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        pass
    raise _invalid("cursor", "send next_cursor of the page before")


def _list(query: Mapping[str, str], name: str) -> list[str]:
    return [text for each in query.get(name, "").split(",") if (text := each.strip())]


def _forms(number: str) -> set[str]:
    """Write a number in each form in which it may be stored: some couriers keep hyphens."""
    upper = number.upper()
    return {upper, upper.replace("-", ""), re.sub("[ \t-]", "", upper)}


def _instant(query: Mapping[str, str], name: str) -> dt.datetime | None:
    text = query.get(name)
    if not text:
        return None
    try:
        read = dt.datetime.fromisoformat(_PLUS.sub(r"+\1", text.strip()))
        return (read if read.tzinfo else read.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise _invalid(name, "write YYYY-MM-DDTHH:mm:ssZ") from error


def _returning(query: Mapping[str, str]) -> bool | None:
    asked = set(_list(query, "return_to_sender"))
    if not asked <= {"true", "false"}:
        raise _invalid("return_to_sender", "write true or false")
    return None if len(asked) != 1 else "true" in asked


def _invalid(name: str, why: str) -> Exception:
    return refusal(Code.BAD_VALUE, f"The value of {name} is invalid: {why}.")
