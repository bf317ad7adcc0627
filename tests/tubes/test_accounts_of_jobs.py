"""`account` of a job: how it sets the ids of producers apart, there and back."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from service.flow.handle import letter_of_malformed
from service.tubes.envelope import decode_request, encode_request
from tracking.account import MAIN, Account, account_and_id, operation_id
from tracking.errors import MalformedJob
from tracking.request import Slug


def body(**more: Any) -> bytes:
    payload = {"slug": "usps", "number": "94000001", **more}
    return json.dumps({"type": "requests_flow", "payload": payload}).encode()


def read(**more: Any) -> str | None:
    return decode_request(body(**more), lambda slug: (Slug(slug), "")).id


def test_the_ids_of_main_stand_bare_and_those_of_others_behind_their_account() -> None:
    assert read(id="a") == read(id="a", account="main") == "a"
    assert read(id="a", account="shop") == "shop/a"
    assert read(account="shop") is None
    assert read(id="a", account=None) == "a"


def test_a_request_is_written_as_it_was_read() -> None:
    job = {"slug": "usps", "number": "94000001", "id": "a", "account": "shop"}
    request = decode_request(body(id="a", account="shop"), lambda slug: (Slug(slug), ""))

    assert json.loads(encode_request(request))["payload"] == job


@pytest.mark.parametrize("account", ["", "Shop", "a-b", "a/b", "x" * 21, 7, ["shop"], {}])
def test_what_is_no_account_is_malformed(account: object) -> None:
    with pytest.raises(MalformedJob) as caught:
        read(id="a", account=account)
    assert caught.value.reason == "bad_account"


def test_no_id_of_a_producer_reaches_into_another_account() -> None:
    with pytest.raises(MalformedJob, match="bad_id"):
        read(id="shop/a")


@pytest.mark.parametrize(
    ("operation", "account", "identity"),
    [
        ("a", MAIN, "a"),
        ("shop/a", Account("shop"), "a"),
        ("usps:A B/1:Zm9v", MAIN, "usps:A B/1:Zm9v"),
    ],
)
def test_an_operation_tells_whose_it_is(operation: str, account: Account, identity: str) -> None:
    assert account_and_id(operation) == (account, identity)
    assert operation_id(account, identity) == operation


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
    def resolve(slug: str) -> tuple[Slug, str]:
        if slug != "usps":
            raise MalformedJob("unknown_slug", "no such courier")
        return Slug(slug), ""

    job: Any = SimpleNamespace(key="k", body=body(**more), server="127.0.0.1:11300", id=1)
    with pytest.raises(MalformedJob) as caught:
        decode_request(job.body, resolve)

    letter = letter_of_malformed(job, caught.value)
    assert letter.operations == ((operation,) if operation else ())
