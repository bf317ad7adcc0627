"""What only a real browser shows: the scenarios for which the pages are there, as people act.

No page may ask another host, break the policy, or complain in the console while they run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from browser_ground import window
from mailboxes import Mailbox, serving_mailbox
from pages_ground import Service
from playwright.sync_api import Browser, Page, expect

from devstack.process import Process
from service.operator.audit import Operator
from service.operator.users import Role, add_user, new_user
from tracking.request import MAIN

pytestmark = pytest.mark.prove

PASSWORD = "correct horse battery"  # noqa: S105 - of nobody else


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with serving_mailbox() as kept:
        yield kept


@pytest.fixture(scope="module")
def more_settings(couriers: dict[str, str], mailbox: Mailbox) -> dict[str, str]:
    return couriers | mailbox.settings


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


def test_by_keyboard_alone_somebody_logs_in_and_goes_to_a_page(
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
