"""Services in trouble, while workers run: people hear, nothing is lost, couriers go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from hooks import ANY, WHO, Hooks, numbers_of
from plant import Plant
from running_worker import until

from devstack.servers import free_port
from tracking.request import MAIN

ADDRESS = "orders@shop.example"


class Sink:
    """Keeps the texts of mails."""

    def __init__(self) -> None:
        self.mails: list[str] = []

    async def handle_DATA(  # noqa: N802 - the library's name
        self, _: SMTP, __: Session, envelope: Envelope
    ) -> str:
        assert envelope.rcpt_tos == [ADDRESS]
        self.mails.append(bytes(envelope.content or b"").decode())
        return "250 OK"


@contextmanager
def sink() -> Iterator[tuple[Sink, int]]:
    """Serve one, at a free port."""
    kept = Sink()
    port = free_port()
    controller = Controller(kept, hostname="127.0.0.1", port=port)
    controller.start()
    yield kept, port
    controller.stop()


@pytest.mark.prove
def test_a_receiver_that_is_gone_disables_its_service_and_gets_all_once_it_is_back(
    plant: Plant,
) -> None:
    with sink() as (kept, port):
        plant.settings |= {
            "mail.host": "127.0.0.1",
            "mail.port": port,
            "mail.tls": "none",
            "mail.sender": "tracker@tracker.example",
        }
        hooks = Hooks(plant)
        hooks.receiver("erp").behave(fault="status", status=410)
        plant.collection("accounts").insert_one({"_id": "main", "alerts": ADDRESS})
        plant.hire(processes=2).ready()
        hooks.make("erp")
        hooks.make("ops", **ANY | {"events": ["service.disabled"]})
        deliveries, services = plant.collection("deliveries"), plant.collection("services")
        numbers = numbers_of(20)

        plant.producer.put_all(hooks.slug, numbers[:10])
        until(lambda: services.count_documents({"state": "disabled"}) == 1, 20.0, "it is disabled")
        plant.producer.put_all(hooks.slug, numbers[10:])
        until(lambda: deliveries.count_documents({"state": "held"}) == 20, 30.0, "all are held")
        until(lambda: kept.mails, 60.0, "a mail arrives")
        until(lambda: hooks.receiver("ops").received(), 30.0, "the other service hears of it")

        before = len(hooks.receiver("erp").received())
        hooks.receiver("erp").behave()
        with hooks.services() as ours:
            ours.change(WHO, MAIN, "erp", {"state": "active"})
        until(
            lambda: not deliveries.count_documents({"state": "held"}), 30.0, "they are open again"
        )
        delivered = {"type": "parcel.changed", "state": "delivered"}
        until(lambda: deliveries.count_documents(delivered) == 20, 30.0, "all are delivered")

        assert sorted(hooks.arrived("erp")[before:]) == numbers
        assert len(kept.mails) == 1
        assert "Subject: Webhook service erp is disabled" in kept.mails[0]
        [told] = hooks.receiver("ops").received()
        assert told.json["data"]["service"] == "erp"


@pytest.mark.prove
def test_receivers_that_hang_leave_couriers_half_of_a_process(plant: Plant) -> None:
    plant.settings["worker.concurrency"] = 8
    hooks = Hooks(plant)
    plant.settings["webhooks.timeout_seconds"] = 15.0
    hooks.receiver("erp").behave(fault="hang")
    plant.hire().ready()
    hooks.make("erp")
    numbers = numbers_of(60)
    plant.producer.put_all(hooks.slug, numbers[:20])
    until(lambda: len(hooks.receiver("erp").received()) >= 4, 20.0, "its half hangs")

    plant.producer.put_all(hooks.slug, numbers[20:])

    answered = {"slug": hooks.slug, "attempts.outcome": "answered"}
    tracking = plant.collection("tracking")
    until(lambda: tracking.count_documents(answered) == len(numbers), 10.0, "all are answered")
