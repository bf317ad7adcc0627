"""Draws the pictures of the pages for README and docs/web.md, out of a run of the demo."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from browser_ground import Window, open_browser
from pages_ground import Person

from service.console.demo.script import COPIED, USER, posted, requests
from service.console.demo.stage import open_stage, start_door, start_worker
from service.operator.connections import collections_of
from service.operator.sessions import open_session_of

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SIZE = {"width": 1000, "height": 680}
BYTES_MOST = 100_000
BUSY_SECONDS = 9.0
DONE_SECONDS = 26.0
"""After the puts: when lines are full, and when most parcels are answered."""

SLUG, NUMBER = COPIED


def draw() -> None:
    """Run the demo's servers, couriers and worker, and look at its pages meanwhile."""
    with open_stage() as stage, tempfile.TemporaryDirectory() as home:
        stage.behave()
        stage.make_user()
        with (
            start_worker(stage) as worker,
            start_door(stage) as door,
            collections_of(stage.config()) as stores,
            open_browser(Path(home)) as browser,
        ):
            person = Person(door.url, open_session_of(stores, USER) or "")
            light = Window(browser, person, viewport=SIZE, color_scheme="light")
            dark = Window(browser, person, viewport=SIZE, color_scheme="dark")
            door.post([posted(each) for each in requests()])
            time.sleep(BUSY_SECONDS)
            picture(light, "/lines", "lines")
            time.sleep(DONE_SECONDS - BUSY_SECONDS)
            worker.check()
            picture(light, "/", "overview")
            picture(dark, f"/parcels/{SLUG}/{NUMBER}", "parcel")
            light.close()
            dark.close()


def picture(window: Window, path: str, name: str) -> None:
    """Draw what fits into the window."""
    window.open(path)
    window.page.wait_for_load_state("networkidle")
    file = PICTURES / f"{name}.png"
    window.page.screenshot(path=file)
    size = file.stat().st_size
    print(f"{file}: {size:,} bytes")  # noqa: T201 - for who draws them
    if size > BYTES_MOST:
        raise SystemExit(f"{name} is larger than {BYTES_MOST:,} bytes")


if __name__ == "__main__":
    draw()
