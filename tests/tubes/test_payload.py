"""Bodies that are refused, each with its reason and never with anything else."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tubes_bodies import NUMBER, OPTIONAL, body, decode, request, resolve

from service.worker.tubes.envelope import BODY_MOST, DRAINS_TUBE, decode_drain
from service.worker.tubes.payload import read_strictly
from tracking.errors import MalformedJob

DEEP = b"[" * 100_000

HOSTILE: list[tuple[str, str, bytes]] = [
    ("too_big", "one byte too long", request() + b" " * (BODY_MOST + 1 - len(request()))),
    ("too_big", "too long to look at", b"\xff" * (BODY_MOST + 1)),
    ("bad_utf8", "a lone byte", b'{"type":"\xff"}'),
    ("bad_utf8", "UTF-16", request().decode().encode("utf-16")),
    ("bad_json", "empty", b""),
    ("bad_json", "cut", request()[:-1]),
    ("bad_json", "more after the end", request() + b"{}"),
    ("bad_json", "a byte order mark", b"\xef\xbb\xbf" + request()),
    ("bad_json", "deep lists", DEEP[:60_000]),
    ("bad_json", "deep objects", b'{"a":' * 12_000),
    ("bad_json", "an endless integer", b'{"type":' + b"1" * 5000 + b"}"),
    ("bad_json", "NaN", request(max_age=float("nan"))),
    ("bad_json", "Infinity", request(max_age=float("inf"))),
    ("bad_json", "the slug twice", request().replace(b'"slug"', b'"slug":"dhl","slug"')),
    ("bad_json", "a twin deep inside", request(x={"a": {"b": 1}}).replace(b'"b"', b'"b":0,"b"')),
    ("bad_json", "a twin by escape", request().replace(b'"slug"', b'"\\u0073lug":"dhl","slug"')),
    ("bad_json", "a control character", request().replace(b"usps", b"us\nps")),
    ("bad_shape", "a text", b'"requests_flow"'),
    ("bad_shape", "null", b"null"),
    ("bad_shape", "a number", b"7"),
    ("bad_shape", "an empty list", b"[]"),
    ("bad_shape", "a wrapper of one", b'["requests_flow"]'),
    ("bad_shape", "a wrapper of three", b'["requests_flow",{},{}]'),
    ("bad_shape", "a wrapper the wrong way round", b'[{},"requests_flow"]'),
    ("bad_shape", "a wrapper in a wrapper", b'["requests_flow",["requests_flow",{}]]'),
    ("bad_shape", "no type", b'{"payload":{"slug":"usps","number":"94059036"}}'),
    ("bad_shape", "a type that is a list", body({"slug": "usps", "number": NUMBER}, ["x"])),
    ("bad_shape", "no payload", b'{"type":"requests_flow"}'),
    ("bad_shape", "a payload that is a text", body("usps")),
    ("wrong_tube", "another type", body({"slug": "usps"}, DRAINS_TUBE)),
    ("wrong_tube", "another wrapper", b'["wait_list",' + request() + b"]"),
    ("wrong_tube", "a wrapper for another type", b'["requests_flow",{"type":"wait_list"}]'),
    ("bad_slug", "no slug", body({"number": NUMBER})),
    ("bad_slug", "a slug that is a number", request(slug=7)),
    ("bad_slug", "a slug that is null", request(slug=None)),
    ("bad_slug", "upper case", request(slug="USPS")),
    ("bad_slug", "a path", request(slug="../usps")),
    ("bad_slug", "a line end", request(slug="usps\n")),
    ("bad_slug", "two hyphens", request(slug="dpd--uk")),
    ("bad_slug", "too long", request(slug="a" * 65)),
    ("bad_slug", "very long", request(slug="a" * 50_000)),
    ("bad_slug", "a lone surrogate", request(slug="\ud800")),
    ("unknown_slug", "no courier", request(slug="pigeon-post")),
    ("unknown_slug", "an attribute", request(slug="constructor")),
    ("bad_number", "no number", body({"slug": "usps"})),
    ("bad_number", "an integer", request(number=9405903699300184125060)),
    ("bad_number", "an operator", request(number={"$ne": None})),
    ("bad_number", "null", request(number=None)),
    ("bad_number", "too short", request(number="A-B C")),
    ("bad_number", "too long", request(number="A" * 101)),
    ("bad_number", "very long blanks", request(number=" " * 300 + NUMBER)),
    ("bad_number", "no ASCII", request(number="940590Ω6993")),
    ("bad_number", "a lone surrogate", request(number="\ud8009405903699")),
    ("bad_number", "NUL", request(number="9405\x0090369")),
    ("bad_number", "a query", request(number="9405?x=1")),
    ("bad_number", "a slash first", request(number="/etc/passwd")),
    ("bad_id", "empty", request(id="")),
    ("bad_id", "too long", request(id="x" * 129)),
    ("bad_id", "a blank", request(id="a b")),
    ("bad_id", "a line end", request(id="a\n")),
    ("bad_id", "an integer", request(id=7)),
    ("bad_id", "no ASCII", request(id="é")),
    ("bad_origin", "lower case", request(origin="manual")),
    ("bad_origin", "a list", request(origin=["MANUAL"])),
    ("bad_origin", "a truth value", request(origin=True)),
    ("bad_webhook", "no id", request(webhook="shop")),
    ("bad_webhook", "empty", request(id="order-1", webhook="")),
    ("bad_webhook", "too long", request(id="order-1", webhook="x" * 21)),
    ("bad_webhook", "capitals", request(id="order-1", webhook="Shop")),
    ("bad_webhook", "an address", request(id="order-1", webhook="https://shop.example")),
    ("bad_webhook", "no id, and a reply", request(webhook="shop", cancel_webhook_on_reply=True)),
    ("bad_webhook", "a list", request(id="order-1", webhook=["shop"])),
    ("bad_max_age", "negative", request(max_age=-1)),
    ("bad_max_age", "a truth value", request(max_age=True)),
    ("bad_max_age", "a text", request(max_age="30")),
    ("bad_max_age", "infinite by exponent", request(max_age=7).replace(b"7}", b"1e999}")),
    ("bad_max_age", "a huge integer", request(max_age=10**400)),
    ("bad_expires_in", "negative", request(expires_in=-0.5)),
    ("bad_expires_in", "a truth value", request(expires_in=False)),
    ("bad_expires_in", "a list", request(expires_in=[60])),
    ("bad_field", "a number", request(tracking_postal_code=33101)),
    ("bad_field", "too long", request(tracking_key="x" * 257)),
    ("bad_field", "a line end", request(tracking_key="a\r\nb")),
    ("bad_field", "NUL", request(tracking_state="\x00")),
    ("bad_field", "a lone surrogate", request(tracking_key="\udfff")),
    ("bad_field", "an object", request(tracking_origin_country={"$gt": ""})),
]


@pytest.mark.parametrize(
    ("reason", "written"),
    [(reason, written) for reason, _, written in HOSTILE],
    ids=[f"{reason}: {what}" for reason, what, _ in HOSTILE],
)
def test_a_hostile_body_is_malformed_with_its_reason(reason: str, written: bytes) -> None:
    with pytest.raises(MalformedJob) as caught:
        decode(written)

    assert caught.value.reason == reason
    assert 0 < len(caught.value.detail) < 500
    caught.value.detail.encode()


@pytest.mark.parametrize(
    ("written", "slug", "number"),
    [
        (body({"slug": "usps"}), "usps", None),
        (request(slug="hkpost", number=9405903699), "hong-kong-post", "9405903699"),
        (request(slug="my-courir"), "my-courir", NUMBER),
        (request(slug="USPS", number="x"), "USPS", "x"),
        (b'["wait_list",' + request() + b"]", "usps", NUMBER),
        (body({"slug": "usps", "number": NUMBER}, "no tube"), "usps", NUMBER),
        (request(slug="a" * 999, number="1" * 999), "a" * 64, "1" * 100),
        (request(slug=["usps"], number=True), None, None),
        (body("usps"), None, None),
        (b'[1,"usps"]', None, None),
        (b"", None, None),
    ],
)
def test_a_malformed_job_tells_what_its_body_calls_courier_and_number(
    written: bytes, slug: str | None, number: str | None
) -> None:
    with pytest.raises(MalformedJob) as caught:
        decode(written)

    assert (caught.value.slug, caught.value.number) == (slug, number)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (b"", "the body is empty: write a JSON object"),
        (b'{"type":"ab\xff"}', "byte 11 is not UTF-8: write the JSON in UTF-8"),
        (b'{"a":1', "not JSON: Expecting ',' delimiter: line 1 column 7 (char 6)"),
        (b"7", 'the body is a number: write an object, {"type": "requests_flow", "payload": {…}}'),
        (b'{"payload":{}}', '`type` is missing: write "type": "requests_flow"'),
        (body({}, "x"), "`type` is 'x': write \"requests_flow\""),
        (b'["x",{}]', "wrapped for 'x': write \"requests_flow\""),
        (body([]), '`payload` is an array: write an object, {"slug": "…", …}'),
        (body({"slug": "usps"}), "`number` is missing: write a string, in quotes"),
        (request(number=9405), "`number` is a number: write a string, in quotes"),
        (request(id=7), "`id` must be a string of 1 to 128 of A-Z a-z 0-9 . _ : -"),
        (request(origin="auto"), '`origin` must be "MANUAL" or "AUTOMATIC"'),
        (
            request(max_age="30"),
            "`max_age` must be a number of seconds, from 0 to 100000000000, without quotes",
        ),
    ],
)
def test_the_detail_says_what_is_wrong_and_what_to_write(written: bytes, told: str) -> None:
    with pytest.raises(MalformedJob) as caught:
        decode(written)

    assert caught.value.detail == told


def test_the_longest_id_and_the_largest_body_are_accepted() -> None:
    longest = request(id="x" * 128)

    assert decode(longest + b" " * (BODY_MOST - len(longest))).id == "x" * 128


@given(st.binary(max_size=400))
def test_no_bytes_whatever_raise_anything_but_malformed(written: bytes) -> None:
    for read in (decode, lambda each: decode_drain(each, resolve)):
        with pytest.raises(MalformedJob):
            read(written)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
MEMBERS = st.sampled_from(["slug", "number", *OPTIONAL, "other"])


@given(st.dictionaries(MEMBERS, JSON), JSON)
def test_no_members_whatever_raise_anything_but_malformed(payload: Any, meta: Any) -> None:
    given_payload = {"slug": "usps", "number": NUMBER} | payload
    with contextlib.suppress(MalformedJob):
        assert decode(body(given_payload, meta=meta)).slug in {"usps", "hong-kong-post", "estes"}


@pytest.mark.parametrize(
    ("reason", "written"),
    [
        ("wrong_tube", request()),
        ("bad_slug", body({}, DRAINS_TUBE)),
        ("unknown_slug", body({"slug": "pigeon-post"}, DRAINS_TUBE)),
        ("bad_line", body({"slug": "usps", "line": 7}, DRAINS_TUBE)),
        ("bad_json", b"usps"),
    ],
)
def test_a_malformed_drain_job_is_refused(reason: str, written: bytes) -> None:
    with pytest.raises(MalformedJob) as caught:
        decode_drain(written, resolve)

    assert caught.value.reason == reason


def test_what_is_written_once_is_read() -> None:
    body = b'\n{"a": "a:b", "\\u0062": {"a": [1e3, null, "\\ud83d\\ude00"]}}\t'

    assert read_strictly(body) == {"a": "a:b", "b": {"a": [1000.0, None, "\U0001f600"]}}


@pytest.mark.parametrize(
    "body",
    [
        b'{"a" :"1","a":"2"}',
        b'{"a":"1","\\u0061":"2"}',
        b'{"a":{"b":{"c":"","c":""}}}',
        b'{"a":NaN}',
        b"[-Infinity]",
        b"",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"a":"\xff"}',
        b'{"a":"\t"}',
    ],
)
def test_what_is_written_twice_or_wrongly_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_strictly(body)


def test_what_is_too_deep_raises_an_error_of_its_own() -> None:
    with pytest.raises(RecursionError):
        read_strictly(b'{"a":' * 20_000)
