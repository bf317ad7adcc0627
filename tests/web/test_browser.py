"""What only a real browser shows: that each page is for everybody, and asks nobody else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_ground import NARROW, WIDE, open_browser, window
from pages_ground import Service
from playwright.sync_api import Browser

pytestmark = pytest.mark.prove

PAGES = ["/"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with (
        tempfile.TemporaryDirectory(prefix="pytest-", ignore_cleanup_errors=True) as home,
        open_browser(Path(home)) as opened,
    ):
        yield opened


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing(
    browser: Browser, service: Service, size: tuple[int, int], scheme: str
) -> None:
    with window(browser, service.person(), size=size, color_scheme=scheme) as shown:
        for path in PAGES:
            shown.open(path)

            assert shown.findings() == []
            assert not shown.overflows(), path
