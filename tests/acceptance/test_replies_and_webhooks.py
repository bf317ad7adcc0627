"""A held reply or a webhook tells how a request ended; not both, and never neither."""

from __future__ import annotations

from typing import Any

from hooks import Hooks, verified
from plant import Plant
from running_worker import until


def test_of_an_end_that_a_held_reply_told_no_webhook_tells(plant: Plant) -> None:
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
    assert verified(secret, received)["data"]["id"] == "order-2"
    left = {"cancelled": 1, "delivered": 1}
    until(lambda: hooks.states("erp") == left, 5.0, "what was sent is known")
