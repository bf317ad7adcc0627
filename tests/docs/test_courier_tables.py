"""The tables of couriers say what the modules say."""

from __future__ import annotations

import re

import pytest
from courier_tables import EVERY, ROOT, TABLES, made, needed

from couriers import bring, dpd_uk, usps
from couriers.pushes import NO_NUMBER, NO_SECRET, NOT_BUILT, NOT_VERIFIED, PUSHES, UNREADABLE
from couriers.registry import COURIERS, required_fields
from service.worker.deliveries.pushes import NO_KEY, NOT_FOLLOWED


@pytest.mark.parametrize("file", TABLES)
def test_the_tables_of_a_page_are_those_that_the_modules_make(file: str) -> None:
    text = (ROOT / file).read_text()

    assert text == made(file, text), "run python tests/docs/courier_tables.py"


@pytest.mark.parametrize("file", TABLES)
def test_every_courier_is_named(file: str) -> None:
    text = (ROOT / file).read_text()

    assert [slug for slug in EVERY if f"`{slug}`" not in text and f'"{slug}"' not in text] == []


def test_every_courier_has_a_row_on_what_a_call_may_carry() -> None:
    page = (ROOT / "docs" / "couriers.md").read_text()
    _, _, table = page.partition("| slug | numbers a call may carry |")

    assert re.findall(r"(?m)^\| `([\w-]+)` \|", table.partition("\n\n")[0]) == list(EVERY)


def test_the_couriers_of_which_pushes_count_stand_with_the_reasons_why_one_does_not() -> None:
    page = (ROOT / "docs" / "couriers.md").read_text()
    _, _, section = page.partition("\n## Couriers that push\n")
    first = re.findall(r"(?m)^\| (`[^|]+`) \|", section.partition("\n## ")[0])
    words = [word for cell in first for word in re.findall(r"`([\w-]+)`", cell)]

    reasons = {NOT_BUILT, NO_SECRET, NO_KEY, NOT_VERIFIED, UNREADABLE, NO_NUMBER, NOT_FOLLOWED}
    assert (sorted(words), len(reasons)) == (sorted(PUSHES.keys() | reasons), 7)


def test_a_page_that_lost_its_marks_is_noticed() -> None:
    with pytest.raises(ValueError, match="lacks the marks"):
        made("docs/couriers.md", "# nothing\n")


def test_a_new_constant_of_a_module_changes_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usps, "CREDENTIALS", ("another_key",))
    monkeypatch.setattr(bring, "REQUIRED_FIELDS", ("tracking_key",), raising=False)

    rows = {line.split("|")[1].strip(): line for line in needed().splitlines()}
    assert "`another_key`" in rows["`usps`"]
    assert "**`tracking_key`**" in rows["`bring`"]
    assert "`tracking_postal_code`" in rows["`dpd-uk`"]
    assert required_fields(dpd_uk) == ()


@pytest.mark.parametrize("slug", EVERY)
def test_the_page_says_how_each_courier_is_asked_and_what_its_module_was_checked_against(
    slug: str,
) -> None:
    courier, page = EVERY[slug], (ROOT / "docs" / "couriers.md").read_text()
    checked = courier.VERIFIED.removesuffix("; never run against the live site")

    begin, end = re.escape(f"| `{slug}` | {courier.NAME} |"), re.escape(f"| {checked} |")
    assert re.search(rf"(?m)^{begin}( [^|]+ \|){{2}} [^|]+ {end}$", page)


@pytest.mark.parametrize("slug", sorted(COURIERS))
def test_every_module_says_that_it_never_met_the_live_site(slug: str) -> None:
    assert EVERY[slug].VERIFIED.endswith("; never run against the live site")
