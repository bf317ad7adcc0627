"""The proof as a page: what it shows before and after something was judged, and to whom."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, cast

import lxml.html
import pytest
import redis
from aiohttp.test_utils import make_mocked_request
from browser_ground import NARROW, WIDE, window
from pages_ground import Service
from playwright.sync_api import Browser
from test_live import ANNA

from limits import keys
from limits.admin.proof import HOUR, Balance, Hour, Measured
from limits.admin.violations import Worst
from service.operator.proof import Proof
from service.web.frame import Frame, view
from service.web.visitors import Visitors
from tracking.line import courier_line
from tracking.operation import ENDS
from tracking.request import Slug

LINE = courier_line(Slug("usps"))
NONE = dict.fromkeys(ENDS, 0)
REFUSED = {"full": 0, "too_late": 0, "id_reused": 0}
BEFORE = Proof(Measured(0, 10, 0.0, 0.0, {}), Balance(None, 0, 0, NONE, REFUSED, 0), None, ())
COUNTED = Balance(5_000, 1, 7, NONE | {"SUCCESS": 6}, REFUSED, 2)


@pytest.fixture(scope="module")
def more_settings() -> dict[str, str]:
    quota = {"TRACKER_LIMITS__SLUGS__USPS__PER_DAY": "1000"}
    return {"TRACKER_WEB__PUBLIC_PROOF": "true", **quota}


def figures(found: Proof) -> dict[str, tuple[str, str, str]]:
    """By the heading of each card: the figure, its colour, and what stands below."""
    values: dict[str, Any] = {"calls": found.measured, "operations": found.balance}
    request, frame = make_mocked_request("GET", "/proof/now"), Frame(cast("Visitors", None), ())
    shown = view("proof/proof_now.html", found=found, **values)
    tree = lxml.html.fromstring(frame.text(request, ANNA, shown))
    cards = tree.xpath("//div[h2 and p[contains(@class, 'big')]]")
    return {
        card.findtext("h2"): (
            card.find("p").text_content(),
            card.find("p").get("class").removeprefix("big").strip(),
            " ".join(card.xpath("p[2]")[0].text_content().split()) if card.xpath("p[2]") else "",
        )
        for card in cards
    }


def test_what_was_not_judged_or_counted_yet_is_said_and_not_praised() -> None:
    shown = figures(BEFORE)
    idle = figures(replace(BEFORE, measured=Measured(0, 90, 80.0, 20.0, {})))
    exempt = figures(replace(BEFORE, measured=Measured(0, 90, 80.0, 0.0, {LINE: Worst(starts=3)})))

    for each in (shown, idle, exempt):
        assert each["Limits broken"] == ("\N{EN DASH}", "", "not judged yet")
    assert shown["Requests missing"] == ("\N{EN DASH}", "", "not counted yet")


def test_what_was_judged_is_good_or_bad() -> None:
    worst = Worst(2, 3, 40, 0, 2, 20)
    measured = Measured(0, 90, 80.0, 60.0, {LINE: worst})
    kept = figures(Proof(measured, COUNTED, None, ()))
    lines = {LINE: replace(worst, broken=1)}
    broken = figures(Proof(replace(measured, lines=lines), replace(COUNTED, admitted=8), None, ()))

    assert kept["Limits broken"][:2] == ("0", "good")
    assert kept["Requests missing"] == ("0", "good", "of 8")
    assert broken["Limits broken"][:2] == ("1", "error")
    assert broken["Requests missing"] == ("1", "error", "of 9")


@pytest.mark.prove
def test_in_public_everybody_reads_it_on_any_window_and_in_any_colours(
    service: Service, browser: Browser
) -> None:
    at, worst = int(time.time()) // HOUR * HOUR, Worst(2, 20, 1_234_567, 0, 2, 20)
    lines = {courier_line(Slug(name)): worst for name in ("usps", "la-poste-colissimo", "ups")}
    hour = Hour(at, lines, seconds=900.0, judged_seconds=800.0)
    with redis.Redis.from_url(service.settings["TRACKER_REDIS__URL"]) as client:
        client.hset(keys.worst(at), mapping=hour.fields(lines))
        ends = {"admitted": 7, "SUCCESS": 7, "full": 3, "since": f"{at}000 0"}
        client.hset(keys.OPERATIONS, mapping=ends)
    stranger = service.stranger()

    with window(browser, stranger) as shown:
        page = shown.open("/proof")
        words = page.locator("main").inner_text()
        found = shown.findings(
            *((size, scheme) for size in (WIDE, NARROW) for scheme in ("light", "dark"))
        )

    assert found == []
    assert "1,234,567" in words
    assert "la-poste-colissimo" in words
    assert {stranger.get(each).status for each in ("/proof.json", "/proof.key")} == {200}
    assert stranger.get("/lines").status in {303, 404}
