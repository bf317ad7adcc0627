"""An answer that cannot be read leaves with its error, without secrets and within bounds."""

from __future__ import annotations

import json
import random

import pytest
from aiohttp import web
from loopback import Courier, FetchFor

from couriers import royal_mail, usps
from couriers.http.redaction import KEPT_BYTES
from tracking.errors import CourierDown, CourierError, UnreadableAnswer
from tracking.request import Number, Slug, TrackingRequest

NUMBER = "FQ000000015GB"
REQUEST = TrackingRequest(Slug("royal-mail"), Number(NUMBER), NUMBER)


async def ask(
    courier: Courier, fetch_for: FetchFor, body: bytes, status: int = 200
) -> CourierError:
    async def site(_: web.BaseRequest) -> web.Response:
        headers = {"Content-Type": "application/json", "X-Other": "1"}
        return web.Response(body=body, status=status, headers=headers)

    with pytest.raises(CourierError) as failed:
        await royal_mail.track(fetch_for(await courier(site), slug="royal-mail"), REQUEST)
    return failed.value


async def test_it_can_be_read_again_by_the_same_parser(
    courier: Courier, fetch_for: FetchFor
) -> None:
    body = json.dumps({"mailPiece": {"moved": True}}).encode()
    error = await ask(courier, fetch_for, body)

    assert isinstance(error, UnreadableAnswer)
    unread = error.unread
    assert unread is not None
    assert (unread.number, unread.status, unread.body, unread.cut) == (NUMBER, 200, body, False)
    assert set(unread.headers) == {"content-type", "date"}
    with pytest.raises(UnreadableAnswer):
        royal_mail.parse(unread.status, unread.headers, unread.body, unread.number)


async def test_a_body_without_its_secrets_is_still_the_json_it_was(
    courier: Courier, fetch_for: FetchFor
) -> None:
    body = json.dumps({"you": "the-secret", "token": "Bearer abcdef123", "é": ["x"]}).encode()
    error = await ask(courier, fetch_for, body)

    assert isinstance(error, UnreadableAnswer)
    assert error.unread is not None
    assert b"the-secret" not in error.unread.body
    assert b"abcdef123" not in error.unread.body
    assert json.loads(error.unread.body)["é"] == ["x"]


async def test_bytes_of_any_encoding_come_back_as_they_were(
    courier: Courier, fetch_for: FetchFor
) -> None:
    body = random.Random(5).randbytes(2_000)
    error = await ask(courier, fetch_for, body)

    assert isinstance(error, UnreadableAnswer)
    assert error.unread is not None
    assert error.unread.body == body


async def test_of_a_long_body_the_beginning_is_kept(courier: Courier, fetch_for: FetchFor) -> None:
    error = await ask(courier, fetch_for, b"<html>" + b"x" * (KEPT_BYTES + 1))

    assert isinstance(error, UnreadableAnswer)
    assert error.unread is not None
    assert (len(error.unread.body), error.unread.cut) == (KEPT_BYTES, True)


async def test_only_what_cannot_be_read_is_kept(courier: Courier, fetch_for: FetchFor) -> None:
    error = await ask(courier, fetch_for, b"{}", 500)

    assert isinstance(error, CourierDown)
    assert not hasattr(error, "unread")


async def test_a_parser_that_breaks_leaves_its_answer_too(
    courier: Courier, fetch_for: FetchFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(royal_mail, "_tracking", broken)
    body = json.dumps({"mailPieces": {"events": [{}]}}).encode()
    error = await ask(courier, fetch_for, body)

    assert isinstance(error, UnreadableAnswer)
    assert error.unread is not None
    assert error.unread.body == body


async def test_the_number_kept_is_the_one_that_was_asked_for(
    courier: Courier, fetch_for: FetchFor
) -> None:
    async def site(request: web.BaseRequest) -> web.Response:
        if request.path == "/token":
            return web.json_response({"access_token": "t", "expires_in": 99})
        return web.Response(text="<html>")

    number = Number("9400100000000000000017")
    request = TrackingRequest(Slug("usps"), number, number)
    with pytest.raises(UnreadableAnswer) as failed:
        await usps.track(fetch_for(await courier(site)), request)

    assert failed.value.unread is not None
    assert failed.value.unread.number == number
