"""Bodies of jobs: what is read, what is refused, and that what we write is read back."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tubes_bodies import COURIERS, NOW, NUMBER, OPTIONAL, body, decode, request, resolve

from service.worker.flow.handle import letter_of_malformed
from service.worker.tubes.envelope import (
    REQUESTS_TUBE,
    decode_drain,
    decode_request,
    encode_drain,
    encode_payload,
    encode_request,
    needs_age,
)
from service.worker.tubes.payload import request_from
from tracking.errors import MalformedJob, UnknownLine
from tracking.line import Line
from tracking.request import (
    FIELDS,
    MAIN,
    Account,
    Origin,
    Slug,
    TrackingRequest,
    account_and_id,
    operation_id,
)


def test_the_bare_request_of_the_contract_is_read() -> None:
    written = (
        b'{"type":"requests_flow","payload":{"slug":"usps","number":"9405903699300184125060"}}'
    )

    assert decode(written) == TrackingRequest(Slug("usps"), NUMBER, NUMBER)


def test_every_optional_member_is_read() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    payload = {
        "slug": "usps",
        "number": " 9405 9036 9930 0184 1250 60 ",
        "id": "shop:42.a-b_c",
        "origin": "AUTOMATIC",
        "max_age": 0,
        "expires_in": 60,
        "tracking_postal_code": "33101",
        "tracking_key": "Zürich",
        "colour": {"un": ["known"]},
    }

    read = decode(body(payload, meta={"traceparent": parent, "enqueued_at": NOW - 10}, extra=1))

    assert read == TrackingRequest(
        Slug("usps"),
        NUMBER,
        " 9405 9036 9930 0184 1250 60 ",
        id="shop:42.a-b_c",
        origin=Origin.AUTOMATIC,
        max_age=0.0,
        expires_at=NOW + 50,
        fields={"tracking_postal_code": "33101", "tracking_key": "Zürich"},
        traceparent=parent,
        put_at=NOW - 10,
    )


def test_a_mapping_is_read_as_the_body_that_holds_it() -> None:
    payload = {"slug": "hkpost", "number": NUMBER, "expires_in": 60, "tracking_key": "Zürich"}
    meta = {"enqueued_at": NOW - 10}

    read = request_from(payload, resolve, meta, clock=lambda: NOW)

    assert (read.slug, read.expires_at) == ("hong-kong-post", NOW + 50)
    assert decode(encode_payload(payload, meta)) == read


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "bad_slug"),
        ({"slug": ["usps"], "number": NUMBER}, "bad_slug"),
        ({"slug": "upps", "number": NUMBER}, "unknown_slug"),
        ({"slug": "usps", "number": "!!"}, "bad_number"),
        ({"slug": "usps", "number": NUMBER, "max_age": float("nan")}, "bad_max_age"),
    ],
)
def test_a_mapping_is_refused_for_the_reason_of_its_body(
    payload: dict[str, Any], reason: str
) -> None:
    with pytest.raises(MalformedJob) as refused:
        request_from(payload, resolve)

    assert refused.value.reason == reason


@pytest.mark.parametrize("alone", [True, False, None, 1, "true"])
def test_a_number_that_takes_a_call_of_its_own_is_one_that_says_true(alone: object) -> None:
    read = decode(request(alone=alone))

    assert read.alone is (alone is True)
    assert decode(encode_request(read)) == read
    assert (b"alone" in encode_request(read)) is read.alone


def test_the_wrapper_of_fivebeans_is_accepted() -> None:
    wrapped = json.dumps([REQUESTS_TUBE, json.loads(request())]).encode()

    assert decode(wrapped) == decode(request())


def test_an_alias_becomes_the_couriers_own_slug() -> None:
    assert decode(request(slug="hkpost", number="EA999580311HK")).slug == "hong-kong-post"


def test_hyphens_are_kept_only_where_the_courier_uses_them() -> None:
    assert decode(request(number="143-0036202-0")).number == "143003620" + "20"
    assert decode(request(slug="estes", number="143-0036202-0")).number == "143-0036202-0"


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_optional_member_that_is_null_is_absent(name: str) -> None:
    assert decode(request(**{name: None})) == decode(request())


@pytest.mark.parametrize("name", FIELDS)
def test_a_blank_field_is_absent(name: str) -> None:
    assert decode(request(**{name: "  "})) == decode(request())


@pytest.mark.parametrize(
    "meta", [None, 7, [], "x", {"traceparent": 7}, {"traceparent": "\ud800"}, {"enqueued_at": []}]
)
def test_a_meta_that_cannot_be_read_is_ignored(meta: Any) -> None:
    written = body({"slug": "usps", "number": NUMBER}, meta=meta)

    assert decode(written) == decode(request())


@pytest.mark.parametrize(
    ("enqueued_at", "expected"),
    [
        (NOW - 100, NOW - 40),
        (int(NOW - 100) * 1000, NOW - 40),
        ("2026-02-02T02:38:20+00:00", NOW - 40),
        ("2026-02-02T10:38:20+08:00", NOW - 40),
        (NOW + 3600, NOW + 60),
        ("2026-02-02T02:38:20", NOW + 57),
        (True, NOW + 57),
        (-1, NOW + 57),
        (1e300, NOW + 57),
        ("soon", NOW + 57),
    ],
    ids=["seconds", "milliseconds", "UTC", "offset", "ahead", "no zone", "bool", "negative",
         "absurd", "no time"],
)  # fmt: skip
def test_expiry_counts_from_the_put_and_else_from_the_age(
    enqueued_at: Any, expected: float
) -> None:
    payload = {"slug": "usps", "number": NUMBER, "expires_in": 60}

    read = decode(body(payload, meta={"enqueued_at": enqueued_at}), age_seconds=3.0)

    assert read.expires_at == expected


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (request(), False),
        (request(expires_in=5), True),
        (request().replace(b'"slug"', b'"\\u0065xpires_in":5,"slug"'), True),
    ],
)
def test_the_age_is_wanted_only_where_it_may_count(written: bytes, *, wanted: bool) -> None:
    assert needs_age(written) is wanted
    assert (decode(written).expires_at is not None) is wanted


SECONDS = st.none() | st.floats(0, 1e9) | st.integers(0, 10**9).map(float)
IDS = st.none() | st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True)
PARENT = r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
PARENTS = st.none() | st.from_regex(PARENT, fullmatch=True)
TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=256)


@st.composite
def requests(draw: st.DrawFn) -> TrackingRequest:
    slug, keep = draw(st.sampled_from(list(COURIERS.values())))
    number = draw(st.from_regex(r"[A-Z0-9][A-Z0-9._/]{3,99}", fullmatch=True))
    given_number = draw(st.sampled_from(["", " ", "\t"])) + number.lower()
    fields = draw(st.dictionaries(st.sampled_from(list(FIELDS)), TEXTS.filter(str.strip)))
    assert keep in {"", "-"}
    return TrackingRequest(
        slug,
        number,
        given_number,
        id=draw(IDS),
        origin=draw(st.sampled_from(Origin)),
        max_age=draw(SECONDS),
        expires_at=draw(SECONDS),
        fields=fields,
        traceparent=draw(PARENTS),
    )


@given(requests())
def test_a_request_written_as_a_job_is_read_back_as_the_same_request(
    asked: TrackingRequest,
) -> None:
    by_slug = {slug: (slug, keep) for slug, keep in COURIERS.values()}

    assert decode_request(encode_request(asked), by_slug.__getitem__, 77.0) == asked


def test_the_longest_request_in_ascii_fits_into_a_dead_letter() -> None:
    longest = TrackingRequest(
        Slug("a" * 64),
        "9" * 100,
        "9" * 100 + " " * 156,
        id="x" * 128,
        origin=Origin.AUTOMATIC,
        max_age=0.1 + 0.2,
        expires_at=NOW + 0.1,
        fields=dict.fromkeys(FIELDS, "x" * 256),
        traceparent="0" * 55,
        webhook="x" * 20,
    )

    assert len(encode_request(longest)) < 4096


def test_the_drain_job_is_the_one_of_the_contract() -> None:
    written = encode_drain(Slug("usps"))

    assert written == b'{"type":"wait_list","payload":{"slug":"usps"}}'
    assert decode_drain(written, resolve) == "usps"


def test_a_drain_job_may_name_its_line() -> None:
    assert decode_drain(b'{"type":"wait_list","payload":{"line":"usps"}}', resolve) == "usps"


def test_a_drain_job_of_a_line_that_is_no_couriers_names_the_line() -> None:
    with pytest.raises(UnknownLine) as caught:
        decode_drain(encode_drain(Line("~shop")), resolve)

    assert caught.value.line == "~shop"


@pytest.mark.parametrize("line", ["usps@acme", "hook:shop", "pigeon-post", ""])
def test_a_line_that_is_not_known_is_no_malformed_drain_job(line: str) -> None:
    written = json.dumps({"type": "wait_list", "payload": {"slug": "usps", "line": line}})

    with pytest.raises(UnknownLine) as caught:
        decode_drain(written.encode(), resolve)

    assert caught.value.line == line


def identity(**more: Any) -> str | None:
    return decode(request(**more)).id


def test_the_ids_of_main_stand_bare_and_those_of_others_behind_their_account() -> None:
    assert identity(id="a") == identity(id="a", account="main") == "a"
    assert identity(id="a", account="shop") == "shop/a"
    assert identity(account="shop") is None
    assert identity(id="a", account=None) == "a"


def test_a_request_is_written_as_it_was_read() -> None:
    written = request(id="a", account="shop", webhook="shop", cancel_webhook_on_reply=True)

    assert json.loads(encode_request(decode(written))) == json.loads(written)


@pytest.mark.parametrize("account", ["", "Shop", "a-b", "a/b", "x" * 21, 7, ["shop"], {}])
def test_what_is_no_account_is_malformed(account: object) -> None:
    with pytest.raises(MalformedJob) as caught:
        identity(id="a", account=account)
    assert caught.value.reason == "bad_account"


def test_no_id_of_a_producer_reaches_into_another_account() -> None:
    with pytest.raises(MalformedJob, match="bad_id"):
        identity(id="shop/a")


@pytest.mark.parametrize(
    ("operation", "account", "given_id"),
    [
        ("a", MAIN, "a"),
        ("shop/a", Account("shop"), "a"),
        ("usps:A B/1:Zm9v", MAIN, "usps:A B/1:Zm9v"),
    ],
)
def test_an_operation_tells_whose_it_is(operation: str, account: Account, given_id: str) -> None:
    assert account_and_id(operation) == (account, given_id)
    assert operation_id(account, given_id) == operation


@pytest.mark.parametrize(
    ("more", "operation"),
    [
        ({"id": "a", "slug": "no-such"}, "a"),
        ({"id": "a", "account": "shop", "origin": "??"}, "shop/a"),
        ({"id": "a b", "origin": "??"}, None),
        ({"id": "a", "account": "?"}, None),
    ],
)
def test_a_malformed_job_is_recorded_under_the_id_that_it_names(
    more: dict[str, Any], operation: str | None
) -> None:
    job: Any = SimpleNamespace(key="k", body=request(**more), server="127.0.0.1:11300", id=1)
    with pytest.raises(MalformedJob) as caught:
        decode(job.body)

    letter = letter_of_malformed(job, caught.value)
    assert letter.operations == ((operation,) if operation else ())


@pytest.mark.parametrize(
    ("more", "service"),
    [
        ({"id": "a", "number": "?", "webhook": "shop"}, "shop"),
        ({"id": "a", "number": "?", "webhook": "The Shop"}, None),
        ({"number": "?", "webhook": "shop"}, None),
        ({"id": "a", "number": "?"}, None),
    ],
)
def test_a_malformed_job_names_the_service_that_is_to_hear_of_it(
    more: dict[str, Any], service: str | None
) -> None:
    with pytest.raises(MalformedJob) as caught:
        decode(request(**more))

    assert caught.value.webhook == service
