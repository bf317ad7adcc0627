"""Puts that count only where the server's binlog holds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import greenstalk
import pytest

from devstack.failing import end_binlog, failing_beanstalkd
from devstack.kinds import BEANSTALKD, Durability
from devstack.servers import Server, running
from service.tubes.commands import Placing
from service.tubes.connection import Patience
from service.tubes.outlets import NotPut, Outlet, Outlets
from tracking.errors import TubesDown

TUBE = "t"


@pytest.fixture
def limited() -> Iterator[Server]:
    with running(failing_beanstalkd()) as server:
        yield server


def durable(*servers: Server) -> closing[Outlets]:
    patience = Patience(connect=1.0, reply=1.0)
    return closing(Outlets([each.url for each in servers], patience, durable=True))


def put(outlets: Outlets, count: int = 3) -> list[str]:
    return [each.server for each in outlets.put(TUBE, [b"x"] * count, Placing())]


def test_what_the_binlog_holds_is_put(limited: Server) -> None:
    with durable(limited) as outlets:
        assert put(outlets) == put(outlets) == [limited.url] * 3


def test_a_server_without_a_binlog_takes_none(other: Server) -> None:
    with running(BEANSTALKD, Durability.NONE) as forgetful:
        with durable(forgetful) as alone, pytest.raises(NotPut, match="no binlog"):
            put(alone)
        with durable(forgetful, other) as both:
            assert put(both) == put(both) == [other.url] * 3


def test_an_acknowledged_job_is_not_put_once_the_binlog_has_ended(
    limited: Server,
) -> None:
    with durable(limited) as outlets, greenstalk.Client((limited.host, limited.port)) as somebody:
        put(outlets)
        end_binlog(limited)
        with pytest.raises(greenstalk.BuriedError):
            somebody.put("the write that fails")
        somebody.put("taken, and kept in memory only")

        with pytest.raises(NotPut, match="stopped writing its binlog"):
            put(outlets)
        with durable(limited) as others, pytest.raises(NotPut, match="stopped writing its binlog"):
            put(others)


def test_a_server_that_lost_its_binlog_is_used_again_only_after_its_restart(
    limited: Server,
) -> None:
    outlet = Outlet(limited.url, Patience(connect=1.0, reply=1.0), durable=True)
    forgetful = outlet.connection(TUBE)
    end_binlog(limited)
    forgetful.put(TUBE, [b"the write that fails"], Placing())
    assert outlet.put(TUBE, [b"x"], Placing()) == [None]

    with pytest.raises(TubesDown, match="stopped writing its binlog"):
        outlet.opened(TUBE)
    limited.kill()
    limited.start()

    outlet.opened(TUBE).close()
