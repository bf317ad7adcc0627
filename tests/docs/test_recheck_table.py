"""The pages tell how often a parcel is asked about again as the defaults have it."""

from __future__ import annotations

import pytest
from recheck_table import PAGES, ROOT, made, table

from service.config.schema import Config, Limits, Recheck


@pytest.mark.parametrize("file", PAGES)
def test_the_table_of_a_page_is_that_of_the_defaults(file: str) -> None:
    text = (ROOT / file).read_text()

    assert text == made(file, text), "run python tests/docs/recheck_table.py"


@pytest.mark.parametrize("file", PAGES)
def test_a_page_names_the_capacity_at_the_defaults(file: str) -> None:
    config = Config()
    rate, hours = config.limits.per_second, config.recheck.in_transit_hours

    told = (
        f"{rate} calls a second and a check every {hours:g} hours follow {rate * 3600 * hours:,.0f}"
    )
    assert told in " ".join((ROOT / file).read_text().split())


@pytest.mark.parametrize("file", PAGES)
def test_a_page_names_the_days_until_a_parcel_is_expired(file: str) -> None:
    days = Config().recheck.expires_after_days

    assert f"`[recheck] expires_after_days` ({days})" in (ROOT / file).read_text()


def test_other_settings_make_another_table() -> None:
    config = Config(
        limits=Limits(per_second=5), recheck=Recheck(in_transit_hours=3.0, pending_hours=2.0)
    )

    rows = {line.split(" | ")[0]: line for line in table(config).splitlines()}

    assert "| 3; 6 once nothing has changed for 3 days; 18 " in rows["| `InTransit`"]
    assert "| 54,000, 108,000, 324,000 |" in rows["| `InTransit`"]
    assert "| 2, 4, 8, 16, then 24 each time |" in rows["| `Pending`"]


def test_a_page_that_lost_its_marks_is_noticed() -> None:
    with pytest.raises(ValueError, match="lacks the marks"):
        made("docs/runbook.md", "# nothing\n")
