"""A real browser: Debian's Chromium, driven by Playwright, and all that it complains of.

What a page may never cause is collected while it is open: reports of its policy, errors of its
scripts, and requests to a host that is not ours.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from pages_ground import Person
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""So that it asks nobody on the internet by itself."""

PATIENCE_MS = 10_000
WIDE, NARROW = (1200, 900), (360, 800)

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
"""Of axe: WCAG 2.2 AA, and what is good practice beyond."""

AXE = Axe().axe_script
JUDGE = """async (tags) => {
  const told = await axe.run({runOnly: {type: "tag", values: tags}, resultTypes: ["violations"]});
  const found = told.violations.flatMap((each) =>
    each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 160)}`));
  const root = document.documentElement;
  return root.scrollWidth > root.clientWidth ? [...found, "it is wider than the window"] : found;
}"""

View = tuple[tuple[int, int], Literal["light", "dark"]]

REPORT = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@contextmanager
def open_browser(home: Path) -> Iterator[Browser]:
    """Start Chromium; what it keeps lies in `home`. Skips the test where there is none."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip(f"no browser: install Debian's package chromium (no {' or '.join(PROGRAMS)})")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found,
            args=QUIET,
            chromium_sandbox=os.getuid() != 0,  # it refuses to run in one as root
            env={"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        )
        yield browser
        browser.close()


class Window:
    """A browser of one person, with cookies of its own; `page` is what it shows."""

    def __init__(self, browser: Browser, person: Person, **how: Any) -> None:
        self.url = url = person.url
        self.complaints: list[str] = []
        usual = {"viewport": {"width": WIDE[0], "height": WIDE[1]}, "locale": "en-GB"}
        usual |= {"timezone_id": "Europe/Berlin", "base_url": url}
        self.context: BrowserContext = browser.new_context(**usual | how)
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(REPORT)
        self.context.on("request", lambda request: self._look_at(request.url))
        self.context.on("console", self._hear)
        self.context.on("weberror", lambda error: self.complaints.append(f"script: {error.error}"))
        for name, text in person.cookies.items():
            self.context.add_cookies([{"name": name, "value": text, "url": url}])
        self.page: Page = self.context.new_page()

    def open(self, path: str) -> Page:
        """Open one of our pages."""
        self.page.goto(path)
        return self.page

    def findings(self, *views: View) -> list[str]:
        """What axe finds on the page that is shown, in these sizes and colours."""
        self.page.evaluate(AXE)
        found = []
        for (width, height), scheme in views:
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.emulate_media(color_scheme=scheme)
            told = self.page.evaluate(JUDGE, RULES)
            found += [f"{self.page.url} {width} {scheme}: {each}" for each in told]
        return found

    def close(self) -> None:
        """Close it; what it complained of fails the test."""
        self.context.close()
        assert not self.complaints, "\n".join(self.complaints)

    def _look_at(self, url: str) -> None:
        if not url.startswith((self.url + "/", "data:")):
            self.complaints.append(f"another host: {url}")

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            where = urlsplit(message.location.get("url", "")).path
            self.complaints.append(f"console: {message.text} {where}")


@contextmanager
def window(browser: Browser, person: Person, **how: Any) -> Iterator[Window]:
    """Open the browser of somebody; at its end it must not have complained."""
    opened = Window(browser, person, **how)
    try:
        yield opened
    except BaseException:
        opened.context.close()
        raise
    opened.close()
