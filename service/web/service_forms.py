"""Forms that make and change services: what they show, and which wishes they come to.

Only what is another than it was is wished for, so that `audit` says what somebody changed. Secrets
and values of headers are never shown: an empty field leaves them, and a box takes them away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_type_hints

from multidict import MultiMapping

from service.operator.service_wishes import OF_FILTERS, IngestWishes, ServiceWishes
from service.operator.services import BadWish, Handshake, ServiceType
from tracking.checkpoint import Tag

NONE = ".none"
"""Behind the name of a field: the box that takes away what is kept there."""

EVENTS, TAGS = tuple(map(str, OF_FILTERS)), tuple(map(str, Tag))
FORMATS = ("standard", "aftership")
HANDSHAKES = {each.value: each.value or "none" for each in Handshake}

DIGITS_MOST = 15

_INGEST = "ingest."
_OF_ALL = (
    *("destination", "headers", "concurrent", "per_second", "attempts", "timeout_seconds"),
    "ordered",
)
_OF_WEBHOOKS = ("events", "slugs", "tags", "format")
_OF_RELAYS = (
    *("handshake", "verify_token", "status", "body", "per_second", "bytes_per_second"),
    "dedupe_header",
)
_OF_COURIERS = ("courier", "push_secret")

_WHOLE = frozenset({"concurrent", "per_second", "attempts", "status", "bytes_per_second"})
_LISTS = frozenset({"events", "slugs", "tags"})
_SECRET = frozenset({"verify_token", "push_secret"})


class Asked(NamedTuple):
    """What a form comes to: `wishes` by their names, and what is `wrong` with its fields."""

    wishes: dict[str, Any]
    wrong: dict[str, str]


def names_of(kind: ServiceType) -> tuple[str, ...]:
    """Name the fields of a form; those of `ingest` begin so."""
    if kind is ServiceType.WEBHOOK:
        return (*_OF_ALL, *_OF_WEBHOOKS)
    ingest = (*(_OF_COURIERS if kind is ServiceType.COURIER else ()), *_OF_RELAYS)
    return (*_OF_ALL, *(f"{_INGEST}{each}" for each in ingest))


def shown_in(members: Mapping[str, Any]) -> dict[str, Any]:
    """Fill a form with what is set of a service."""
    shown = {}
    for name in names_of(ServiceType(members["type"])):
        value = _member(members, name)
        if name == "headers" or _plain(name) in _SECRET:
            value = ""
        elif name == "slugs":
            value = " ".join(value)
        elif isinstance(value, float):
            value = f"{value:g}"
        shown[name] = value
    return shown


def asked_in(form: MultiMapping[Any], members: Mapping[str, Any]) -> Asked:
    """Read what a form wishes of a service that is as its members say."""
    wishes, ingest, wrong = dict[str, Any](), dict[str, Any](), dict[str, str]()
    shown = shown_in(members)
    for name in shown:
        try:
            value = _read(form, name)
        except ValueError as error:
            wrong[name] = f"{error}"
            continue
        now = value if value is None else _member(members, name)
        if value is None or (value == now and name != "headers"):
            continue
        (ingest if name.startswith(_INGEST) else wishes)[_plain(name)] = value
    return Asked(wishes | ({"ingest": ingest} if ingest else {}), wrong)


def typed_in(form: MultiMapping[Any], kind: ServiceType) -> dict[str, Any]:
    """Take what was typed, to show the form again; no secret and no header's value is sent back."""
    typed = dict[str, Any]()
    for name in names_of(kind):
        if name in {"events", "tags"}:
            typed[name] = form.getall(name, [])
        elif name == "ordered":
            typed[name] = name in form
        else:
            typed[name] = "" if _plain(name) in _SECRET else f"{form.get(name, '')}"
    return typed


def wrong_in(error: BadWish) -> dict[str, str]:
    """Say what is wrong with a field."""
    return {error.parameter: f"{error}".removeprefix(f"{error.parameter}: ")}


def says(name: str) -> str:
    """Say what a field means, in the words of the API."""
    struct = IngestWishes if name.startswith(_INGEST) else ServiceWishes
    meta = get_type_hints(struct, include_extras=True)[_plain(name)].__metadata__
    return next(str(each.description) for each in meta if each.description)


def _member(members: Mapping[str, Any], name: str) -> Any:
    kept = members["ingest"] or {} if name.startswith(_INGEST) else members
    return kept[_plain(name)]


def _plain(name: str) -> str:
    return name.removeprefix(_INGEST)


def _read(form: MultiMapping[Any], name: str) -> Any:
    """Read a field; None where it leaves what is kept. Raises ValueError."""
    plain, text = _plain(name), f"{form.get(name, '')}"
    if name == "ordered":
        return name in form
    if plain in _LISTS:
        given: Iterable[str] = form.getall(name, [])
        return sorted(set(text.replace(",", " ").split() if name == "slugs" else given))
    if name == "headers" or plain in _SECRET:
        nothing: Any = {} if name == "headers" else ""
        kept = _headers(text) if name == "headers" else text
        return nothing if f"{name}{NONE}" in form else kept or None
    return text if plain == "body" else _one(plain, text.strip())


def _one(plain: str, text: str) -> str | float:
    if plain == "timeout_seconds":
        return float(text)
    is_whole = plain in _WHOLE and text.isascii() and text.isdigit()
    return int(text[:DIGITS_MOST]) if is_whole else text


def _headers(text: str) -> dict[str, str]:
    headers = {}
    for line in filter(str.strip, text.splitlines()):
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError("write each as Name: value, one a line")
        headers[name.strip()] = value.strip()
    return headers
