"""Whatever is posted is a job that workers read, or refused by its place; so is saved output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from damage import damaged
from hypothesis import example, given
from hypothesis import strategies as st
from portion import examples

from service.client.catalogue import Catalogue
from service.client.posted import KnownIds, read_posted, sendables_of
from service.client.put import Sendable
from service.client.saved_lines import saved_in
from service.config.load import load
from service.tubes.envelope import BODY_MOST, decode_request
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

    good, refused = sendables_of(posted, CATALOGUE, KnownIds())

    assert sorted([each.row for each in good] + [each.index for each in refused]) == list(
        range(len(posted))
    )
    for each in good:
        request = decode_request(each.body, CATALOGUE.resolve)
        assert (request.id, request.slug, request.number) == (each.id, each.slug, each.number)
        assert len(each.body) < BODY_MOST
    assert all(each.reason and each.detail for each in refused)


@given(damaged(SAVED, PIECES) | st.binary(max_size=60))
@examples(60)
def test_saved_output_holds_requests_or_lines_that_are_named(line: bytes) -> None:
    for each in saved_in([line], "file", CATALOGUE):
        if isinstance(each, Sendable):
            assert decode_request(each.body, CATALOGUE.resolve).number == each.number
        else:
            assert each.where == "file:1"
