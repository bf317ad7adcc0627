"""Correios' Rastro, the tracking of objects (SRO) in its API for customers with a contract.

What is wrong with a number stands inside a 200, in a sentence that begins with a code. A pair of
event and type says what happened; another event may take the one before it back. Times have no
offset, and Brazil has several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct, field

from couriers.brazil_correios.codes import CODES, REVOKES, SILENT
from couriers.http.refusals import TELLING, refuse, unexpected
from couriers.http.settings import Grant, basic_auth, credentials
from couriers.reading import numbers, statuses, times
from couriers.reading.answer import decode, text
from couriers.reading.checkpoints import NOWHERE, Place, Scan, history, scan, tracking_of
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
ASKS = "`GET /srorastro/v1/objetos/N?resultado=T`"
AUTH = "a token for a posting card (Basic, JSON)"
CREDENTIALS_FROM = (
    "Correios' API portal (CWS): the user of Meu Correios, its access code, and a posting card "
    "whose contract has the API Rastro; it shows your own objects only"
)
REQUIRED_FIELDS: tuple[str, ...] = ()
PATTERNS: tuple[numbers.NumberForm, ...] = (numbers.s10("BR"),)
QUOTA = "50 calls a second by contract (its answers tell, reported by users)"
VERIFIED = (
    "the list of events in Correios' manual of its older service, and answers described by users; "
    "never run against the live site"
)

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


async def track(fetch: Fetch, request: TrackingRequest) -> Tracking:
    """Ask for one number with all its events, although the service takes fifty."""
    username, code, card = credentials(fetch.settings, CREDENTIALS, CREDENTIALS_FROM)
    number = numbers.alphanumeric(request.number)
    grant = Grant(
        fetch.settings.token_url,
        json={"numero": card},
        headers={"Authorization": basic_auth(username, code)},
        member="token",
        lifetime=_TOKEN_SECONDS,
    )
    answer = await fetch.get(
        ["srorastro", "v1", "objetos", number],
        query={"resultado": "T"},
        headers={"Accept-Language": "pt-BR"},
        grant=grant,
    )
    return fetch.read(answer, parse, number)


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
    return scan(times.read_iso(event.at or ""), event.what, known, event.code, _place(event.unit))


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
