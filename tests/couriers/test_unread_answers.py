"""An answer that cannot be read leaves with its error, without secrets and within bounds."""

from __future__ import annotations

import json
import random

import pytest
from aiohttp import web
from loopback import Courier, FetchFor

from couriers import json_feed, royal_mail, usps
from couriers.http.redaction import EXCERPT_BYTES, KEPT_BYTES
from couriers.http.several import Ends
from tracking.checkpoint import Tracking
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


async def ask_for_several(courier: Courier, fetch_for: FetchFor, body: bytes, status: int) -> Ends:
    async def site(_: web.BaseRequest) -> web.Response:
        return web.Response(body=body, status=status)

    slug = Slug("my-courier")
    requests = [TrackingRequest(slug, Number(each), each) for each in ("AAAA1", "BBBB2")]
    return await json_feed.track_many(fetch_for(await courier(site), slug=slug), requests)


async def test_of_an_answer_about_several_numbers_a_failure_keeps_what_is_its_own(
    courier: Courier, fetch_for: FetchFor
) -> None:
    part = {"tag": "Lost", "owner": "the-secret" * 3, "more": "x" * 5_000}
    body = json.dumps({"AAAA1": part, "BBBB2": {"tag": "InTransit", "reference": "private"}})

    ends = await ask_for_several(courier, fetch_for, body.encode(), 200)

    lost = ends["AAAA1"]
    assert isinstance(lost, UnreadableAnswer)
    assert lost.unread is not None
    assert json.loads(lost.unread.body)["more"] == "x" * 5_000
    assert (lost.unread.number, lost.unread.cut, lost.http_status) == ("AAAA1", False, 200)
    assert len(lost.excerpt.encode()) <= EXCERPT_BYTES
    assert "secret" not in lost.excerpt
    assert "private" not in lost.excerpt + lost.unread.body.decode()
    assert lost.part is None
    told = ends["BBBB2"]
    assert isinstance(told, Tracking)
    assert told.http_status == 200


@pytest.mark.parametrize(("status", "error"), [(200, UnreadableAnswer), (503, CourierDown)])
async def test_a_failure_of_a_whole_call_for_several_numbers_keeps_nothing_of_anybody(
    courier: Courier, fetch_for: FetchFor, status: int, error: type[CourierError]
) -> None:
    body = b'["AAAA1 is the-secret", "BBBB2 is private"]'

    with pytest.raises(error) as failed:
        await ask_for_several(courier, fetch_for, body, status)

    assert (failed.value.excerpt, failed.value.http_status) == ("", status)
    assert getattr(failed.value, "unread", None) is None
