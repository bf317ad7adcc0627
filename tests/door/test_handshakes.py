"""Handshakes: answered by the door where a service says so, and only where they have their form."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path

import pytest
from relay_ground import KEY, PATH, relay, relayed

from devstack.servers import Server
from service.http.exchange import Problem
from service.http.handshakes import answer_of
from service.worker.deliveries.foreign_request import ForeignRequest, new_request_id
from service.worker.deliveries.ingest_label import new_label
from service.worker.deliveries.service import Handshake, Ingest
from tracking.request import MAIN

TOKEN = "meatyhamhock"  # noqa: S105 - the documentation has it
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
META = f"/x?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token={TOKEN}"
SLACK = {"token": TOKEN, "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3g", "type": "url_verification"}
GRAPH = "/?validationToken=Validation%3a+Testing+client+application+reachability+for+1-2"
OKTA = "X-Okta-Verification-Challenge"


def asked(
    method: str = "GET", target: str = "/", body: bytes = b"", **headers: str
) -> ForeignRequest:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    label, now = new_label(MAIN, "shop", KEY), dt.datetime.now(dt.UTC)
    return ForeignRequest(new_request_id(), label, now, method, target, target, named, body)


def slack(**members: object) -> ForeignRequest:
    return asked("POST", "/", json.dumps(SLACK | members).encode())


GOOD = [
    (Handshake.META, asked(target=META), b"1158201444"),
    (Handshake.SLACK, slack(), b"3eZbrw1aBm2rZgRNFdxV2595E9CY3g"),
    (
        Handshake.GRAPH,
        asked("POST", GRAPH),
        b"Validation: Testing client application reachability for 1-2",
    ),
    (
        Handshake.OKTA,
        asked(x_okta_verification_challenge="a-B_1", authorization=TOKEN),
        b'{"verification":"a-B_1"}',
    ),
]


@pytest.mark.parametrize(("kind", "request_", "said"), GOOD)
def test_a_handshake_is_answered_as_its_sender_wants_it(
    kind: Handshake, request_: ForeignRequest, said: bytes
) -> None:
    assert answer_of(Ingest(handshake=kind, token_sha256=DIGEST), request_) == said


@pytest.mark.parametrize(("kind", "request_", "_"), GOOD)
def test_where_a_service_does_not_say_so_it_is_a_request_like_others(
    kind: Handshake, request_: ForeignRequest, _: bytes
) -> None:
    for other in set(Handshake) - {kind}:
        assert answer_of(Ingest(handshake=other), request_) is None


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        (Handshake.META, asked(target=META + "x")),
        (Handshake.META, asked(target=META.replace("&hub.verify_token", "&x"))),
        (Handshake.SLACK, slack(token=["x"])),
        (Handshake.SLACK, slack(token=None)),
        (Handshake.OKTA, asked(x_okta_verification_challenge="a", authorization="x")),
        (Handshake.OKTA, asked(x_okta_verification_challenge="a")),
    ],
)
def test_with_another_token_it_is_refused(kind: Handshake, request_: ForeignRequest) -> None:
    with pytest.raises(Problem) as refused:
        answer_of(Ingest(handshake=kind, token_sha256=DIGEST), request_)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        (Handshake.META, asked("POST", META)),
        (Handshake.META, asked(target=META.replace("subscribe", "other"))),
        (Handshake.META, asked(target=META.replace("1158201444", "%3Cscript%3E"))),
        (Handshake.META, asked(target="/?" + "a=1&" * 40 + META[3:])),
        (Handshake.SLACK, slack(challenge="<b>")),
        (Handshake.SLACK, slack(challenge="x" * 257)),
        (Handshake.SLACK, slack(challenge=1)),
        (Handshake.SLACK, slack(type="event_callback", text="url_verification")),
        (Handshake.SLACK, asked("POST", "/", b"url_verification")),
        (Handshake.SLACK, asked("POST", "/", b'["url_verification"]')),
        (Handshake.SLACK, asked("POST", "/", b"[" * 100_000 + b"url_verification")),
        (Handshake.GRAPH, asked("GET", GRAPH)),
        (Handshake.GRAPH, asked("POST", "/?validationToken=%3Cimg%3E")),
        (Handshake.GRAPH, asked("POST", "/?validationToken=")),
        (Handshake.OKTA, asked("POST", x_okta_verification_challenge="a")),
        (Handshake.OKTA, asked(x_okta_verification_challenge="a\r\n<b>")),
    ],
)
def test_what_has_not_its_form_is_a_request_like_others(
    kind: Handshake, request_: ForeignRequest
) -> None:
    assert answer_of(Ingest(handshake=kind), request_) is None


async def test_the_door_answers_by_itself_and_keeps_nothing_of_it(
    disk: Path, beanstalkd: Server
) -> None:
    async with relay(disk / "spool.sqlite", beanstalkd) as sender:
        sender.knows(handshake=Handshake.META, token_sha256=DIGEST, status=204)
        good = await sender.posts(PATH + META, method="GET")
        bad = await sender.posts(PATH + META + "x", method="GET")
        await sender.posts(body=b"event")

    assert (good.status, good.body) == (200, b"1158201444")
    assert b"Content-Type: text/plain" in good.head
    assert (bad.status, b"meatyhamhock" in bad.body) == (403, False)
    assert [each.body for each in relayed(beanstalkd)] == [b"event"]
