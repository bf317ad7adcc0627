"""Answers as this courier might give them, for the tests that run over every module."""

from __future__ import annotations

from parser_subject import NUMBER, Event, Subject, coded

from couriers import brazil_correios


def answer(events: list[Event]) -> object:
    listed = []
    for at, what, code in events:
        event, _, kind = code.partition("-")
        listed.append({"codigo": event, "tipo": kind, "descricao": what, "dtHrCriado": at})
    return {"objetos": [{"codObjeto": NUMBER, "eventos": listed}]}


SUBJECT = Subject(
    brazil_correios,
    answer,
    coded("BDE-01", "BDI-67"),
    ("BDE-01", "BDI-67", "BDE-23", "RO-01", ""),
    in_english=False,
)
