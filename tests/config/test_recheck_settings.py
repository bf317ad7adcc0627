"""`[recheck]` and `[recheck.slugs.<slug>]`: what is refused, and how that is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.config.load import load
from service.config.problems import ConfigError, Problem
from service.config.schema import Config, Recheck, SlugRecheck


def problem(folder: Path, text: str) -> Problem:
    file = folder / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(file), {}, folder)
    (found,) = caught.value.problems
    return found


@pytest.mark.parametrize(
    ("text", "path", "fix"),
    [
        ("[recheck]\nin_transit_hours = -1\n", "in_transit_hours", "in_transit_hours = 4.0."),
        ("[recheck]\nin_transit_hours = nan\n", "in_transit_hours", "in_transit_hours = 4.0."),
        ("[recheck]\nexpires_after_days = 0\n", "expires_after_days", "expires_after_days = 30."),
        ("[recheck]\nintransit_hours = 1\n", "intransit_hours", "recheck.in_transit_hours?"),
        ("[recheck.slugs.usps]\nenabled = 0\n", "slugs.usps.enabled", "enabled = true."),
        ("[recheck.slugs.upps]\nenabled = false\n", "slugs.upps", "recheck.slugs.ups?"),
        ("[recheck.slugs.a--b]\nenabled = false\n", "slugs.a--b", 'like "royal-mail".'),
        ("[recheck.slugs.hkpost]\n", "slugs.hkpost", "Write [recheck.slugs.hong-kong-post]."),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_with_what_to_write(
    tmp_path: Path, text: str, path: str, fix: str
) -> None:
    found = problem(tmp_path, text)

    assert found.path == f"recheck.{path}"
    assert found.fix.endswith(fix)


@pytest.mark.parametrize("table", ["recheck", "recheck.slugs.usps"])
def test_a_word_for_hours_is_told_what_0_means(tmp_path: Path, table: str) -> None:
    found = problem(tmp_path, f'[{table}]\nin_transit_hours = "never"\n')

    assert found.path == f"{table}.in_transit_hours"
    assert found.expected == "hours from 0 up to 8760; 0 means never"
    assert found.fix == "Write for example in_transit_hours = 4.0."


def test_a_courier_may_have_every_key_but_slugs() -> None:
    own = set(SlugRecheck.__struct_fields__)

    assert own == set(Recheck.__struct_fields__) - {"slugs"}


def test_0_hours_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[recheck]\nexception_hours = 0\n")

    assert load(str(file), {}, tmp_path).config == Config(recheck=Recheck(exception_hours=0.0))
