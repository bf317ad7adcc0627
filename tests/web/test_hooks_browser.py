"""Services and the inbox in a real browser, while a worker delivers and a mail server takes alerts.

Of what takes a quarter of an hour the time is said by the test.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from browser_ground import window
from mailboxes import Mailbox, serving_mailbox
from pages_ground import ACME, Service
from playwright.sync_api import Browser, expect
from webhook_ground import KEY, foreign, store_delivery, store_relay, store_relayed, store_service

from devstack.process import Process
from devstack.receiver import Receiver
from devstack.site.remote import CourierSite
from service.config.schema import Config
from service.operator.accounts import set_alerts
from service.operator.audit import Operator
from service.worker.deliveries.alerts import Addresses, Alerts
from service.worker.deliveries.delivery import DeliveryState, document_of
from service.worker.deliveries.health import REST
from service.worker.deliveries.mail import Mailer
from service.worker.deliveries.service import ServiceState, service_in
from service.worker.results.change import EventName
from service.worker.results.connection import Store
from service.worker.results.database import Document, names_of
from tracking.request import MAIN

pytestmark = pytest.mark.prove

SHOP = "orders@shop.example"


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with serving_mailbox() as kept:
        yield kept


@pytest.fixture(scope="module")
def receiver(courier_site: CourierSite) -> Receiver:
    return Receiver(courier_site, "shop")


@pytest.fixture(scope="module")
def more_settings(
    couriers: dict[str, str], mailbox: Mailbox, courier_site: CourierSite
) -> dict[str, str]:
    allowed = "TRACKER_WEBHOOKS__ALLOWED__MAIN"
    return {
        **couriers,
        **mailbox.settings,
        "TRACKER_WEBHOOKS__KEYS": KEY,
        "TRACKER_WEBHOOKS__TIMEOUT_SECONDS": "2",
        f"{allowed}__NETWORKS": '["127.0.0.0/8"]',
        f"{allowed}__HTTP": "true",
        f"{allowed}__PORTS": f"[{courier_site.port}]",
    }


def look_for_trouble(config: Config, *at: dt.datetime) -> None:
    """Do what a worker does four times a minute, at these times."""

    async def look() -> None:
        store = Store(names_of(config))

        async def none_refused() -> list[str]:
            return []

        async def tell(event: EventName, service: Document, change: str, at: dt.datetime) -> None:
            """Of other services there is none."""

        alerts = Alerts(store, Addresses(by_mail=True), none_refused, tell)
        for each in at:
            await alerts.look(each)
        await Mailer(store, config.mail).look()
        await store.close()

    # In a thread: the browser's library has an event loop in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(look())).result()


def test_a_relay_that_fails_is_alerted_of_mended_by_an_edited_copy_and_well_again(
    browser: Browser, service: Service, worker: Process, receiver: Receiver, mailbox: Mailbox
) -> None:
    assert worker.pid
    set_alerts(service.stores, Operator(), MAIN, SHOP)
    receiver.behave(fault="status", status=410)
    with window(browser, service.person()) as owner:
        page = owner.open("/services/-/new?type=relay")
        page.get_by_label("Name", exact=True).fill("shop")
        page.get_by_label("Destination").fill(receiver.url)
        page.get_by_role("button", name="Make it").click()
        expect(page.locator("#secret")).to_contain_text("whsec_")
        relay = service_in(service.stores.services.find_one({"name": "shop"}) or {})
        old = store_relayed(service.stores, relay, foreign(relay))

        page.get_by_role("button", name="Send a test").click()
        expect(page.locator("#test")).to_contain_text("410")
        owner.open("/services/shop")
        expect(page.get_by_text("because it answered 410 Gone")).to_be_visible()
        look_for_trouble(service.config, dt.datetime.now(dt.UTC))
        assert mailbox.mail_to(SHOP, "Subject: Webhook service shop is disabled")
        page.reload()
        expect(page.get_by_text("People were alerted of trouble")).to_be_visible()

        receiver.behave()
        page.get_by_role("button", name="Make it active again").click()
        owner.open(f"/inbox/{old.id}")
        page.get_by_role("link", name="Edit a copy").click()
        page.get_by_label("Body", exact=True).fill('{"id": 4712}\n')
        page.get_by_role("button", name="Send the copy now").click()
        expect(page.get_by_role("link", name=old.id)).to_be_visible()
        expect(page.locator("[data-live]")).to_contain_text("taken")

        now = dt.datetime.now(dt.UTC)
        look_for_trouble(service.config, now, now + 2 * REST)
        assert mailbox.mail_to(SHOP, "Subject: Webhook service shop is well again")
        owner.open("/services/shop")
        expect(page.get_by_text("People were alerted of trouble")).to_have_count(0)
        expect(page.get_by_text("shop is well again")).to_be_visible()
        expect(page.get_by_text("shop is disabled")).to_be_visible()
    assert b'{"id": 4712}\n' in [each.body for each in receiver.received()]


def test_deliveries_are_sent_again_step_by_step_until_somebody_stops(
    browser: Browser, service: Service
) -> None:
    paused = store_service(service.stores, "bulk", state=ServiceState.PAUSED)
    one = store_delivery(service.stores, paused, state=DeliveryState.DEAD)
    copies = [replace(one, id=f"A{n}") for n in range(9_999)]
    service.stores.deliveries.insert_many(map(document_of, copies))
    with window(browser, service.person()) as owner:
        page = owner.open("/deliveries?service=bulk")
        page.get_by_role("link", name="Send all of these again").click()
        expect(page.get_by_text("10,000")).to_be_visible()
        page.get_by_role("button", name="Send them again").click()
        expect(page.locator("#progress")).to_contain_text(re.compile(r"Sent again\s+[12],000"))
        page.get_by_role("link", name="Stop").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Deliveries")

    sent = service.stores.deliveries.count_documents({"service": paused.id, "state": "open"})
    assert 1_000 <= sent < 10_000


def test_a_hostile_request_runs_nothing_and_another_account_sees_none_of_it(
    browser: Browser, service: Service
) -> None:
    text = '<script>console.error("ran")</script><svg onload=\'console.error("ran")\'>'
    relay = store_relay(service.stores, "hostile")
    headers = (("Content-Type", "image/svg+xml"), ("X-Long", text + "<" * 8_192))
    found = [
        store_relayed(service.stores, relay, foreign(relay, headers=headers, body=body))
        for body in (text.encode(), bytes(range(1, 32)) * (1 << 15))
    ]
    with window(browser, service.person()) as owner:
        for each in found:
            page = owner.open(f"/inbox/{each.id}")
            expect(page.get_by_text("image/svg+xml").first).to_be_visible()
            with page.expect_download() as download:
                page.get_by_role("link", name="Download all of it").click()
            assert download.value.suggested_filename == f"request-{each.id}.bin"

    stranger = service.person("owner", ACME)
    assert {stranger.get(f"/inbox/{each.id}").status for each in found} == {404}
