"""Whatever is posted is a job that workers read, or refused by its place; so is saved output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from damage import damaged
from hypothesis import example, given
from hypothesis import strategies as st
from portion import examples

from service.config.load import load
from service.operator.catalogue import Catalogue
from service.operator.put import PostedRequest, SeenIds, Sendable, jobs_of_posted, read_posted
from service.operator.spool import saved_in
from service.worker.tubes.envelope import BODY_MOST, decode_request
from tracking.errors import MalformedJob
from tracking.request import FIELDS

pytestmark = pytest.mark.portion

CATALOGUE = Catalogue(load(None, {}, Path("/")).config)
FULL = {
    "slug": "usps",
    "number": "9405 9036-9930",
    "id": "order:1",
    "origin": "AUTOMATIC",
    "max_age": 0.5,
    "expires_in": 3600,
    **dict.fromkeys(FIELDS, "33101"),
}
WHOLE = json.dumps([FULL, FULL]).encode()
SAVED = (
    b'ingest-1  | {"spooled":{"type":"requests_flow","payload":%b,"meta":{"enqueued_at":1}}}\n'
    % (json.dumps(FULL).encode())
)
PIECES = (b'"', b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"1e999", b"-1", b"\\ud800")

DESCRIBED = jsonschema_rs.Draft202012Validator(msgspec.json.schema(PostedRequest))
OF_THE_COURIER = {"unknown_slug", "bad_number", "no_slug"}
"""Why a request may be refused that has the form which `/openapi.json` describes."""

EDGES: tuple[Any, ...] = (
    *(None, True, [], {}, 0, -1, -0.0, 0.5, 5e-324, 1e11, 100_000_000_001, 10**400, -(10**400)),
    *("", " ", "-", "a--b", "USPS", "usps", "hkpost", "a\n", "a\x7f", "ü", "MANUAL", "AUTOMATIC"),
    *("a" * length for length in (1, 3, 4, 64, 65, 128, 129, 256, 257)),
)
VALUES = st.sampled_from(EDGES) | st.text(max_size=6) | st.integers() | st.floats(-1e12, 1e12)


@given(damaged(WHOLE, PIECES) | st.binary(max_size=60))
@example(b'[{"slug":"usps","number":"94001","tracking_key":"\\ud800"}]')
@example(b'[{"slug":"usps","number":"\xef\xbc\x91\xef\xbc\x91\xef\xbc\x91\xef\xbc\x91"}]')
@examples(60)
def test_what_is_posted_becomes_jobs_that_workers_read_or_refusals(body: bytes) -> None:
    try:
        read = read_posted(body)
    except MalformedJob:
        return
    posted = read if isinstance(read, list) else [read]

    good, refused, _ = jobs_of_posted(posted, CATALOGUE, SeenIds())

    assert sorted([each.row for each in good] + [each.index for each in refused]) == list(
        range(len(posted))
    )
    for each in good:
        request = decode_request(each.body, CATALOGUE.resolve)
        assert (request.id, request.slug, request.number) == (each.id, each.slug, each.number)
        assert len(each.body) < BODY_MOST
    assert all(each.reason and each.detail for each in refused)


def check(posted: Any) -> None:
    good, refused, _ = jobs_of_posted([posted], CATALOGUE, SeenIds())

    if DESCRIBED.is_valid(posted):
        assert good or refused[0].reason in OF_THE_COURIER
    else:
        assert refused


@pytest.mark.parametrize("name", FULL)
def test_what_the_document_describes_is_taken_and_all_else_is_refused(name: str) -> None:
    for value in EDGES:
        check(FULL | {name: value})
        check(value)
    check({member: value for member, value in FULL.items() if member != name})


@given(st.dictionaries(st.sampled_from(sorted(FULL)), VALUES, max_size=2))
@examples(60)
def test_so_it_is_with_whatever_stands_in_a_request(members: dict[str, Any]) -> None:
    check(FULL | members)


@given(damaged(SAVED, PIECES) | st.binary(max_size=60))
@examples(60)
def test_saved_output_holds_requests_or_lines_that_are_named(line: bytes) -> None:
    for each in saved_in([line], "file", CATALOGUE):
        if isinstance(each, Sendable):
            assert decode_request(each.body, CATALOGUE.resolve).number == each.number
        else:
            assert each.where == "file:1"
