"""Countries: couriers mix two-letter codes, three-letter codes and names of their own."""

from __future__ import annotations

import functools
import gettext
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass


def _by_name(names: Mapping[str, str]) -> dict[str, str]:
    return {name: code for code, each in names.items() for name in each.split("; ")}


ALIASES = _by_name(
    {
        "ARE": "UAE",
        "BRN": "BRUNEI",
        "CHN": "CHINA MAINLAND; CHINA, PEOPLES REPUBLIC; MAINLAND CHINA",
        "CIV": "COTE D'IVOIRE; IVORY COAST",
        "CPV": "CAPE VERDE",
        "GBR": "BRITAIN; ENGLAND; GREAT BRITAIN; GREAT BRITAIN AND NORTHERN IRELAND; "
        "NORTHERN IRELAND; SCOTLAND; UK; WALES",
        "HKG": "HONG KONG SAR; HONG KONG SAR, CHINA; HONG KONG, CHINA; HONGKONG",
        "IRL": "IRELAND, REPUBLIC OF",
        "KOR": "KOREA; KOREA, SOUTH",
        "MAC": "MACAU",
        "MKD": "MACEDONIA",
        "NLD": "HOLLAND; THE NETHERLANDS",
        "PSE": "PALESTINE",
        "RUS": "RUSSIA",
        "SWZ": "SWAZILAND",
        "TUR": "TURKEY",
        "VAT": "VATICAN",
    }
)
"""Names that couriers write and ISO 3166 does not know, in upper case."""

_IN_PORTUGUESE = _by_name(
    {
        "CHN": "REPUBLICA POPULAR DA CHINA",
        "CZE": "REPUBLICA TCHECA; TCHEQUIA",
        "GBR": "GRA BRETANHA; INGLATERRA",
        "IRN": "IRA",
        "KOR": "COREIA DO SUL; REPUBLICA DA COREIA",
        "MDA": "MOLDAVIA",
        "MKD": "MACEDONIA",
        "NLD": "HOLANDA",
        "PSE": "PALESTINA",
        "RUS": "RUSSIA",
        "SGP": "SINGAPURA",
        "SVK": "ESLOVAQUIA REPUBLICA",
        "SYR": "SIRIA",
        "TZA": "TANZANIA",
        "USA": "ESTADOS UNIDOS DA AMERICA; EUA",
        "VAT": "VATICANO",
        "VNM": "VIETNAME",
    }
)
"""Names that ISO 3166 does not have in Brazil's Portuguese, in capitals without accents."""

_KOSOVO = {"XKX", "XK", "KOSOVO", "REPUBLIC OF KOSOVO"}
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
    if words.upper() in _KOSOVO:
        return Country("Kosovo", "XKX")
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
