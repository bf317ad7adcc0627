"""Correios' Rastro, the tracking of objects (SRO) in its API for customers with a contract.

What is wrong with a number stands inside a 200, in a sentence that begins with a code. A pair of
event and type says what happened; another event may take the one before it back. Times have no
offset, and Brazil has several.

Correios' manual of its older tracking service, which has the same pairs of event and type, says
what they mean. What it calls delivered to the contracting party, or delivered of a collection,
stands in no table.

Fifty numbers, at most, are asked for in one call, at an address for lists. By Correios' OpenAPI
text the answer has the same form for one and for several: each object with its number, and with
events or the sentence that stands in their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct, field

from couriers.http.credentials import Grant, basic_auth, credentials
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.http.several import Cut, Ends, parser_of, track_each
from couriers.reading import numbers, statuses
from couriers.reading.answer import Answer, decode, text
from couriers.reading.checkpoints import NOWHERE, Place, Scan, history, read_iso, scan, tracking_of
from couriers.reading.countries import country, country_in_portuguese
from tracking.checkpoint import NOT_FOUND_YET, Tag, Tracking
from tracking.errors import InvalidNumber, RequestRefused, WrongNumber
from tracking.request import TrackingRequest

if TYPE_CHECKING:
    from couriers.http.fetch import Fetch

NAME = "Correios (Brazil)"
BASE_URL = "https://api.correios.com.br"
TOKEN_URL = "https://api.correios.com.br/token/v1/autentica/cartaopostagem"  # noqa: S105 - an address
CREDENTIALS: tuple[str, ...] = ("username", "access_code", "posting_card")
CREDENTIALS_FROM = (
    "Correios' API portal (CWS): the user of Meu Correios, its access code, and a posting card "
    "whose contract has the API Rastro; it shows your own objects only"
)
PATTERNS: tuple[numbers.NumberForm, ...] = (numbers.s10("BR"),)
VERIFIED = (
    "the list of events in Correios' manual of its older service, and answers described by users; "
    "never run against the live site"
)

_ROUND_ENDS: dict[statuses.Status, str] = {
    statuses.IN_TRANSIT: "15 22 32 45 53 66",
    statuses.DELIVERED: "00 01 70",
    statuses.AT_NEIGHBOUR: "67",
    statuses.FOR_PICKUP: "24 68",
    statuses.NOBODY_THERE: "02 18 20",
    statuses.BUSINESS_CLOSED: "25",
    statuses.ATTEMPTED: "33 35 46",
    statuses.CUSTOMS_BEGUN: "55 58 59 77",
    statuses.CUSTOMS_DONE: "57",
    statuses.CUSTOMS_DELAY: "40 44 56 81 83",
    statuses.PAYMENT_DUE: "54",
    statuses.FORWARDED: "87",
    statuses.PROBLEM: "03 09 12 29 30 38 39 41 43 47 60 61 69 71 72 73 74 75 76 84 85",
    statuses.REFUSED: "04",
    statuses.WRONG_ADDRESS: "06 07 08 19 34 82",
    statuses.MOVED: "10",
    statuses.PICKUP_MISSED: "26",
    statuses.DAMAGED: "13 28 37 86",
    statuses.LOST: "50 51 52 80 98",
    statuses.RETURNING: "05 14 21 36 42 48 49 62 89",
    statuses.RETURNED: "23",
}
"""The types of BDE, BDI and BDR: how a round of deliveries ended for an object."""

_OTHERS: dict[statuses.Status, str] = {
    statuses.INFO_RECEIVED: "FC-82 CO-02 CO-03 CO-04 CO-05 CO-07",
    statuses.ACCEPTED: "PO-00 PO-01 PO-09 CO-01",
    statuses.ARRIVED: ("CAR-01 CMR-01 CD-00 CD-01 CD-02 CD-03 CMT-00 CUN-00 CUN-01 FC-10 PAR-18"),
    statuses.DEPARTED: "DO-00 DO-01 DO-02 RO-00 RO-01 PMT-01 TRI-00",
    statuses.IN_TRANSIT: "FC-02 FC-05 FC-08 LDI-11 LDI-13",
    # "Received in" a place: the country of destination, not the addressee.
    statuses.ARRIVED_ABROAD: "PAR-15 PAR-16",
    statuses.CUSTOMS_BEGUN: (
        "PAR-12 PAR-14 PAR-21 PAR-22 PAR-27 PAR-32 FC-12 FC-13 FC-19 FC-24 FC-26 FC-27 FC-31 "
        "FC-32 FC-33 FC-34 FC-35 FC-37"
    ),
    statuses.CUSTOMS_DONE: "PAR-10 PAR-19 PAR-28 PAR-31 PAR-34 PAR-42 BDR-31",
    statuses.CUSTOMS_DELAY: "PAR-25 FC-41",
    statuses.PROBLEM_SOLVED: "BLQ-44 BLQ-54 BLQ-61",
    statuses.PAYMENT_DUE: "PAR-11 PAR-17 PAR-30 PAR-33",
    statuses.OUT_FOR_DELIVERY: "OEC-00 OEC-01",
    statuses.FOR_PICKUP: "LDI-00 LDI-01 LDI-02 LDI-03 LDI-04 LDI-14",
    statuses.BUSINESS_CLOSED: "FC-07",
    statuses.WRONG_ADDRESS: "FC-04",
    statuses.REFUSED: "PAR-26",
    statuses.PROBLEM: (
        "BLQ-01 BLQ-02 BLQ-05 BLQ-11 BLQ-21 BLQ-22 BLQ-51 CO-06 CO-09 CO-10 CO-13 FC-03 FC-09 "
        "FC-29 FC-42 PAR-20 PAR-41 BDR-63"
    ),
    statuses.DAMAGED: "FC-11",
    statuses.LOST: "BLQ-31 FC-51 IDC-01 IDC-02 IDC-03 IDC-04 IDC-05 IDC-06 IDC-07",
    # OEC-09 and LDE: the carrier brings it to the sender.
    statuses.RETURNING: "FC-01 FC-47 LDE-00 LDE-09 OEC-09 PAR-13 PAR-23 PAR-24 PAR-40 BDR-64",
}

CODES: dict[str, statuses.Status] = {
    f"{event}-{kind}": status
    for status, kinds in _ROUND_ENDS.items()
    for kind in kinds.split()
    for event in ("BDE", "BDI", "BDR")
} | {code: status for status, codes in _OTHERS.items() for code in codes.split()}
"""`codigo` and `tipo`, as "BDE-01"."""

REVOKES = "EST"
"""`codigo` of "please disregard the previous information"."""

SILENT = frozenset(f"{REVOKES}-{kind}" for kind in ("01", "02", "03", "04", "05", "06", "09"))
"""Events that say nothing of where an object is."""

NOT_YET = frozenset({"SRO-020"})
INVALID = frozenset({"SRO-019", "SRO-009"})
"""How `mensagem` begins: not in the data base (yet); no object, or one of another contract."""

_TOKEN_SECONDS = 1_800.0  # it says when it ends (`expiraEm`), in its own local time
_TO_THE_SENDER = re.compile(r"\bentregue ao remetente\b", re.IGNORECASE)


class _Address(Struct, rename={"city": "cidade", "state": "uf"}):
    city: str | None = None
    state: str | None = None


class _Unit(Struct, rename={"kind": "tipo", "name": "nome", "address": "endereco"}):
    kind: str | None = None
    name: str | None = None
    address: _Address | None = None


class _Person(Struct, rename={"name": "nome"}):
    name: str | None = None


class _Event(Struct):
    event: str | None = field(name="codigo", default=None)
    kind: str | int | None = field(name="tipo", default=None)
    at: str | None = field(name="dtHrCriado", default=None)
    what: str | None = field(name="descricao", default=None)
    unit: _Unit | None = field(name="unidade", default=None)
    receiver: _Person | None = field(name="recebedor", default=None)

    @property
    def code(self) -> str:
        """Its event and type, as the table has them: the type is a number or two digits."""
        kind = text(self.kind)
        return f"{text(self.event) or ''}-{kind:0>2}" if kind else text(self.event) or ""


class _Object(Struct):
    number: str | None = field(name="codObjeto", default=None)
    said: str | None = field(name="mensagem", default=None)
    expected: str | None = field(name="dtPrevista", default=None)
    events: list[_Event] | None = field(name="eventos", default=None)


class _Reply(Struct, rename={"objects": "objetos", "messages": "msgs"}):
    objects: list[_Object] | None = None
    messages: list[str] | None = None


class _Named(Struct):
    number: str | None = field(name="codObjeto", default=None)


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number with all its events."""
    return fetch.read(await _ask(fetch, [request.number]), parse, request.number)


async def track_many(fetch: Fetch, requests: Sequence[TrackingRequest]) -> Ends:
    """Ask for several numbers."""
    return await track_each(fetch, requests, _ask, parse_many)


async def _ask(fetch: Fetch, wanted: Sequence[str]) -> Answer:
    username, code, card = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    named = list(map(numbers.alphanumeric, wanted))
    grant = Grant(
        fetch.settings.token_url,
        json={"numero": card},
        headers={"Authorization": basic_auth(username, code)},
        member="token",
        lifetime=_TOKEN_SECONDS,
    )
    alone = len(named) == 1
    return await fetch.get(
        ["srorastro", "v1", "objetos", *(named if alone else ())],
        query=({} if alone else {"codigosObjetos": named}) | {"resultado": "T"},
        headers={"Accept-Language": "pt-BR"},
        grant=grant,
    )


def parse(status: int, headers: Mapping[str, str], body: bytes, number: str) -> Tracking:
    """Read the object that is ours, or the sentence that stands in its place."""
    refuse(status, headers, body, TELLING)
    reply = decode(body, _Reply)
    objects = reply.objects or []
    ours = next((one for one in objects if (text(one.number) or "").upper() == number), None)
    if ours and ours.events and status == HTTPStatus.OK:
        return _tracking(ours, ours.events)
    if objects and not ours:
        raise WrongNumber(f"asked for {number}, answered about {len(objects)} other objects")
    messages = [ours.said] if ours else reply.messages or []
    said = next((words for each in messages if (words := text(each))), "no reason given")
    code = said.partition(":")[0]
    if code in NOT_YET:
        return NOT_FOUND_YET
    if code in INVALID:
        raise InvalidNumber(said)
    if status == HTTPStatus.BAD_REQUEST and reply.messages:
        raise RequestRefused(said)
    raise unexpected(status, said)


parse_many = parser_of(
    parse,
    Cut(("objetos",), lambda piece: [(text(decode(piece, _Named).number) or "").upper()]),
    TELLING,
)


def _tracking(ours: _Object, listed: Sequence[_Event]) -> Tracking:
    revoked = [False, *(event.event == REVOKES for event in listed[:-1])]
    scans = (_scan(event, back) for event, back in zip(listed, revoked, strict=True))
    past = history(scans, newest_first=True)
    answer = tracking_of(past)
    receivers = [
        text(event.receiver.name)
        for event in listed
        if event.receiver and (known := _known(event)) and known.tag is Tag.DELIVERED
    ]
    return answer._replace(
        expected_delivery=text(ours.expected),
        signed_by=next(filter(None, receivers), None) if answer.delivered_at else None,
        unknown_codes=statuses.unknown_codes((event.code for event in listed), CODES, SILENT),
    )


def _scan(event: _Event, revoked: bool) -> Scan:  # noqa: FBT001 - by the event after it
    known = None if revoked else _known(event)
    return scan(read_iso(event.at or ""), event.what, known, event.code, _place(event.unit))


def _known(event: _Event) -> statuses.Status | None:
    """Read a status by event and type alone: its sentences are in Portuguese."""
    if event.code in SILENT:
        return None
    known = CODES.get(event.code, statuses.IN_TRANSIT)
    back = known.tag is Tag.DELIVERED and _TO_THE_SENDER.search(event.what or "")
    return statuses.RETURNED if back else known


def _place(unit: _Unit | None) -> Place:
    """Read a post's unit; abroad it is a country, by its name in Portuguese."""
    if unit is None:
        return NOWHERE
    address = unit.address or _Address()
    abroad = None if text(address.state) else country_in_portuguese(text(unit.name))
    return Place(
        country("BRA") if text(address.state) else abroad,
        address.city,
        address.state,
        location=unit.kind if text(address.state) else None,
    )
