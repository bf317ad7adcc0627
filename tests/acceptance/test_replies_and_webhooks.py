"""A held reply or a webhook tells how a request ended; not both, and never neither."""

from __future__ import annotations

from typing import Any

from hooks import Hooks, verified
from plant import Plant
from running_worker import until


def test_a_service_that_a_request_names_hears_of_its_end_unless_a_held_reply_told_it(
    plant: Plant,
) -> None:
    hooks = Hooks(plant)
    plant.hire().ready()
    api, receiver = hooks.api(), hooks.receiver("erp")
    secret = hooks.make("erp", events=["service.disabled"]).secret
    assert secret
    wanted: dict[str, Any] = {"webhook": "erp", "cancel_webhook_on_reply": True}

    plant.producer.put(hooks.slug, "AB000001", id="order-1", **wanted)
    status, told = api.get("/v1/operations/order-1?wait=20")
    plant.producer.put(hooks.slug, "AB000002", id="order-2", **wanted)
    until(receiver.received, 15.0, "the other webhook arrives")

    assert (status, told["status"]) == (200, "SUCCESS")
    (received,) = receiver.received()
    webhook = verified(secret, received)
    assert (webhook["type"], webhook["data"]["id"]) == ("operation.ended", "order-2")
    assert webhook["data"]["status"] == "SUCCESS"
    left = {"cancelled": 1, "delivered": 1}
    until(lambda: hooks.states("erp") == left, 5.0, "what was sent is known")
