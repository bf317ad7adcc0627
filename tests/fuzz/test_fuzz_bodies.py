"""Whatever is put on a tube is a request of docs/interface.md §1, or malformed with its reason."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from typing import Any

import pytest
from damage import damaged
from hypothesis import example, given
from hypothesis import strategies as st
from portion import examples
from tubes_bodies import COURIERS, NOW, resolve

from limits.keys import write_request
from service.worker.tubes import envelope
from service.worker.tubes.envelope import (
    BODY_MOST,
    decode_drain,
    decode_request,
    encode_drain,
    encode_request,
    needs_age,
)
from tracking.errors import MalformedJob
from tracking.request import FIELDS, Origin, Slug, TrackingRequest

pytestmark = pytest.mark.portion

REASONS = set(re.findall(r"^([a-z_0-9]+) {2,}", envelope.__doc__ or "", re.MULTILINE)) - {"reason"}

SECONDS = 5.0
"""For one body, on a busy machine: an honest one takes a thousandth of that."""

BYTES = 32 * 1024 * 1024

FULL: dict[str, Any] = {
    "type": "requests_flow",
    "payload": {
        "slug": "usps",
        "number": "9405 9036-9930",
        "id": "order:1",
        "origin": "AUTOMATIC",
        "max_age": 0.5,
        "expires_in": 3600,
        **dict.fromkeys(FIELDS, "33101"),
    },
    "meta": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "enqueued_at": "2026-01-05T08:15:00Z"},
}
WHOLE = json.dumps(FULL).encode()
PIECES = (
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\\u0000", b"\\ud800", b"\\u0073lug"),
    *(b"null", b"true", b"NaN", b"-Infinity", b"-0", b"1e999", b"1E-400", b"9" * 400, b"0.1"),
    *(b'"slug":"dhl",', b'"x":{"$ne":null},', b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xe2\x80\x8b"),
)
TEXTS = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    ["usps", "hkpost", "9405903699", "ab 12-34", "MANUAL", "AUTOMATIC", "2026-01-05T08:15:00Z"]
)
NUMBERS = (
    st.integers(-(10**30), 10**30)
    | st.floats()
    | st.sampled_from([10**400, 1e11, 1e11 + 1, 1e14, -0.0, 5e-324, 1e308])
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
PLAIN = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 ._/-]{3,20}", fullmatch=True)
PAYLOADS = st.fixed_dictionaries(
    {"slug": st.sampled_from(list(COURIERS)) | VALUES, "number": PLAIN | TEXTS | VALUES},
    optional={
        "id": st.from_regex(r"[A-Za-z0-9._:-]{1,8}", fullmatch=True) | VALUES,
        "origin": st.sampled_from(["MANUAL", "AUTOMATIC"]) | VALUES,
        "max_age": NUMBERS | VALUES,
        "expires_in": NUMBERS | VALUES,
        **dict.fromkeys(FIELDS, TEXTS | VALUES),
    },
)
METAS = st.fixed_dictionaries(
    {}, optional={"traceparent": TEXTS | VALUES, "enqueued_at": NUMBERS | TEXTS | VALUES}
)


def read_or_refused(body: bytes, age: float = 0.0) -> TrackingRequest | None:
    """Decode; None for a refusal, which must say why. Anything else fails the test."""
    needs_age(body)
    began = time.monotonic()
    try:
        request = decode_request(body, resolve, age, lambda: NOW)
    except MalformedJob as error:
        assert_it_says_why(error)
        return None
    finally:
        assert time.monotonic() - began < SECONDS
    assert_of_the_contract(request)
    return request


def assert_it_says_why(error: MalformedJob) -> None:
    assert error.reason in REASONS
    assert 0 < len(error.detail) < 500
    str(error).encode()


def assert_of_the_contract(request: TrackingRequest) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", request.slug)
    assert re.fullmatch(r"[A-Z0-9][A-Z0-9 ._/-]{3,99}", request.number)
    assert request.slug in {slug for slug, _ in COURIERS.values()}
    assert request.id is None or re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", request.id)
    assert request.origin in Origin
    assert request.max_age is None or 0 <= request.max_age < 1e12
    assert request.expires_at is None or 0 <= request.expires_at < 1e12
    assert set(request.fields) <= set(FIELDS)
    assert all(text.strip() for text in request.fields.values())
    # As a job again it is the same request, but for its put time where it expires; and Redis'
    # scripts can read it.
    same = request if request.expires_at is None else request._replace(put_at=None)
    assert decode_request(encode_request(request), resolve, 0.0, lambda: NOW) == same
    json.loads(write_request(request, "key"))


def body(payload: object, **more: object) -> bytes:
    return json.dumps({"type": "requests_flow", "payload": payload, **more}).encode()


@examples(40)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused(written: bytes) -> None:
    assert read_or_refused(written) is None
    with pytest.raises(MalformedJob):
        decode_drain(written, resolve)


@examples(120)
@given(damaged(WHOLE, PIECES))
def test_a_damaged_request_is_read_or_refused(written: bytes) -> None:
    read_or_refused(written)


@examples(120)
@given(PAYLOADS, METAS | VALUES, st.floats(0, 1e9))
@example({"slug": "usps", "number": "ABCD1", "expires_in": 1e11}, {}, 0.0)
@example(
    {"slug": "usps", "number": "ABCD1", "expires_in": 5},
    {"enqueued_at": "1960-01-01T00:00:00Z"},
    0.0,
)
def test_any_members_are_read_or_refused(payload: Any, meta: Any, age: float) -> None:
    read_or_refused(body(payload, meta=meta), age)


@examples(30)
@given(
    payload=PAYLOADS,
    wrapper=st.sampled_from(["requests_flow", "wait_list"]) | VALUES,
    turned=st.booleans(),
)
def test_any_wrapper_is_read_or_refused(payload: Any, wrapper: Any, *, turned: bool) -> None:
    inner = {"type": "requests_flow", "payload": payload}
    wrapped = [inner, wrapper] if turned else [wrapper, inner]

    request = read_or_refused(json.dumps(wrapped).encode())

    assert request is None or (wrapper == "requests_flow" and not turned)


@examples(20)
@given(damaged(encode_drain(Slug("hong-kong-post")), PIECES))
def test_a_damaged_drain_job_names_a_courier_or_is_refused(written: bytes) -> None:
    try:
        slug = decode_drain(written, resolve)
    except MalformedJob as error:
        assert_it_says_why(error)
    else:
        assert slug in {"usps", "hong-kong-post", "estes"}


def filled(piece: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    """As large as a body may be."""
    return before + piece * ((BODY_MOST - len(before) - len(after)) // len(piece)) + after


def twins() -> bytes:
    """As many keys as there is room for, and only the last one stands twice."""
    keys = ",".join(f'"{number:x}":1' for number in range(7_000))
    return f'{{{keys},"zz":1,"zz":2}}'.encode()


LARGEST = {
    "lists in lists": filled(b"["),
    "objects in objects": filled(b'{"a":'),
    "closed lists": b"[" * 30_000 + b"]" * 30_000,
    "many keys": twins(),
    "many twins": filled(b'"a":1,', b"{", b'"a":1}'),
    "many numbers": filled(b"1e9,", b"[", b"1]"),
    "one number": filled(b"9", b"[", b"]"),
    "one fraction": filled(b"9", b"[0.", b"]"),
    "one exponent": filled(b"9", b"[1e-", b"]"),
    "escapes": filled(b"\\ud83d\\ude00", b'["', b'"]'),
    "a long slug": filled(b"a-", b'{"type":"requests_flow","payload":{"slug":"', b'a"}}'),
    "a long number": filled(
        b" A-", b'{"type":"requests_flow","payload":{"slug":"usps","number":"', b'"}}'
    ),
}


@pytest.mark.parametrize("written", LARGEST.values(), ids=LARGEST)
def test_the_largest_bodies_cost_little_memory_and_time(written: bytes) -> None:
    assert len(written) <= BODY_MOST
    tracemalloc.start()
    try:
        assert read_or_refused(written) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < BYTES


def test_a_body_with_thousands_of_keys_holds_nobody_up() -> None:
    """One that stands twice was looked for by comparing each key with each other one."""
    began = time.process_time()
    for _ in range(10):
        assert read_or_refused(twins()) is None

    assert time.process_time() - began < 1.0
