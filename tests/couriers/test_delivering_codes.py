"""Which of each courier's codes and sentences end a parcel's journey; none of them by accident."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from parser_subjects import NUMBER, SUBJECTS

from couriers.bpost import SENTENCES
from couriers.dhl_germany import REASONS as DHL_GERMANY_REASONS
from couriers.hermes_de import EVENTS, OLD, OLD_EVENTS, SILENT
from couriers.registry import COURIERS
from tracking.checkpoint import Tag

CANADIAN = [1408, 1409, *range(1421, 1435), 1441, 1442, *range(1496, 1500)]
"""Of the guide; those that follow are of the table."""
CANADIAN += [1406, 1461, 1462, 1463, *range(1465, 1470), 1471, 1472, 1473, 1475, 1476, 5300]

POSTNL = "I01 I02 I03 I05 I09 I10 I11 I12 I22 I23 J91 Z01 Z02 Z03 Z04 Z05 Z06 Z08 Z09"

DELIVERING = {
    "australia_post.STATUSES": {"delivered", "delivered in full"},
    "australia_post.SENTENCES": {
        "delivered",
        "delivered in full",
        "delivered - left in a safe place",
    },
    "bpost.CODES": {f"U0{number}" for number in range(9)},
    "brazil_correios.CODES": {
        f"{event}-{kind}" for event in ("BDE", "BDI", "BDR") for kind in ("00", "01", "70", "67")
    },
    "bring.CODES": {"DELIVERED"},
    "canada_post.CODES": {str(code) for code in CANADIAN},
    "chronopost_france.CODES": {"D", "D1", "D2", "D3", "D4", "D5"},
    "dhl.express.CODES": {"OK", "DD"},
    "dhl_germany.EVENTS": {"DLVRD"},
    "dpd.STEPS": {"delivered"},
    "fedex.CODES": {"DL"},
    "gls.STATUSES": {"DELIVERED"},
    "gls.CODES": {"DELIVD.NORMAL", "DELIVD.POD", "DELIVD.NO POD", "DELIVD.DEL_BY_PSAPP"},
    "hermes_de.EVENTS": {"090"},
    "hermes_de.REASONS": {"090003"},
    "inpost_paczkomaty.CODES": {"delivered"},
    "la_poste_colissimo.CODES": {"DI0", "DI1"},
    "new_zealand_post.CODES": {"22"},
    "postnl.STATUSES": {"11", "22"},
    "postnl.EVENTS": {*POSTNL.split()},
    "postnord.CODES": {"DELIVERED"},
    "purolator.CODES": {"Delivery"},
    "royal_mail.CODES": {"EVKOP", "EVKSF", "EVKSP", "EVPLC"},
    "ups.STATUS_CODES": {"011", "026"},
    "ups.TYPES": {"D"},
    "usps.EVENTS": {"01", "43"},
    "usps.CATEGORIES": {"delivered"},
}

SILENCED = {
    "australia_post.STATUSES": "SILENT",
    "brazil_correios.CODES": "SILENT",
    "bring.CODES": "SILENT",
    "canada_post.CODES": "SILENT",
    "chronopost_france.CODES": "SILENT",
    "dhl.express.CODES": "SILENT",
    "dhl_germany.EVENTS": "SILENT",
    "dhl_germany.STANDARD": "SILENT_STANDARD",
    "dhl_germany.REASONS": "SILENT_REASONS",
    "gls.STATUSES": "SILENT",
    "hermes_de.EVENTS": "SILENT",
    "inpost_paczkomaty.CODES": "SILENT",
    "la_poste_colissimo.CODES": "SILENT",
    "new_zealand_post.CODES": "SILENT",
    "postnl.EVENTS": "SILENT",
    "postnord.CODES": "SILENT",
    "ups.STATUS_CODES": "SILENT",
}
"""Tables, and beside each the codes of notices, which no table of meanings may hold."""

WITHOUT_A_TABLE = {"dpd-uk", "hong-kong-post"}


def table(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"couriers.{module}"), name)


@pytest.mark.parametrize("path", DELIVERING)
def test_only_these_codes_mean_delivered(path: str) -> None:
    delivered = {code for code, status in table(path).items() if status.tag is Tag.DELIVERED}

    assert delivered == DELIVERING[path]


@pytest.mark.parametrize("path", SILENCED)
def test_no_code_has_a_meaning_and_is_a_notice_too(path: str) -> None:
    silent = table(f"{path.rpartition('.')[0]}.{SILENCED[path]}")

    assert not silent & table(path).keys()


NO_CODES_OF_EVENTS = {
    "australia_post.STATUSES",
    "dhl_germany.REASONS",
    "dhl_germany.STANDARD",
    "gls.STATUSES",
    "hermes_de.EVENTS",
}
"""Of these the notices are sentences, parts of codes, or statuses of a parcel."""


@pytest.mark.parametrize("path", sorted(SILENCED.keys() - NO_CODES_OF_EVENTS))
def test_a_notice_after_a_delivery_does_not_undo_it(path: str) -> None:
    # Of two ways to ask a courier the second one is the one with a table.
    *_, subject = (
        one for one in SUBJECTS if f"couriers.{path}".startswith(f"{one.module.__name__}.")
    )
    end = next(code for code in subject.codes if subject.delivered(("", "Delivered", code)))

    for code in table(f"{path.rpartition('.')[0]}.{SILENCED[path]}"):
        events = [
            ("2026-01-05T08:15:00", "Delivered", end),
            ("2026-01-05T09:15:00", "Departed from facility", code),
        ]
        told = subject.module.parse(200, {}, subject.encode(subject.answer(events)), NUMBER)
        assert (told.delivered, told.unknown_codes) == (True, ()), code


def test_every_courier_with_a_table_is_listed() -> None:
    listed = {path.partition(".")[0].replace("_", "-") for path in DELIVERING}

    assert listed == set(COURIERS) - WITHOUT_A_TABLE


def test_no_sentence_of_bpost_means_delivered() -> None:
    assert Tag.DELIVERED not in {status.tag for status in SENTENCES.values()}


def test_every_reason_of_dhl_paket_belongs_to_one_of_its_events() -> None:
    assert {code.partition("-")[0] for code in DHL_GERMANY_REASONS} <= table(
        "dhl_germany.EVENTS"
    ).keys()


def test_every_older_code_of_hermes_is_one_of_the_new_ones() -> None:
    named = {*OLD_EVENTS.values(), *OLD.values()}

    assert {code[:3] for code in named} <= EVENTS.keys() | SILENT
