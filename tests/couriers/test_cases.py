"""Recorded answers of every courier, and what each becomes: `tests/couriers/<module>/cases.json`.

docs/couriers.md describes the format. A case with `calls` is the whole of `track()`, over HTTP on
loopback; any other is one answer, read by `parse()`. One with `numbers` is about several: then it
is `track_many()` and `parse_many()`.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, cast

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit
from recorded_cases import FILES, Case, body_of, cases_of

from couriers.http.fetch import Fetch
from couriers.http.several import Ends
from couriers.registry import COURIERS, MODULES, CourierForMany
from tracking.checkpoint import Checkpoint, Tag, Tracking
from tracking.errors import CourierError
from tracking.request import Number, Slug, TrackingRequest

BY_NAME = {
    each.__name__.rpartition(".")[2]: each for each in (*COURIERS.values(), *MODULES.values())
}
MANY = {
    name: cast(CourierForMany, each)
    for name, each in BY_NAME.items()
    if hasattr(each, "track_many")
}
OF_EVERY_REQUEST = {"Host", "User-Agent", "Accept-Encoding", "Content-Length"}
PLAIN = ("Accept", "application/json")


def params(*, called: bool, several: bool = False) -> list[Any]:
    return [
        pytest.param(module, case, id=f"{module}: {sentence}")
        for module in FILES
        for sentence, case in cases_of(module).items()
        if ("calls" in case, "numbers" in case) == (called, several)
    ]


def sent(call: Case) -> bytes:
    return body_of(call.get("sends", {}))


def written(told: Tracking) -> Case:
    """Write a Tracking as cases do: without what is empty, or follows from what stands beside."""
    given = {name: plain(value) for name, value in told._asdict().items() if value}
    assert given.pop("tag") == told.subtag.partition("_")[0]
    if told.checkpoints:
        given["checkpoints"] = [written_scan(each) for each in told.checkpoints]
    return given


def written_scan(scan: Checkpoint) -> Case:
    given = {name: plain(value) for name, value in scan._asdict().items() if value is not None}
    assert given.pop("tag") == scan.subtag.partition("_")[0]
    dated = f"{scan.checkpoint_time}{scan.checkpoint_offset or ''}"
    tells_instant = scan.checkpoint_offset is not None and "T" in dated
    assert scan.checkpoint_utc == (datetime.fromisoformat(dated) if tells_instant else None)
    given.pop("checkpoint_utc", None)
    return given


def plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case tuple():
            return list(value)
        case Tag():
            return str(value)
    return value


def check_each(case: Case, ended: Ends | CourierError) -> None:
    """Compare what came of each number; an end that is a text is the subtag of an answer."""
    if isinstance(ended, CourierError):
        check(case, ended)
        return
    assert "ends" in case, ended
    assert ended.keys() == case["ends"].keys()
    for number, end in case["ends"].items():
        told = ended[number]
        if isinstance(end, dict):
            check(end, told)
        else:
            assert isinstance(told, Tracking), told
            assert told.subtag == end


def check(case: Case, ended: Tracking | CourierError) -> None:
    if isinstance(ended, Tracking):
        told = written(ended)
        assert told == case.get("tracking"), json.dumps(told, ensure_ascii=False)
        return
    assert type(ended).__name__ == case.get("error"), ended
    assert case.get("says", "") in str(ended)
    for name in ("retry_after", "excerpt", "field"):
        assert (getattr(ended, name, None) or None) == case.get(name)


@pytest.mark.parametrize(("module", "case"), params(called=False))
def test_an_answer_is_read_as_its_case_says(module: str, case: Case) -> None:
    told = (case.get("status", 200), case.get("headers", {}), body_of(case), case["number"])

    ended: Tracking | CourierError
    try:
        ended = BY_NAME[module].parse(*told)
    except CourierError as failed:
        ended = failed

    check(case, ended)


@pytest.mark.parametrize(("module", "case"), params(called=False, several=True))
def test_an_answer_about_several_numbers_is_read_as_its_case_says(module: str, case: Case) -> None:
    told = (case.get("status", 200), case.get("headers", {}), body_of(case), case["numbers"])

    ended: Ends | CourierError
    try:
        ended = MANY[module].parse_many(*told)
    except CourierError as failed:
        ended = failed

    check_each(case, ended)


@pytest.mark.parametrize(("module", "case"), params(called=True))
async def test_a_courier_is_asked_as_its_case_says(
    module: str, case: Case, courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[Case] = []
    fetch = await fetch_of(module, case, courier, fetch_for, asked)

    ended: Tracking | CourierError
    try:
        ended = await BY_NAME[module].track(fetch, request_of(module, case, case["number"]))
    except CourierError as failed:
        ended = failed

    check_calls(case, asked, permit)
    check(case, ended)


@pytest.mark.parametrize(("module", "case"), params(called=True, several=True))
async def test_a_courier_is_asked_for_several_numbers_as_its_case_says(
    module: str, case: Case, courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[Case] = []
    fetch = await fetch_of(module, case, courier, fetch_for, asked)

    ended: Ends | CourierError
    try:
        requests = [request_of(module, case, number) for number in case["numbers"]]
        ended = await MANY[module].track_many(fetch, requests)
    except CourierError as failed:
        ended = failed

    check_calls(case, asked, permit)
    check_each(case, ended)


def slug_of(module: str, case: Case) -> Slug:
    return Slug(case.get("slug", module.replace("_", "-")))


def request_of(module: str, case: Case, number: str) -> TrackingRequest:
    fields = case.get("fields", {})
    return TrackingRequest(slug_of(module, case), Number(number), number, fields=fields)


async def fetch_of(
    module: str, case: Case, courier: Courier, fetch_for: FetchFor, asked: list[Case]
) -> Fetch:
    """Open the site of a case, which writes down what it is asked."""

    async def site(request: web.BaseRequest) -> web.Response:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name not in OF_EVERY_REQUEST and (name, value) != PLAIN
        }
        asks = f"{request.method} {request.rel_url}"
        asked.append({"asks": asks, "headers": headers, "sends": await request.read()})
        answer = case["calls"][len(asked) - 1]["answer"]
        status, more = answer.get("status", 200), answer.get("headers")
        return web.Response(status=status, headers=more, body=body_of(answer))

    address = await courier(site)
    return fetch_for(
        f"{address}{case.get('base_path', '')}",
        token_url=f"{address}/token",
        slug=slug_of(module, case),
        credentials=case["credentials"],
    )


def check_calls(case: Case, asked: list[Case], permit: RecordingPermit) -> None:
    """Compare the requests; each but those for a token has asked for leave."""
    assert asked == [
        {"asks": one["asks"], "headers": one.get("headers", {}), "sends": sent(one)}
        for one in case["calls"]
    ]
    paced = sum(not one["asks"].endswith(" /token") for one in case["calls"])
    assert permit.steps == (["before_send", "after_send", "again"] * paced)[:-1]


def test_every_courier_has_cases() -> None:
    assert FILES.keys() == BY_NAME.keys()


def test_every_courier_that_answers_for_several_has_cases_of_that() -> None:
    asked, read = params(called=True, several=True), params(called=False, several=True)

    assert {case.values[0] for case in asked} == {case.values[0] for case in read} == MANY.keys()
