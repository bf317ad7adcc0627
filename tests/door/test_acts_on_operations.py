"""`/v1/operations/{id}/cancel` and `…/resend`."""

from __future__ import annotations

from door_ground import USPS, Client, payloads, refused
from limits_bench import Worker

from devstack.servers import Server


async def test_what_waits_is_cancelled_and_that_twice_is_the_same(
    api: Client, worker: Worker
) -> None:
    await worker.granted("BUSY")
    await worker.parked("N001", id="a")

    replies = [await (await api.post("/v1/operations/a/cancel")).json() for _ in range(2)]

    assert [each["status"] for each in replies] == ["CANCELLED"] * 2
    assert replies[0]["output"]["code"] == "cancelled"


async def test_a_call_that_runs_or_is_over_is_not_cancelled(api: Client, worker: Worker) -> None:
    call = await worker.granted("N001", id="a")
    running = await refused(await api.post("/v1/operations/a/cancel"), 409)
    await worker.finish(call)
    ended = await refused(await api.post("/v1/operations/a/cancel"), 409)

    assert (running["reason"], ended["reason"]) == ("running", "ended")
    assert "SUCCESS" in ended["detail"]


async def test_what_has_ended_is_resent_as_a_new_operation(
    whole: Client, worker: Worker, beanstalkd: Server
) -> None:
    call = await worker.granted(USPS["number"], id="a")
    early = await refused(await whole.post("/v1/operations/a/resend"), 409)
    await worker.finish(call)

    response = await whole.post("/v1/operations/a/resend")

    taken = await response.json()
    assert "RUNNING" in early["detail"]
    assert response.status == 202
    assert taken == {**USPS, "id": taken["id"], "spooled": False}
    [payload] = payloads(beanstalkd)
    assert payload["id"] == taken["id"] != "a"
    assert (payload["resend_of"], payload["max_age"]) == ("a", 0)
    await refused(await whole.post("/v1/operations/never/resend"), 404)
