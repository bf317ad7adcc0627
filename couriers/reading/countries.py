"""Countries: couriers mix two-letter codes, three-letter codes and names of their own."""

from __future__ import annotations

import functools
import gettext
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

ALIASES = {
    "BOLIVIA": "BOL",
    "BRITAIN": "GBR",
    "BRUNEI": "BRN",
    "CAPE VERDE": "CPV",
    "CHINA MAINLAND": "CHN",
    "CHINA, PEOPLES REPUBLIC": "CHN",
    "COTE D'IVOIRE": "CIV",
    "CZECH REPUBLIC": "CZE",
    "ENGLAND": "GBR",
    "GREAT BRITAIN": "GBR",
    "GREAT BRITAIN AND NORTHERN IRELAND": "GBR",
    "HOLLAND": "NLD",
    "HONG KONG SAR": "HKG",
    "HONG KONG SAR, CHINA": "HKG",
    "HONG KONG, CHINA": "HKG",
    "HONGKONG": "HKG",
    "IRAN": "IRN",
    "IRELAND, REPUBLIC OF": "IRL",
    "IVORY COAST": "CIV",
    "KOREA": "KOR",
    "KOREA, SOUTH": "KOR",
    "LAOS": "LAO",
    "MACAU": "MAC",
    "MACEDONIA": "MKD",
    "MAINLAND CHINA": "CHN",
    "MOLDOVA": "MDA",
    "NETHERLANDS": "NLD",
    "NORTHERN IRELAND": "GBR",
    "PALESTINE": "PSE",
    "RUSSIA": "RUS",
    "SCOTLAND": "GBR",
    "SOUTH KOREA": "KOR",
    "SWAZILAND": "SWZ",
    "SYRIA": "SYR",
    "TAIWAN": "TWN",
    "TANZANIA": "TZA",
    "THE NETHERLANDS": "NLD",
    "TURKEY": "TUR",
    "UAE": "ARE",
    "UK": "GBR",
    "UNITED KINGDOM OF GREAT BRITAIN AND NORTHERN IRELAND": "GBR",
    "UNITED STATES OF AMERICA": "USA",
    "USA": "USA",
    "VATICAN": "VAT",
    "VENEZUELA": "VEN",
    "VIETNAM": "VNM",
    "WALES": "GBR",
}
"""Names that couriers write and ISO 3166 does not know, in upper case."""

_IN_PORTUGUESE = {
    "COREIA DO SUL": "KOR",
    "ESLOVAQUIA REPUBLICA": "SVK",
    "ESTADOS UNIDOS DA AMERICA": "USA",
    "EUA": "USA",
    "GRA BRETANHA": "GBR",
    "HOLANDA": "NLD",
    "INGLATERRA": "GBR",
    "IRA": "IRN",
    "KOSOVO": "XKX",
    "LAOS": "LAO",
    "MACEDONIA": "MKD",
    "MOLDAVIA": "MDA",
    "MOLDOVA": "MDA",
    "PALESTINA": "PSE",
    "POLONIA": "POL",
    "REPUBLICA DA COREIA": "KOR",
    "REPUBLICA POPULAR DA CHINA": "CHN",
    "REPUBLICA TCHECA": "CZE",
    "RUSSIA": "RUS",
    "SINGAPURA": "SGP",
    "SIRIA": "SYR",
    "TAIWAN": "TWN",
    "TANZANIA": "TZA",
    "TCHEQUIA": "CZE",
    "VATICANO": "VAT",
    "VENEZUELA": "VEN",
    "VIETNA": "VNM",
    "VIETNAME": "VNM",
}
"""Names that ISO 3166 does not have in Brazil's Portuguese, in capitals without accents."""

_OWN = {"XKX": "Kosovo", "XK": "Kosovo", "KOSOVO": "Kosovo", "REPUBLIC OF KOSOVO": "Kosovo"}
"""Kosovo has no ISO 3166 code; XKX is what the European Union and most couriers use."""


@dataclass(frozen=True, slots=True)
class Country:
    """A country as results show it; `iso3` is None for a name that is no country we know."""

    name: str
    iso3: str | None


@functools.lru_cache(maxsize=4096)
def country(text: str | None) -> Country | None:
    """Recognise a code or a name; None for nothing.

    An unknown text is kept as the name, without a code: it is what the courier said.
    """
    words = " ".join((text or "").split())
    if not words:
        return None
    if words.upper() in _OWN:
        return Country(_OWN[words.upper()], "XKX")
    # Slow to import, and needed by no command but a worker's.
    import pycountry  # noqa: PLC0415 - see above

    code = ALIASES.get(words.upper(), words)
    known = pycountry.countries
    found = (
        known.get(alpha_3=code)
        or known.get(alpha_2=code)
        or known.get(name=code)
        or known.get(common_name=code)
        or known.get(official_name=code)
    )
    if found is None:
        return Country(words, None)
    return Country(getattr(found, "common_name", found.name), found.alpha_3)


def country_in_portuguese(text: str | None) -> Country | None:
    """Recognise a country by its name in Portuguese, accents or not, else as `country` does."""
    return country(_portuguese().get(_plain(text or ""), text))


@functools.cache
def _portuguese() -> Mapping[str, str]:
    import pycountry  # noqa: PLC0415 - as above

    locales = pycountry.LOCALES_DIR
    translated = gettext.translation("iso3166-1", locales, languages=["pt_BR"], fallback=True)
    named = {_plain(translated.gettext(each.name)): each.alpha_3 for each in pycountry.countries}
    return named | _IN_PORTUGUESE


def _plain(name: str) -> str:
    """Write a name in capitals without accents: it is found with and without them."""
    apart = unicodedata.normalize("NFD", name.upper().replace("-", " "))
    return " ".join("".join(each for each in apart if not unicodedata.combining(each)).split())
