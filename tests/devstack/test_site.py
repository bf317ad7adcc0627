"""The courier site misbehaves as told, and its record is what really arrived."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import signal
import socket
import time
from collections.abc import Callable

import aiohttp
import pytest

from devstack import judge
from devstack.errors import StackError
from devstack.judge import SECOND_NS
from devstack.site.remote import CourierSite

DELIVERED = "LX200000002"
IN_TRANSIT = "LX100000001"
PATIENCE = 10.0


def ask(
    site: CourierSite, path: str, method: str = "GET", body: object = None, **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_feed_tells_a_delivered_parcel_from_one_on_its_way(site: CourierSite) -> None:
    tags = [
        json.loads(ask(site, f"/feed/dhl/{number}")[1])["tag"] for number in (DELIVERED, IN_TRANSIT)
    ]

    assert tags == ["Delivered", "InTransit"]


def test_an_unknown_number_is_answered_as_each_courier_does(site: CourierSite) -> None:
    token = json.loads(ask(site, "/usps/oauth2/v3/token", "POST")[1])["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}

    assert ask(site, "/feed/dhl/UNKNOWN1")[0] == 404
    assert ask(site, "/usps/tracking/v3/tracking/UNKNOWN1", **bearer)[0] == 400
    several = [{"trackingNumber": "UNKNOWN1"}, {"trackingNumber": DELIVERED}]
    assert ask(site, "/usps/tracking/v3r2/tracking", "POST", several, **bearer)[0] == 207
    assert ask(site, "/dpd-uk/v1/reference?referenceNumber=UNKNOWN1")[0] == 404


def test_usps_refuses_a_call_without_its_token(site: CourierSite) -> None:
    assert ask(site, f"/usps/tracking/v3/tracking/{DELIVERED}")[0] == 401


def test_a_token_is_no_call(site: CourierSite) -> None:
    ask(site, "/usps/oauth2/v3/token", "POST")
    ask(site, "/hong-kong-post/api/authenticate", "POST")

    assert site.calls() == []
    assert [entry["kind"] for entry in site.entries()] == ["token", "token"]


def test_every_call_of_a_courier_is_counted_for_its_slug(site: CourierSite) -> None:
    number = "15502370264989"
    code = json.loads(ask(site, f"/dpd-uk/v1/reference?referenceNumber={number}")[1])
    handle = code["data"][0]["parcelCode"]
    ask(site, f"/dpd-uk/v1/parcels/{handle}")
    ask(site, f"/dpd-uk/v1/parcels/{handle}/parcelevents")

    assert [(call.slug, call.number) for call in site.calls()] == [("dpd-uk", number)] * 3


@pytest.mark.parametrize(
    ("fault", "status", "body"),
    [
        ({"fault": "status", "status": 503}, 503, b'{"error":{"code":503,'),
        ({"fault": "status", "status": 401}, 401, b'{"error":{"code":401,'),
        ({"fault": "unknown"}, 404, b'{"error":"not found"}'),
        ({"fault": "redirect"}, 302, b""),
        ({"fault": "garbage"}, 200, b"<!doctype html>"),
        ({"fault": "truncated"}, 200, b'{"tag":"Delivered"'),
    ],
)
def test_a_wrong_answer_arrives_whole(
    site: CourierSite, fault: dict[str, object], status: int, body: bytes
) -> None:
    site.behave("dhl", **fault)

    answered, said = ask(site, f"/feed/dhl/{DELIVERED}")

    assert answered == status
    assert said.startswith(body)
    assert [entry["fault"] for entry in site.entries("dhl")] == [fault["fault"]]


def test_a_truncated_answer_is_no_json(site: CourierSite) -> None:
    site.behave("dhl", fault="truncated")

    with pytest.raises(json.JSONDecodeError):
        json.loads(ask(site, f"/feed/dhl/{DELIVERED}")[1])


@pytest.mark.parametrize("retry_after", [None, "7"])
def test_retry_after_is_sent_when_it_is_set(site: CourierSite, retry_after: str | None) -> None:
    site.behave("dhl", fault="status", status=429, retry_after=retry_after)
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)

    connection.request("GET", f"/feed/dhl/{DELIVERED}")
    answer = connection.getresponse()
    connection.close()

    assert (answer.status, answer.getheader("Retry-After")) == (429, retry_after)


def test_a_reset_connection_carries_no_answer(site: CourierSite) -> None:
    site.behave("dhl", fault="reset")

    with pytest.raises(ConnectionResetError):
        ask(site, f"/feed/dhl/{DELIVERED}")

    assert [call.status for call in site.calls("dhl")] == [None]


def test_a_cut_answer_ends_before_its_length(site: CourierSite) -> None:
    site.behave("dhl", fault="cut")

    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        ask(site, f"/feed/dhl/{DELIVERED}")


def test_a_hanging_call_ends_when_the_caller_gives_up(site: CourierSite) -> None:
    site.behave("dhl", fault="hang")
    with socket.create_connection(("127.0.0.1", site.port), PATIENCE) as connection:
        connection.sendall(b"GET /feed/dhl/A1B2 HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: len(site.calls("dhl")) == 1)
        assert site.calls("dhl")[0].ended_ns is None

    wait_until(lambda: site.calls("dhl")[0].ended_ns is not None)
    assert site.calls("dhl")[0].status is None


def test_a_dripping_answer_comes_byte_by_byte(site: CourierSite) -> None:
    site.behave("dhl", fault="drip")
    with socket.create_connection(("127.0.0.1", site.port), PATIENCE) as connection:
        connection.sendall(b"GET /feed/dhl/A1B2 HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while b'\r\n\r\n{"' not in received:
            received += connection.recv(1024)
        assert len(received.partition(b"\r\n\r\n")[2]) < 10


def test_a_huge_body_has_no_end(site: CourierSite) -> None:
    site.behave("dhl", fault="huge")
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)
    connection.request("GET", "/feed/dhl/A1B2")

    answer = connection.getresponse()

    assert len(answer.read(8 << 20)) == 8 << 20
    connection.close()
    wait_until(lambda: site.calls("dhl")[0].ended_ns is not None)


def test_a_gzip_bomb_is_small_on_the_wire(site: CourierSite) -> None:
    site.behave("dhl", fault="gzip_bomb")
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)
    connection.request("GET", "/feed/dhl/A1B2")

    answer = connection.getresponse()

    assert answer.getheader("Content-Encoding") == "gzip"
    with gzip.GzipFile(fileobj=answer) as unpacked:
        assert len(unpacked.read(8 << 20)) == 8 << 20
    connection.close()


def test_a_fault_befalls_only_the_first_calls(site: CourierSite) -> None:
    site.behave("dhl", fault="status", status=500, first=2)

    assert [ask(site, f"/feed/dhl/{DELIVERED}")[0] for _ in range(4)] == [500, 500, 200, 200]


def test_a_fault_befalls_only_the_named_numbers(site: CourierSite) -> None:
    site.behave("dhl", fault="status", status=500, numbers=["POISON1"])

    answers = [ask(site, f"/feed/dhl/{number}")[0] for number in ("POISON1", DELIVERED)]

    assert answers == [500, 200]


def test_the_feed_fails_for_the_numbers_that_always_fail(site: CourierSite) -> None:
    numbers = [f"{begin}1" for begin in ("000004", "000005", "000006", "000007")]

    answers = [ask(site, f"/feed/dhl/{number}") for number in numbers]

    assert [status for status, _ in answers] == [403, 429, 500, 200]
    assert b"checkpoints" not in answers[-1][1]


def test_a_number_that_is_never_answered_hangs_and_no_other(site: CourierSite) -> None:
    with socket.create_connection(("127.0.0.1", site.port), PATIENCE) as connection:
        connection.sendall(b"GET /feed/dhl/0000081 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert ask(site, f"/feed/dhl/{DELIVERED}")[0] == 200
        connection.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            connection.recv(1)


def test_a_fault_befalls_its_share_of_the_calls(site: CourierSite) -> None:
    site.behave("dhl", fault="status", status=500, share=0.5, seed=1)

    failed = [ask(site, f"/feed/dhl/{DELIVERED}")[0] for _ in range(40)].count(500)

    assert 8 < failed < 32  # drawn with a fixed seed, so always the same number


def test_a_fault_of_the_token_endpoint_leaves_calls_alone(site: CourierSite) -> None:
    site.behave("usps", fault="status", status=401, at="token")

    assert ask(site, "/usps/oauth2/v3/token", "POST")[0] == 401
    assert ask(site, "/feed/usps/A1B2")[0] == 200


def test_who_follows_a_redirect_is_recorded(site: CourierSite) -> None:
    ask(site, "/_followed")

    assert [call.slug for call in site.calls()] == ["followed"]


def test_a_behaviour_is_read_back_and_a_reset_ends_it(site: CourierSite) -> None:
    site.behave("dhl", latency=0.25, fault="status", status=503)
    assert site.behaviour("dhl")["status"] == 503

    site.reset()

    assert site.behaviour("dhl")["fault"] is None


def test_what_is_no_behaviour_is_refused(site: CourierSite) -> None:
    with pytest.raises(StackError, match="explode"):
        site.behave("dhl", fault="explode")


def test_a_call_arrives_with_its_first_byte(site: CourierSite) -> None:
    pause = 0.3
    with socket.create_connection(("127.0.0.1", site.port), PATIENCE) as connection:
        connection.sendall(b"G")
        time.sleep(pause)  # the time between two segments is what is tested
        connection.sendall(b"ET /feed/dhl/A1B2 HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.recv(1024)

    (call,) = site.calls("dhl")
    assert call.ended_ns is not None
    assert call.ended_ns - call.arrived_ns >= pause * SECOND_NS * 0.9


def test_calls_over_one_connection_are_stamped_one_by_one(site: CourierSite) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE)
    for number in ("A1B2", "C3D4", "E5F6"):
        connection.request("POST", "/usps/tracking/v3r2/tracking", f'["{number}"]')
        connection.getresponse().read()
    connection.close()

    calls = site.calls("usps")
    assert len(calls) == 3
    assert judge.most_in_flight(calls) == 1


async def test_the_judge_sees_too_many_calls_at_once(site: CourierSite) -> None:
    site.behave("dhl", latency=1.0)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        asyncio.TaskGroup() as calls,
    ):
        for turn in range(21):
            calls.create_task(_get(session, f"{site.url}/feed/dhl/N{turn:04}"))

    summary = await asyncio.to_thread(site.summary)
    assert summary["dhl"]["most_in_flight"] == 21
    assert summary["dhl"]["most_starts_in_any_second"] == 21


def test_the_judge_sees_a_third_call_within_a_second(site: CourierSite) -> None:
    for number in ("A1B2", "C3D4", "E5F6"):
        ask(site, f"/feed/dhl/{number}")

    assert site.summary()["dhl"]["most_starts_in_any_second"] == 3


def test_the_judge_finds_nothing_in_two_calls(site: CourierSite) -> None:
    for number in ("A1B2", "C3D4"):
        ask(site, f"/feed/dhl/{number}")

    summary = site.summary()["dhl"]
    assert (summary["most_in_flight"], summary["most_starts_in_any_second"]) == (1, 2)


async def _get(session: aiohttp.ClientSession, url: str) -> None:
    async with session.get(url) as answer:
        await answer.read()


def test_a_caller_that_hung_up_is_gone_before_the_next_call_arrives(site: CourierSite) -> None:
    first, second = (
        http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE) for _ in range(2)
    )
    second.request("GET", "/_calls/summary")
    second.getresponse().read()  # so that its next request needs no new connection
    site.behave("dhl", fault="hang")
    first.request("GET", "/feed/dhl/LX1")
    wait_until(lambda: len(site.calls()) == 1)
    site.behave("dhl")

    site.process.signal(signal.SIGSTOP)  # so that the site sees both at the same look
    first.close()
    second.request("GET", "/feed/dhl/LX2")
    site.process.signal(signal.SIGCONT)
    second.getresponse().read()
    second.close()
    wait_until(lambda: all(call.ended_ns for call in site.calls()))

    assert judge.most_in_flight(site.calls()) == 1


def several(site: CourierSite, *numbers: str, slug: str = "dhl") -> tuple[int, object]:
    status, body = ask(site, f"/feed/{slug}", "POST", {"numbers": list(numbers)})
    return status, json.loads(body)


def test_the_feed_answers_for_several_numbers_in_one_call(site: CourierSite) -> None:
    status, told = several(site, DELIVERED, "UNKNOWN1", IN_TRANSIT)

    assert isinstance(told, dict)
    assert (status, list(told)) == (200, [DELIVERED, "UNKNOWN1", IN_TRANSIT])
    assert told[DELIVERED] == json.loads(ask(site, f"/feed/dhl/{DELIVERED}")[1])
    assert (told["UNKNOWN1"], told[IN_TRANSIT]["tag"]) == (None, "InTransit")


def test_what_asks_for_no_number_or_for_one_twice_is_refused(site: CourierSite) -> None:
    bodies: list[object] = [{}, {"numbers": []}, {"numbers": [7]}, {"numbers": ["A1", "A1"]}, None]

    assert [ask(site, "/feed/dhl", "POST", body)[0] for body in bodies] == [400] * 5


def test_a_call_for_several_is_one_call_and_every_number_is_recorded(site: CourierSite) -> None:
    several(site, DELIVERED, IN_TRANSIT, "UNKNOWN1")
    ask(site, f"/feed/dhl/{DELIVERED}")

    calls = site.calls("dhl")
    assert [call.numbers for call in calls] == [(DELIVERED, IN_TRANSIT, "UNKNOWN1"), (DELIVERED,)]
    told = site.summary()["dhl"]
    assert (told["calls"], told["numbers"], told["most_calls_for_one_number"]) == (2, 3, 2)
    assert told["most_numbers_in_a_call"] == 3


def test_one_number_befalls_every_call_that_asks_for_it(site: CourierSite) -> None:
    site.behave("dhl", fault="status", status=400, numbers=["BAD1"], ending="77")

    asked = ((IN_TRANSIT, "BAD1"), (IN_TRANSIT, "GOOD1"), ("BAD1", "GOOD1"), ("GOOD1", "X77"))
    assert [several(site, *numbers)[0] for numbers in asked] == [400, 200, 400, 400]
    assert [each["fault"] for each in site.entries()] == ["status", None, "status", "status"]


def test_an_answer_makes_no_sense_of_one_number(site: CourierSite) -> None:
    site.behave("dhl", fault="senseless", numbers=["BAD1"])

    _, told = several(site, IN_TRANSIT, "BAD1")
    assert isinstance(told, dict)
    assert (told["BAD1"], told[IN_TRANSIT]["tag"]) == (17, "InTransit")
    assert json.loads(ask(site, "/feed/dhl/BAD1")[1]) == 17


def test_an_answer_to_several_leaves_some_out_and_tells_the_others_in_another_order(
    site: CourierSite,
) -> None:
    site.behave("dhl", leaves_out=0.3, reorders=True)
    numbers = [f"PARCEL{at:04}" for at in range(100)]

    (_, first), (_, again) = several(site, *numbers), several(site, *numbers[::-1])
    assert isinstance(first, dict)
    assert isinstance(again, dict)
    left_out = set(numbers) - set(first)
    assert 20 <= len(left_out) <= 40
    assert (set(again), list(first) != list(again)) == (set(first), True)
    assert list(first) != [each for each in numbers if each in first]
    assert all(ask(site, f"/feed/dhl/{number}")[0] == 200 for number in left_out)


def test_one_number_that_gets_no_answer_holds_the_whole_call_up(site: CourierSite) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=0.3)
    connection.request("POST", "/feed/dhl", json.dumps({"numbers": [IN_TRANSIT, "00000811"]}))
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()

    wait_until(lambda: [call.ended_ns is None for call in site.calls("dhl")] == [False])
    assert [call.status for call in site.calls("dhl")] == [None]
