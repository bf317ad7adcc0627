"""What only a real browser shows: the scenarios for which the pages are there, as people act.

No page may ask another host, break the policy, or complain in the console while they run.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser_ground import PATIENCE_MS, WIDE, Window, window
from mailboxes import Mailbox, serving_mailbox
from pages_ground import ACME, Service
from planted import SLUG
from playwright.sync_api import Browser, Page, expect

from devstack.process import Process
from devstack.site.remote import CourierSite
from service.operator.audit import Operator
from service.operator.users import Role, add_user, new_user
from tracking.request import MAIN

pytestmark = pytest.mark.prove

PASSWORD = "correct horse battery"  # noqa: S105 - of nobody else
NOW = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
LINE = "/lines/blue-post"
DEAD = 120
ROWS = 5_000


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with serving_mailbox() as kept:
        yield kept


@pytest.fixture(scope="module")
def more_settings(couriers: dict[str, str], mailbox: Mailbox) -> dict[str, str]:
    return {
        **couriers,
        **mailbox.settings,
        "TRACKER_LIMITS__PER_SECOND": "20",
        "TRACKER_COURIERS__ACME_POST__NUMBERS_PER_CALL": "100",
    }


def test_what_no_page_may_do_would_be_noticed(browser: Browser, service: Service) -> None:
    shown = Window(browser, service.person())
    page = shown.open("/")
    page.evaluate(
        """() => {
          const main = document.querySelector("main");
          main.insertAdjacentHTML("beforeend", "<img src='http://127.0.0.1:1/x.png'><b style='x'>");
          main.insertAdjacentHTML("beforeend", "<b onclick='alert(1)'>b</b>");
          main.querySelector("b:last-child").click();
        }"""
    )
    found = shown.findings((WIDE, "light"))
    shown.context.close()

    assert any("image-alt" in each for each in found)
    for broken in ("img-src", "style-src", "script-src"):
        assert any(f"policy: {broken}" in each for each in shown.complaints), broken


def choose_password(page: Page, email: str = "") -> None:
    if email:
        page.get_by_label("E-mail").fill(email)
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same once more").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_the_first_owner_comes_by_the_printed_link(browser: Browser, service: Service) -> None:
    service.stores.users.delete_many({})
    link = urlsplit(service.command("user", "add", "--first")).path

    with window(browser, service.stranger()) as shown:
        choose_password(shown.open(link), "anna@main.example")
        shown.page.get_by_role("button", name="Log out").click()
        expect(shown.page).to_have_url(re.compile("/login$"))

    assert service.stranger().get(link).status == 410


def test_by_keyboard_alone_somebody_logs_in_and_pauses_a_courier(
    browser: Browser, service: Service
) -> None:
    carl = new_user("carl@main.example", MAIN, Role.OWNER)
    add_user(service.stores, Operator(), carl, PASSWORD)

    with window(browser, service.stranger()) as shown:
        page = shown.open("/settings")
        for text in (carl.email, PASSWORD):
            tab_to(page, "input")
            page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Settings")
        tab_to(page, "a", "Users")
        page.keyboard.press("Enter")

        expect(page.get_by_role("heading", level=1)).to_have_text("Users")
        page = shown.open(LINE)
        tab_to(page, "input")
        page.keyboard.type("by keyboard")
        tab_to(page, "button", "Pause")
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Now")).to_contain_text("by keyboard")
        tab_to(page, "button", "Resume")
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Now")).not_to_contain_text("by keyboard")


def tab_to(page: Page, tag: str, words: str = "") -> None:
    """Press Tab until the focus is on an element, which can be seen to have it."""
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.locator(":focus-visible")
        assert focused.count() == 1, "the focus cannot be seen"
        if focused.evaluate("e => e.localName") == tag and words in focused.inner_text():
            return
    raise AssertionError(f"no {tag} {words} can be reached by Tab")


def test_an_invitation_comes_by_mail_and_its_link_lets_in(
    browser: Browser, service: Service, worker: Process, mailbox: Mailbox
) -> None:
    assert worker.pid
    with window(browser, service.person()) as owner:
        page = owner.open("/settings/users")
        page.get_by_label("E-mail").fill("ben@main.example")
        page.get_by_role("radio", name=re.compile("member")).check()
        page.get_by_role("button", name="Invite").click()
        expect(page.get_by_role("status")).to_contain_text("ben@main.example")

    with window(browser, service.stranger()) as guest:
        choose_password(guest.open(mailbox.link_to("ben@main.example")))
        expect(guest.page.locator("header")).to_contain_text("ben@main.example")
        expect(guest.page.get_by_role("link", name="Lines")).to_have_count(0)


def add_parcel(shown: Window, number: str) -> Page:
    """Type a number, and choose a courier before one is suggested."""
    page = shown.open("/parcels/add")
    page.get_by_label("Number", exact=True).press_sequentially(number)
    with page.expect_response("**/parcels/detect*"):
        page.get_by_label("Courier", exact=True).select_option(SLUG)
    page.get_by_role("button", name="Add it").click()
    return page


def test_the_couriers_that_may_have_a_number_are_suggested_while_it_is_typed(
    browser: Browser, service: Service
) -> None:
    with window(browser, service.person("member")) as shown:
        page = shown.open("/parcels/add")
        page.get_by_label("Number", exact=True).press_sequentially("1Z999AA10123456784")

        expect(page.get_by_label("Courier", exact=True)).to_have_value("ups")


def test_a_parcel_goes_from_pending_to_delivered_before_ones_eyes(
    browser: Browser, service: Service, worker: Process, courier_site: CourierSite
) -> None:
    assert worker.pid
    courier_site.behave(SLUG, held=True)
    with window(browser, service.person("member")) as shown:
        page = add_parcel(shown, "AB1000002")
        expect(page.get_by_role("heading", level=1)).to_contain_text("AB1000002")
        expect(page.get_by_text("The courier is being asked.")).to_be_visible()

        courier_site.behave(SLUG)

        expect(page.get_by_text("Delivered, front door")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.get_by_text("The courier is being asked.")).to_have_count(0)


def test_a_courier_is_paused_resumed_and_its_limits_changed(
    browser: Browser, service: Service, worker: Process
) -> None:
    assert worker.pid
    with window(browser, service.person()) as shown:
        page = shown.open(LINE)
        now = page.get_by_role("region", name="Now")
        page.get_by_label("Reason").fill("they asked us to")
        page.get_by_role("button", name="Pause").click()
        expect(now).to_contain_text("they asked us to")
        page.get_by_role("button", name="Resume").click()
        expect(now).not_to_contain_text("they asked us to")
        page.get_by_role("spinbutton", name="Calls a second").fill("7")
        page.get_by_role("button", name="Save limits").click()
        expect(now).to_contain_text("of 7")

    acts = service.stores.audit.find({"user": "owner@main.example", "act": {"$ne": "user add"}})
    assert {each["act"] for each in acts} >= {"pause", "resume", "limits set"}


def test_dead_letters_are_counted_and_then_put_again_in_bulk(
    browser: Browser, service: Service
) -> None:
    for number in range(DEAD):
        parcel = {"slug": SLUG, "number": f"AB2{number:06}"}
        body = json.dumps({"type": "requests_flow", "payload": parcel})
        record: dict[str, Any] = {
            "operations": [],
            "reason": "courier_down",
            "detail": "503",
            "body": body,
        }
        record |= {"_id": f"dead-{number}", "server": None, "job": None, "at": NOW}
        service.stores.dead.insert_one(parcel | record)

    with window(browser, service.person()) as shown:
        page = shown.open(f"/dead?slug={SLUG}")
        page.get_by_role("link", name="Put them again").click()
        expect(page.get_by_role("definition").filter(has_text=f"{DEAD}")).to_be_visible()
        page.get_by_role("button", name="Put them again").click()
        expect(page.get_by_text("That were all.")).to_be_visible(timeout=2 * PATIENCE_MS)

    assert service.stores.dead.count_documents({"slug": SLUG}) == 0


def test_a_file_is_imported_with_progress_and_a_report_of_each_row(
    browser: Browser, service: Service, worker: Process, tmp_path: Path
) -> None:
    assert worker.pid
    file = tmp_path / "parcels.csv"
    rows = [f"AB3{number:06},{SLUG}" for number in range(ROWS - 1)]
    file.write_text("\n".join(["number,slug", *rows, f"!,{SLUG}"]))

    with window(browser, service.person("member")) as shown:
        page = shown.open("/parcels/import")
        page.get_by_label("CSV file").set_input_files(file)
        page.get_by_role("button", name="Import").click(timeout=6 * PATIENCE_MS)
        progress = page.get_by_role("progressbar")
        expect(progress).to_have_attribute("max", f"{ROWS}", timeout=2 * PATIENCE_MS)
        expect(progress).to_have_attribute("value", f"{ROWS}", timeout=6 * PATIENCE_MS)
        with page.expect_download() as report:
            page.get_by_role("link", name="Report as CSV").click()
        told = report.value.path().read_text().splitlines()

    assert len(told) == ROWS + 1


def test_two_accounts_in_two_browsers_never_see_each_others(
    browser: Browser, service: Service, worker: Process
) -> None:
    assert worker.pid
    people = service.person(), service.person("owner", ACME)
    with window(browser, people[0]) as ours, window(browser, people[1]) as theirs:
        for shown, number in ((ours, "AB4000002"), (theirs, "AB5000002")):
            page = add_parcel(shown, number)
            expect(page.get_by_text("Delivered, front door")).to_be_visible()
        for shown, mine, others in (
            (ours, "AB4000002", "AB5000002"),
            (theirs, "AB5000002", "AB4000002"),
        ):
            page = shown.open("/parcels")
            expect(page.get_by_role("link", name=mine)).to_be_visible()
            expect(page.get_by_role("link", name=others)).to_have_count(0)
            assert people[shown is theirs].get(f"/parcels/{SLUG}/{others}").status == 404
