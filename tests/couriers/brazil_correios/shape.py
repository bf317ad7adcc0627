"""Correios' Rastro, after answers described by its users.

====== ===================================================== ==========================
method path                                                  an unknown number
====== ===================================================== ==========================
POST   /brazil-correios/token/v1/autentica/cartaopostagem    --
GET    /brazil-correios/srorastro/v1/objetos/N?resultado=T   200 with SRO-020 inside
GET    /brazil-correios/srorastro/v1/objetos?codigosObjetos= the same, for each of several
====== ===================================================== ==========================
"""

from __future__ import annotations

from dataclasses import replace

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode, give_token, needs_token
from devstack.site.shapes.several import several

SLUG = "brazil-correios"
TOKEN = ("token", "v1", "autentica", "cartaopostagem")
CODES = {
    "Shipping label created": ("FC", "82"),
    "Accepted at the post office": ("PO", "01"),
    "Arrived at the sorting centre": ("CMR", "01"),
    "Out for delivery": ("OEC", "01"),
    "Delivered, front door": ("BDE", "01"),
    "Incorrect address": ("BDE", "07"),
}


def read(asked: Asked) -> Reply | None:
    """Answer one request to Correios."""
    match asked.method, asked.parts:
        case "POST", parts if parts == TOKEN:
            given = give_token(SLUG)
            renamed = given.body.replace(b"access_token", b"token")
            return replace(given, status=201, body=renamed)
        case "GET", ("srorastro", "v1", "objetos", number):
            return needs_token(SLUG, asked, number) or _one(number)
        case "GET", ("srorastro", "v1", "objetos"):
            numbers = asked.each("codigosObjetos") or [""]
            return needs_token(SLUG, asked, numbers[0]) or several(numbers, _one, "objetos")
    return None


def _answer(number: str, **more: object) -> bytes:
    found = {"codObjeto": number, **more}
    return encode({"versao": "3.5.38", "quantidade": 1, "objetos": [found]})


def _one(number: str) -> Reply:
    unknown = (200, _answer(number, mensagem="SRO-020: Objeto não encontrado"))
    if not parcel.known(number):
        return Reply(SLUG, number, *unknown, unknown=unknown)
    events = [_event(scan) for scan in reversed(parcel.scans(number))]
    return Reply(SLUG, number, 200, _answer(number, eventos=events), unknown=unknown)


def _event(scan: parcel.Scan) -> dict[str, object]:
    event, kind = CODES[scan.message]
    return {
        "codigo": event,
        "tipo": kind,
        "dtHrCriado": scan.at.isoformat(),
        "descricao": scan.message,
        "unidade": {"tipo": "Unidade", "endereco": {"cidade": scan.city, "uf": "SP"}},
    }


FAILURES = forms(
    Form(403, {"msgs": ["Token inválido ou expirado"]}),
    Form(429, ""),
    Form(503, {"msgs": ["Serviço indisponível"]}),
    Form(200, {"objetos": [{"codObjeto": "{N}", "mensagem": "SRO-019: Objeto inválido"}]}),
)

PROBLEM = "Exception_007"
"""Subtag of "the address is wrong", as finely as the courier tells it."""
