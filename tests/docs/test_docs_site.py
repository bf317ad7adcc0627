"""`make docs`: the site leads to each page, and needs nothing of another host."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
SITE = (ROOT / "mkdocs.yml").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
UNLISTED = {"docs/decisions/template.md"}


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, in which a function of Python is named."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
LOADED = yaml.load(SITE, Loader)  # noqa: S506 - a safe loader, which makes nothing of what is named


def named(part: object) -> list[str]:
    """The pages of a part of the navigation, in their order."""
    match part:
        case str():
            return [part]
        case list():
            return [page for each in part for page in named(each)]
        case dict():
            return [page for each in part.values() for page in named(each)]
    return []


def test_the_site_leads_to_each_page_once() -> None:
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} - UNLISTED
    listed = named(LOADED["nav"])

    assert len(listed) == len(set(listed))
    assert {page for page in listed if page.startswith("docs/")} == pages
    assert [page for page in listed if not (ROOT / page).is_file()] == []


def test_each_page_of_it_is_among_what_the_target_takes() -> None:
    [taken] = re.findall(r"^PAGES := (.*)$", MAKEFILE, re.MULTILINE)

    assert {page.partition("/")[0] for page in named(LOADED["nav"])} <= set(taken.split())
    assert [each for each in taken.split() if not (ROOT / each).exists()] == []


def test_a_dead_link_fails_it() -> None:
    [recipe] = re.findall(r"^\t.*mkdocs build.*$", MAKEFILE, re.MULTILINE)

    # With --quiet warnings are not counted, and --strict fails on none.
    assert "--strict" in recipe
    assert "--quiet" not in recipe
    assert set(LOADED["validation"].values()) == {"warn"}


def test_it_needs_no_font_and_no_script_of_another_host() -> None:
    """Without these two the theme asks for them there."""
    assert LOADED["theme"]["font"] is False
    assert "offline" in LOADED["plugins"]
    [script] = LOADED["extra"]["polyfills"]
    assert "iframe-worker" in script
    assert (ROOT / script).is_file()
    assert "repo_url" not in LOADED
    assert "://" not in SITE


def test_what_draws_it_is_locked_and_in_no_other_environment() -> None:
    drawn = (ROOT / "requirements-docs.txt").read_text("utf-8")
    others = [(ROOT / f"requirements{name}.txt").read_text("utf-8") for name in ("", "-dev")]
    locked = re.findall(r"^[\w.-]+==", drawn, re.MULTILINE)

    assert drawn.count("--hash=") >= len(locked) > 0
    assert all("mkdocs" not in each for each in others)
    assert "requirements-docs" in MAKEFILE.split("\nlock: ")[1].split("\n\n")[0]


def test_what_it_writes_is_kept_out_of_git() -> None:
    folder = LOADED["site_dir"].partition("/")[0]

    assert f"{folder}/" in (ROOT / ".gitignore").read_text("utf-8").splitlines()
