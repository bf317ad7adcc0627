"""A push counts only where its courier's signature or secret is right, and it never does harm."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from couriers import pushes
from couriers.pushes import (
    NO_NUMBER,
    NO_SECRET,
    NOT_BUILT,
    NOT_VERIFIED,
    NUMBERS_MOST,
    PUSHES,
    SECRET_HEADER,
    UNREADABLE,
    Judgement,
    Push,
    judge,
)
from couriers.registry import COURIERS
from tracking.request import Slug

SECRET = "T4s6wQ2nB8xK1mV7zR3dF9gH5jL0pC6y"  # noqa: S105 - of no courier
FEDEX, USPS, INPOST = Slug("fedex"), Slug("usps"), Slug("inpost-paczkomaty")
BRING, DHL, UPS = Slug("bring"), Slug("dhl"), Slug("ups")
MINUTE = "2026-11-26T10:12:00Z"

FEDEX_BODY = {
    "outputMetaData": [{"attempt": 1}],
    "transactionId": "624deea6-b709-470c-8c39-4b5511281492",
    "output": {
        "completeTrackResults": [
            {"trackingNumber": "794665654567", "trackResults": [{"scanEvents": []}]},
            {"trackingNumber": "794665654568", "trackResults": []},
        ]
    },
}
BRING_BODY = {
    "status": "IN_TRANSIT",
    "id": "ad84cbca-2e89-43e0-a301-a8d5d7fe7804",
    "shipment": "SHIPMENTNUMBER",
    "package": "TESTPACKAGEDELIVERED",
    "created": "2019-03-16T14:58:48+0000",
    "pushed": "2019-03-16T14:58:49+0000",
}
"""The example of Bring's reference."""
DHL_BODY = {
    "scope": "subscription.push",
    "self": "https://api-eu.dhl.com/tracking/push/v1/subscription/1",
    "shipments": [{"id": "1829852058", "status": {"statusCode": "transit"}}, {"id": "1829852059"}],
}
UPS_BODY = {
    "trackingNumber": " 1Z204W4R0308071865",
    "localActivityDate": "20240423",
    "activityStatus": {"type": "I", "code": "OT", "description": "Out for Delivery"},
}
"""The example of UPS' description; the blank stands in one of its others."""
USPS_BODY = {
    "subscriptionId": "019db15c",
    "subscriptionType": "TRACKING",
    "timestamp": MINUTE,
    "payload": '{"trackingNumber":"9400100000000000000000","status":"Delivered"}',
}
INPOST_BODY = (
    b'{"customerReference":"9000010305","trackingNumber":"120000018332540090213375",'
    b'"eventId":"76b2262a-4274-40a1-8aac-89b048974d75#MMD.1001","eventCode":"MMD.1001",'
    b'"timestamp":"2024-11-25T16:51:40.111968200Z","location":{"id":null,"address":null,'
    b'"city":null,"country":"PL","name":null,"postalCode":null,"type":"LOGISTIC_CENTER",'
    b'"description":null},"delivery":{"recipientName":null,"deliveryNotes":null},'
    b'"shipment":{"type":null}}'
)
INPOST_KEY = "this is example of the HMAC key"
INPOST_SIGNATURE = "i1PzFQMpGoM3YwjcDUEtBwNMCa01kjCykHLLoA5oZtE="
"""InPost prints these three together."""


def written(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def signature(text: bytes, secret: str = SECRET, algorithm: str = "sha256") -> str:
    return base64.b64encode(hmac.digest(secret.encode(), text, algorithm)).decode()


def usps_text(body: bytes) -> bytes:
    envelope = json.loads(body)
    return f"{envelope['timestamp']}{envelope['payload']}".encode()


Signs = Callable[..., Mapping[str, str]]


def signs(header: str, text: Callable[[bytes], bytes] = lambda body: body) -> Signs:
    return lambda body, *how: {header: signature(text(body), *how)}


def carries(header: str) -> Signs:
    return lambda _, secret=SECRET: {header: secret}


GENUINE: Mapping[Slug, tuple[Signs, object, tuple[str, ...]]] = {
    FEDEX: (signs("fdx-signature"), FEDEX_BODY, ("794665654567", "794665654568")),
    USPS: (signs("x-hmac", usps_text), USPS_BODY, ("9400100000000000000000",)),
    INPOST: (signs("x-inpost-signature"), INPOST_BODY, ("120000018332540090213375",)),
    BRING: (carries(SECRET_HEADER), BRING_BODY, ("TESTPACKAGEDELIVERED", "SHIPMENTNUMBER")),
    DHL: (carries(SECRET_HEADER), DHL_BODY, ("1829852058", "1829852059")),
    Slug("dhl-germany"): (carries(SECRET_HEADER), DHL_BODY, ("1829852058", "1829852059")),
    UPS: (carries("credential"), UPS_BODY, ("1Z204W4R0308071865",)),
}
"""Of each courier: how it proves itself, a push as documented, and the numbers in it."""

every_courier = pytest.mark.parametrize("slug", GENUINE)


def test_every_courier_whose_pushes_count_is_tried_here() -> None:
    assert GENUINE.keys() == PUSHES.keys()
    assert PUSHES.keys() <= COURIERS.keys()


@every_courier
def test_a_push_that_is_verified_names_its_numbers(slug: Slug) -> None:
    prove, body, numbers = GENUINE[slug]

    judged = judge(slug, Push(prove(written(body)), written(body)), SECRET)

    assert (judged.verified, judged.why, judged.numbers) == (True, "", numbers)


@every_courier
def test_another_secret_verifies_nothing(slug: Slug) -> None:
    prove, body, _ = GENUINE[slug]

    judged = judge(slug, Push(prove(written(body), SECRET[:-1]), written(body)), SECRET)

    assert judged == Judgement(verified=False, why=NOT_VERIFIED)


@pytest.mark.parametrize("algorithm", ["sha1", "sha512"])
@pytest.mark.parametrize("slug", [FEDEX, USPS, INPOST])
def test_another_algorithm_verifies_nothing(slug: Slug, algorithm: str) -> None:
    prove, body, _ = GENUINE[slug]

    judged = judge(slug, Push(prove(written(body), SECRET, algorithm), written(body)), SECRET)

    assert judged == Judgement(verified=False, why=NOT_VERIFIED)


@every_courier
@pytest.mark.parametrize("value", [None, "", "é" * 44, SECRET.encode().hex()])
def test_without_its_proof_a_push_is_not_verified(slug: Slug, value: str | None) -> None:
    prove, body, _ = GENUINE[slug]
    names = prove(written(body)).keys() if value is not None else ()

    judged = judge(slug, Push(dict.fromkeys(names, value or ""), written(body)), SECRET)

    assert judged == Judgement(verified=False, why=NOT_VERIFIED)


@every_courier
def test_no_secret_verifies_nothing_although_anybody_can_sign_by_none(slug: Slug) -> None:
    prove, body, _ = GENUINE[slug]

    judged = judge(slug, Push(prove(written(body), ""), written(body)), "")

    assert judged == Judgement(verified=False, why=NO_SECRET)


@pytest.mark.parametrize("slug", [FEDEX, USPS, INPOST])
def test_a_signature_holds_for_its_own_text_only(slug: Slug) -> None:
    prove, body, _ = GENUINE[slug]
    other = written(body).replace(b"9", b"8")

    assert judge(slug, Push(prove(written(body)), other), SECRET).why == NOT_VERIFIED


def test_the_signature_that_inpost_prints_is_right() -> None:
    push = Push({"x-inpost-signature": INPOST_SIGNATURE}, INPOST_BODY)

    assert judge(INPOST, push, INPOST_KEY).numbers == ("120000018332540090213375",)


def test_inpost_may_sign_the_time_too() -> None:
    signed = signature(MINUTE.encode() + b"." + INPOST_BODY)
    headers = {"x-inpost-signature": signed, "x-inpost-timestamp": MINUTE}

    assert judge(INPOST, Push(headers, INPOST_BODY), SECRET).verified
    later = headers | {"x-inpost-timestamp": "2026-11-26T10:13:00Z"}
    assert judge(INPOST, Push(later, INPOST_BODY), SECRET).why == NOT_VERIFIED


def test_what_other_couriers_push_is_not_acted_on() -> None:
    prove, body, _ = GENUINE[UPS]

    for slug in COURIERS.keys() - PUSHES.keys():
        judged = judge(slug, Push(prove(written(body)), written(body)), SECRET)
        assert judged == Judgement(verified=False, why=NOT_BUILT)


@every_courier
@pytest.mark.parametrize(
    ("body", "why"), [({}, None), (b"", UNREADABLE), (b"<html>", UNREADABLE), ([], UNREADABLE)]
)
def test_what_is_genuine_and_not_as_documented_names_no_number(
    slug: Slug, body: object, why: str | None
) -> None:
    prove, _, _ = GENUINE[slug]
    if slug == USPS:  # its signature is over what stands in the body
        inner = "" if body == b"" else written(body).decode()
        body = USPS_BODY | {"payload": inner}

    judged = judge(slug, Push(prove(written(body)), written(body)), SECRET)

    without = UNREADABLE if slug == FEDEX else NO_NUMBER
    assert judged == Judgement(verified=True, why=why or without)


def test_what_cannot_be_a_number_is_passed_over() -> None:
    ids = ["", "x", "ab/c", "ä" * 9, "9" * 101, "A@shop12", None, "1829852058", "1829-852058"]
    body = written({"shipments": [{"id": each} for each in ids]})

    judged = judge(DHL, Push({SECRET_HEADER: SECRET}, body), SECRET)

    assert judged.numbers == ("AB/C", "1829852058")


def test_of_a_hundred_numbers_and_more_the_first_hundred_count() -> None:
    ids = [f"{1_000_000_000 + at // 2}" for at in range(2_000)]
    body = written({"shipments": [{"id": each} for each in ids]})

    judged = judge(DHL, Push({SECRET_HEADER: SECRET}, body), SECRET)

    assert judged.numbers == tuple(dict.fromkeys(ids))[:NUMBERS_MOST]


DEEP = b'{"shipments":' + b"[" * 200_000
HEADERS = sorted({each for prove, body, _ in GENUINE.values() for each in prove(written(body))})
MEMBERS = ["trackingNumber", "output", "completeTrackResults", "timestamp", "payload"]
MEMBERS += ["shipments", "id", "package", "shipment"]
hostile_bodies = st.one_of(
    st.binary(max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(MEMBERS),
                inner,
            )
        ),
        max_leaves=8,
    ).map(written),
)


@given(
    slug=st.sampled_from(sorted(PUSHES)),
    body=hostile_bodies,
    headers=st.dictionaries(st.sampled_from(HEADERS), st.text(max_size=60)),
    secret=st.text(max_size=40),
)
@example(slug=DHL, body=DEEP, headers={SECRET_HEADER: SECRET}, secret=SECRET)
@example(slug=USPS, body=DEEP, headers={"x-hmac": "x"}, secret=SECRET)
@example(slug=BRING, body=b'{"package":"\\ud800"}', headers={SECRET_HEADER: SECRET}, secret=SECRET)
def test_hostile_bytes_never_raise_and_name_nothing_unverified(
    slug: Slug, body: bytes, headers: dict[str, str], secret: str
) -> None:
    judged = judge(slug, Push(headers, body), secret)

    assert judged.verified or (judged.numbers == () and judged.why)
    assert bool(judged.numbers) is not bool(judged.why)
    proven: Any = pushes.PUSHES[slug].numbers(body)
    assert proven is None or all(each is None or isinstance(each, str) for each in proven)


def test_proofs_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(given: bytes, right: bytes) -> bool:
        compared.append(given)
        return given == right

    monkeypatch.setattr(hmac, "compare_digest", compare)

    for slug, (prove, body, _) in GENUINE.items():
        assert judge(slug, Push(prove(written(body)), written(body)), SECRET).verified

    assert len(compared) == len(GENUINE)
