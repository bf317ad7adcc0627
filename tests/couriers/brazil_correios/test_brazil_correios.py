"""Correios' Rastro. The answers are written after those that its users describe."""

from __future__ import annotations

import json

import pytest
from aiohttp import encode_basic_auth, web
from loopback import Courier, FetchFor, RecordingPermit

from couriers import brazil_correios
from couriers.brazil_correios.codes import CODES, SILENT
from tracking.checkpoint import Tag, Tracking
from tracking.errors import (
    AuthFailed,
    CourierDown,
    CourierError,
    InvalidNumber,
    NoCredentials,
    RateLimited,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "QP000000018BR"

Json = dict[str, object]


def event(at: str, code: str, what: str = "", **more: object) -> Json:
    kind, _, number = code.partition("-")
    unit = {
        "codSro": "00000000",
        "tipo": "Unidade de Distribuição",
        "endereco": {"cidade": "COLOMBO", "uf": "PR"},
    }
    told: Json = {"codigo": kind, "tipo": number, "dtHrCriado": at, "descricao": what}
    return told | {"unidade": unit} | more


POSTED = event("2026-01-19T17:45:00", "PO-01", "Objeto postado")
MOVING = event("2026-01-20T01:30:00", "RO-01", "Objeto em transferência - por favor aguarde")
LOADED = event("2026-01-20T08:15:00", "OEC-01", "Objeto saiu para entrega ao destinatário")
WAITING = event("2026-01-20T12:00:00", "LDI-01", "Objeto aguardando retirada")
DELIVERED = event(
    "2026-01-20T14:19:00",
    "BDE-01",
    "Objeto entregue ao destinatário",
    recebedor={"nome": "Uma Pessoa"},
)
REVOKED = event("2026-01-20T15:00:00", "EST-01", "Favor desconsiderar a informação anterior")


def reply(*events: Json, number: str = NUMBER, **more: object) -> Json:
    found = {
        "codObjeto": number,
        "tipoPostal": {"sigla": "QP", "categoria": "ENCOMENDA PAC"},
        "dtPrevista": "2026-01-21T20:59:59",
        "eventos": list(events),
        **more,
    }
    return {"versao": "3.5.38", "quantidade": 1, "objetos": [found], "resultado": "Todos"}


def sentence(words: str) -> Json:
    return {"quantidade": 1, "objetos": [{"codObjeto": NUMBER, "mensagem": words}]}


def refusal(words: str) -> Json:
    return {"msgs": [words], "path": "/srorastro/v1/objetos"}


def parse(body: object, status: int = 200) -> Tracking:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return brazil_correios.parse(status, {}, data, NUMBER)


def test_a_delivered_object() -> None:
    told = parse(reply(DELIVERED, LOADED, MOVING, POSTED))

    assert (told.tag, told.subtag) == (Tag.DELIVERED, "Delivered_001")
    assert (told.delivered_at, told.delivered_at_utc) == ("2026-01-20T14:19:00", None)
    assert (told.signed_by, told.expected_delivery) == ("Uma Pessoa", "2026-01-21T20:59:59")
    first = told.checkpoints[0]
    assert (first.raw_tag, first.tag, first.subtag) == ("PO-01", Tag.IN_TRANSIT, "InTransit_002")
    assert (first.city, first.state, first.country_iso3) == ("COLOMBO", "PR", "BRA")
    assert (first.location, first.checkpoint_offset) == ("Unidade de Distribuição", None)


@pytest.mark.parametrize(
    ("newest", "tag"),
    [(MOVING, Tag.IN_TRANSIT), (LOADED, Tag.OUT_FOR_DELIVERY), (WAITING, Tag.AVAILABLE_FOR_PICKUP)],
)
def test_an_object_under_way(newest: Json, tag: Tag) -> None:
    assert parse(reply(newest, POSTED)).tag is tag


@pytest.mark.parametrize(
    ("code", "subtag"),
    [
        ("FC-82", "InfoReceived_001"),
        ("BDE-20", "AttemptFail_002"),
        ("BDI-25", "AttemptFail_003"),
        ("BDE-04", "Exception_003"),
        ("BDE-10", "Exception_002"),
        ("BDE-26", "Exception_008"),
        ("BDE-28", "Exception_012"),
        ("BDE-80", "Exception_013"),
        ("BDE-67", "Delivered_005"),
        ("PAR-15", "InTransit_004"),
        ("PAR-11", "Exception_006"),
        ("PAR-17", "Exception_006"),
        ("PAR-31", "InTransit_005"),
        # The carrier has not set out; it waits to be scrapped; it was freed.
        ("BDE-30", "Exception_001"),
        ("BDR-47", "Exception_001"),
        # No paper was shown; the customs' refusal may lead to a return, and is none yet.
        ("BDE-33", "AttemptFail_001"),
        ("BDE-40", "Exception_004"),
        ("BDE-56", "Exception_004"),
        ("BDI-60", "Exception_001"),
        ("BDE-82", "Exception_007"),
        ("BDR-63", "Exception_001"),
        ("BLQ-61", "InTransit_008"),
        ("OEC-09", "Exception_010"),
        ("BDE-23", "Exception_011"),
    ],
)
def test_what_its_codes_mean(code: str, subtag: str) -> None:
    told = parse(reply(event("2026-01-20T12:00:00", code), POSTED))

    assert (told.subtag, told.unknown_codes) == (subtag, ())


def test_a_type_is_a_number_or_two_digits() -> None:
    as_number = event("2026-01-20T12:00:00", "BDE") | {"tipo": 1}

    assert parse(reply(as_number)).checkpoints[0].raw_tag == "BDE-01"
    assert parse(reply(as_number)).delivered


def test_what_the_sender_got_back_is_a_return_whatever_its_code() -> None:
    back = event("2026-01-22T14:40:30", "BDI-01", "Objeto entregue ao remetente")
    told = parse(reply(back, LOADED))

    assert (told.subtag, told.active, told.delivered_at) == ("Exception_011", False, None)


def test_an_event_takes_the_one_before_it_back() -> None:
    told = parse(reply(REVOKED, DELIVERED, LOADED))

    assert (told.tag, told.signed_by, told.delivered_at) == (Tag.OUT_FOR_DELIVERY, None, None)
    assert {point.tag for point in told.checkpoints} == {Tag.IN_TRANSIT, Tag.OUT_FOR_DELIVERY}
    assert parse(reply(DELIVERED, REVOKED, LOADED)).delivered


def test_a_code_that_nobody_knows_is_in_transit_whatever_it_says() -> None:
    told = parse(reply(event("2026-01-20T12:00:00", "BDE-79", "Objeto entregue"), POSTED))

    assert (told.tag, told.unknown_codes) == (Tag.IN_TRANSIT, ("BDE-79",))


@pytest.mark.parametrize(
    ("name", "iso3"),
    [
        ("CHINA", "CHN"),
        ("ESTADOS UNIDOS", "USA"),
        ("Reino Unido", "GBR"),
        ("PAISES BAIXOS", "NLD"),
        ("Países Baixos", "NLD"),
        ("HOLANDA", "NLD"),
        ("JAPÃO", "JPN"),
        ("ALEMANHA", "DEU"),
        ("CORÉIA DO SUL", "KOR"),
        ("COREIA DO SUL", "KOR"),
        ("SINGAPURA", "SGP"),
        ("Suecia", "SWE"),
        ("TAIWAN", "TWN"),
        ("RÚSSIA", "RUS"),
        ("HONG KONG", "HKG"),
        ("Unidade Internacional", None),
    ],
)
def test_an_event_abroad_names_its_country(name: str, iso3: str | None) -> None:
    abroad = {"tipo": "País", "nome": name, "endereco": {}}
    [point] = parse(reply(event("2026-01-20T12:00:00", "PO-01", unidade=abroad))).checkpoints

    assert (point.country_iso3, point.state, point.location) == (iso3, None, None)


def test_a_country_has_one_name_in_whatever_language_it_was_said() -> None:
    abroad = {"tipo": "País", "nome": "JAPÃO", "endereco": {}}
    [point] = parse(reply(event("2026-01-20T12:00:00", "PO-01", unidade=abroad))).checkpoints

    assert point.country_name == "Japan"


def test_an_unknown_number_may_become_known() -> None:
    told = parse(sentence("SRO-020: Objeto não encontrado na base de dados dos Correios."))

    assert (told.tag, told.checkpoints) == (Tag.PENDING, ())


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, sentence("SRO-019: Objeto inválido"), InvalidNumber),
        (200, sentence("SRO-009: Objeto não pertence ao contrato"), InvalidNumber),
        (400, refusal("SRO-018: Permitido apenas os valores pt-BR"), RequestRefused),
        (401, b"", AuthFailed),
        (403, refusal("Token inválido ou expirado"), AuthFailed),
        (429, b"", RateLimited),
        (503, refusal("Serviço indisponível"), CourierDown),
        (404, refusal("Rota não encontrada"), UnreadableAnswer),
        (200, sentence("SRO-999: Nova mensagem"), UnreadableAnswer),
        (200, b"<html>", UnreadableAnswer),
        (200, {}, UnreadableAnswer),
        (200, {"objetos": []}, UnreadableAnswer),
        (200, reply(), UnreadableAnswer),
        (200, reply(event("20/01/2026 14:19", "BDE-01")), UnreadableAnswer),
        (200, reply(DELIVERED, number="QP000000021BR"), WrongNumber),
    ],
)
def test_what_is_no_answer(status: int, body: object, error: type[CourierError]) -> None:
    with pytest.raises(error) as failed:
        parse(body, status)

    assert type(failed.value) is error


def test_only_the_end_of_a_round_means_delivered() -> None:
    delivered = {code for code, status in CODES.items() if status.tag is Tag.DELIVERED}

    kinds = ("00", "01", "70", "67")
    assert delivered == {f"{event}-{kind}" for event in ("BDE", "BDI", "BDR") for kind in kinds}
    assert not SILENT & CODES.keys()


REQUEST = TrackingRequest(Slug("brazil-correios"), Number(NUMBER), NUMBER)
KEYS = {"username": "the-user", "access_code": "the-code", "posting_card": "0000000001"}


async def test_it_is_asked_with_a_token_for_the_posting_card(
    courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[tuple[str, str | None, str | None]] = []

    async def site(request: web.BaseRequest) -> web.Response:
        names = ("Authorization", "Accept-Language")
        asked.append((request.path_qs, *(request.headers.get(name) for name in names)))
        if request.method == "POST":
            assert await request.json() == {"numero": "0000000001"}
            token = {"token": "the-token", "expiraEm": "2026-01-21T14:19:00"}
            return web.json_response(token, status=201)
        return web.json_response(reply(DELIVERED))

    fetch = fetch_for(await courier(site), slug="brazil-correios", credentials=KEYS)
    told = await brazil_correios.track(fetch, REQUEST)

    assert told.delivered
    path = f"/srorastro/v1/objetos/{NUMBER}?resultado=T"
    basic = encode_basic_auth("the-user", "the-code")
    assert asked == [("/token", basic, None), (path, "Bearer the-token", "pt-BR")]
    assert permit.steps == ["before_send", "after_send"]


async def test_without_credentials_nothing_is_asked(fetch_for: FetchFor) -> None:
    fetch = fetch_for("http://127.0.0.1:1", slug="brazil-correios", credentials={})
    with pytest.raises(NoCredentials, match="TRACKER_COURIERS__BRAZIL_CORREIOS__POSTING_CARD"):
        await brazil_correios.track(fetch, REQUEST)
