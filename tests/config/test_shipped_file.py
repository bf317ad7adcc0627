"""The shipped config.toml is the documentation of the settings, and it is complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.config.load import load
from service.config.paths import Path as Setting
from service.config.paths import is_section, is_table, settings_of
from service.config.schema import Config

FILE = Path(__file__).parents[2] / "config.toml"


def single_settings() -> Iterator[Setting]:
    for section, kind in settings_of(Config).items():
        if is_section(kind):
            yield from (
                (section, name) for name, of in settings_of(kind).items() if not is_table(of)
            )


def test_it_sets_every_setting_to_its_default() -> None:
    found = load(str(FILE), {}, FILE.parent)
    assert found.config == Config()
    optional = {("limits", "per_hour"), ("limits", "per_day")}
    assert set(single_settings()) - set(found.origins) == optional


def test_it_names_every_setting_once() -> None:
    section = ""
    named = []
    for line in FILE.read_text().splitlines():
        if header := re.match(r"\[([a-z]+)\]", line):
            section = header[1]
        elif line.startswith("# [") or not line:
            section = "" if line else section
        elif section and (key := re.match(r"(?:# )?([a-z_]+) = ", line)):
            named.append((section, key[1]))
    assert sorted(named) == sorted(single_settings())


def test_every_setting_has_a_comment_or_stands_right_below_one() -> None:
    previous = ""
    bare = []
    for line in FILE.read_text().splitlines():
        if re.match(r"[a-z_]+ = ", line) and not previous.startswith("#"):
            bare.append(line)
        previous = line
    # What these are is their name.
    assert bare == ['database = "bucket"']


def examples() -> list[str]:
    """The tables that are commented out, each with its keys and without the comment signs."""
    found: list[str] = []
    for line in FILE.read_text().splitlines():
        if re.match(r"# \[[a-z.-]+\]", line):
            found.append("")
        elif not re.match(r"# [a-z_]+ = ", line):
            continue
        if found:
            found[-1] += line.removeprefix("# ") + "\n"
    return found


@pytest.mark.parametrize("example", examples(), ids=lambda text: text.split("]")[0][1:])
def test_each_example_loads_when_it_is_uncommented(tmp_path: Path, example: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(FILE.read_text() + example)
    load(str(file), {}, tmp_path)


def test_all_examples_together_load_and_hold(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(FILE.read_text() + "".join(examples()))
    found = load(str(file), {}, tmp_path).config
    assert found.limits.slugs["usps"].per_hour == 60
    assert found.couriers["my-courier"].module == "json_feed"
    assert found.recheck.slugs["royal-mail"].in_transit_hours == 24
    allowed = found.webhooks.allowed
    tables = (found.limits.slugs, found.recheck.slugs, allowed, found.couriers)
    assert sum(map(len, tables)) == len(examples())


def test_the_quotas_that_are_commented_out_load(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    general = FILE.read_text().split("# What couriers document")[0]
    file.write_text(re.sub(r"^# (per_\w+ = )", r"\1", general, flags=re.MULTILINE))
    limits = load(str(file), {}, tmp_path).config.limits
    assert (limits.per_hour, limits.per_day) == (1000, 10000)
