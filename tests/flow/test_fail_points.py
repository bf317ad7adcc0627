"""Fail points stand around the ports, where they are asked for; the flow has none."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from flow_ports import Job, Journal

from service.worker.wiring.failpoints import FailPoint, FailPoints
from tracking.call import Parked, Swept
from tracking.line import Line

USPS = Line("usps")


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals by which this process would have been killed."""
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _, number: signals.append(number))
    return signals


def armed(point: str) -> FailPoints:
    return FailPoints.from_environment({"FAILPOINT": point})


def test_ports_are_not_wrapped_where_no_point_is_armed() -> None:
    port, points = SimpleNamespace(finish=None), FailPoints.from_environment({})

    assert points.port("limits", port) is port
    assert points.step("requests.decode", os.getpid) is os.getpid
    assert points.jobs("requests", print) is print


def test_ports_that_the_armed_point_does_not_name_are_not_wrapped() -> None:
    port = SimpleNamespace(finish=None)

    assert armed(FailPoint.STORED).port("limits", port) is port


def test_a_point_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="limits\\.finished:after"):
        armed("limits.finished:after")


async def test_the_process_is_killed_once_the_step_is_done_for_the_third_time(
    killed: list[int],
) -> None:
    port = armed(f"{FailPoint.FINISHED}:3").port("limits", SimpleNamespace(finish=AsyncMock()))

    kills = []
    for _ in range(4):
        await port.finish()
        kills.append(len(killed))

    assert kills == [0, 0, 1, 1]
    assert killed == [signal.SIGKILL]


async def test_the_process_is_killed_before_the_step_begins(killed: list[int]) -> None:
    port = armed(FailPoint.ANSWERED).port("work", SimpleNamespace(store=AsyncMock()))

    storing = port.store()

    assert killed
    await storing


async def test_only_what_the_point_names_kills(killed: list[int]) -> None:
    admit, sweep = AsyncMock(return_value=Parked("rate")), AsyncMock(return_value=[])
    granting = armed(FailPoint.GRANTED).port("limits", SimpleNamespace(admit=admit))
    sweeping = armed(FailPoint.SWEPT).port("limits", SimpleNamespace(sweep=sweep))

    assert await granting.admit() == Parked("rate")
    assert await sweeping.sweep() == []
    assert not killed

    sweep.return_value = [Swept(USPS, put_drain=True)]
    await sweeping.sweep()
    assert killed


async def test_a_job_of_the_tube_kills_by_its_delete(killed: list[int]) -> None:
    journal, taken = Journal(), []
    armed(FailPoint.DELETED).jobs("requests", taken.extend)([Job(journal)])

    assert taken[0].key == "key-of-the-job"
    await taken[0].delete()

    assert journal.steps == ["delete"]
    assert killed
