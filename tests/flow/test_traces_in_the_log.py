"""Lines about a request name the trace that its producer gave it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from flow_ports import ENDED, REQUEST, Scene, call

from tracking.call import Admission, Granted
from tracking.checkpoint import Tracking
from tracking.errors import CourierDown, InvalidNumber

Written = Callable[[], list[dict[str, Any]]]

TRACED = REQUEST._replace(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


@pytest.mark.parametrize(
    ("admission", "error", "event"),
    [
        (Granted(call()._replace(request=TRACED)), None, "request answered"),
        (
            Granted(call()._replace(request=TRACED)),
            CourierDown("503"),
            "request will be tried again",
        ),
        (
            Granted(call()._replace(request=TRACED)),
            InvalidNumber("impossible"),
            "request refused by the courier",
        ),
        (ENDED, None, "request answered by a fresh result"),
    ],
)
async def test_a_line_names_the_trace_of_its_request(
    written: Written, admission: Admission, error: Exception | None, event: str
) -> None:
    scene = Scene(admission)
    scene.decode = lambda _: TRACED

    def failing(_: object) -> Tracking:
        assert error
        raise error

    if error:
        scene.track = failing

    await scene.handle()
    await asyncio.sleep(0)  # INFO is written at the end of a turn of the loop

    [line] = [each for each in written() if each["event"] == event]
    assert line["traceparent"] == TRACED.traceparent


async def test_a_line_of_a_request_without_a_trace_names_none(written: Written) -> None:
    await Scene(Granted(call())).handle()
    await asyncio.sleep(0)

    assert not [line for line in written() if "traceparent" in line]
