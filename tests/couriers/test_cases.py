"""Recorded answers of every courier, and what each becomes: `tests/couriers/<module>/cases.json`.

docs/couriers.md describes the format. A case with `calls` is the whole of `track()`, over HTTP on
loopback; any other is one answer, read by `parse()`.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from aiohttp import web
from loopback import Courier, FetchFor, RecordingPermit
from recorded_cases import FILES, Case, body_of, cases_of

from couriers.registry import COURIERS, MODULES
from tracking.checkpoint import Checkpoint, Tag, Tracking
from tracking.errors import CourierError
from tracking.request import Number, Slug, TrackingRequest

BY_NAME = {
    each.__name__.rpartition(".")[2]: each for each in (*COURIERS.values(), *MODULES.values())
}
OF_EVERY_REQUEST = {"Host", "User-Agent", "Accept-Encoding", "Content-Length"}
PLAIN = ("Accept", "application/json")


def params(*, called: bool) -> list[Any]:
    return [
        pytest.param(module, case, id=f"{module}: {sentence}")
        for module in FILES
        for sentence, case in cases_of(module).items()
        if ("calls" in case) is called
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


@pytest.mark.parametrize(("module", "case"), params(called=True))
async def test_a_courier_is_asked_as_its_case_says(
    module: str, case: Case, courier: Courier, fetch_for: FetchFor, permit: RecordingPermit
) -> None:
    asked: list[Case] = []

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

    slug = Slug(case.get("slug", module.replace("_", "-")))
    number = case["number"]
    request = TrackingRequest(slug, Number(number), number, fields=case.get("fields", {}))
    address = await courier(site)
    fetch = fetch_for(
        f"{address}{case.get('base_path', '')}",
        token_url=f"{address}/token",
        slug=slug,
        credentials=case["credentials"],
    )

    ended: Tracking | CourierError
    try:
        ended = await BY_NAME[module].track(fetch, request)
    except CourierError as failed:
        ended = failed

    assert asked == [
        {"asks": one["asks"], "headers": one.get("headers", {}), "sends": sent(one)}
        for one in case["calls"]
    ]
    check(case, ended)
    paced = sum(not one["asks"].endswith(" /token") for one in case["calls"])
    assert permit.steps == (["before_send", "after_send", "again"] * paced)[:-1]


def test_every_courier_has_cases() -> None:
    assert FILES.keys() == BY_NAME.keys()
