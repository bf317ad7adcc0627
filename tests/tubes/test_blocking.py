"""What is wrong with beanstalkd, where, and what to write: never Python's view of its answers."""

from __future__ import annotations

from socket import gaierror

import greenstalk
import pytest
from scripted_server import opened

from devstack.servers import Server
from devstack.stack import Stack
from service.worker.tubes.blocking import BlockingClient, beanstalkd_down
from tracking.errors import TubesDown


def test_a_redis_in_its_place_is_told_as_that(stack: Stack) -> None:
    address = f"{stack.redis.host}:{stack.redis.port}"

    with pytest.raises(TubesDown) as caught:
        BlockingClient.open(address)

    told = f"beanstalkd {address} is not what answers there, but something that says: -ERR unknown"
    assert caught.value.message.startswith(told)
    assert "b'" not in str(caught.value)
    assert caught.value.fix == "Correct beanstalkd.servers."


def test_one_that_is_not_there_is_told_with_its_address() -> None:
    with pytest.raises(TubesDown) as caught:
        BlockingClient.open("127.0.0.1:1")

    assert caught.value.message == "beanstalkd 127.0.0.1:1 does not answer (Connection refused)"
    assert caught.value.fix == "Start it, or correct beanstalkd.servers."


async def test_one_that_goes_away_is_told_by_what_happened(beanstalkd: Server) -> None:
    client = await opened(beanstalkd.url)
    beanstalkd.kill()

    with pytest.raises(TubesDown) as caught:
        await client.reserve()

    told = f"beanstalkd {beanstalkd.url} does not answer ("
    assert caught.value.message.startswith(told)
    assert "('" not in caught.value.message


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (greenstalk.DrainingError(), "takes no new jobs (drain mode)"),
        (greenstalk.OutOfMemoryError(), "has no memory or disk left"),
        (greenstalk.JobTooBigError(), "takes no job of this size"),
        (TimeoutError("timed out"), "does not answer (no answer in time)"),
        (gaierror(-2, "Name or service not known"), "does not answer (Name or service not known)"),
        (AssertionError(), "gave an answer that makes no sense"),
        (greenstalk.UnknownResponseError(b"\x1b[2J", [b"x"]), "\\x1b[2J x"),
    ],
)
def test_each_failure_names_cause_and_fix(error: Exception, what: str) -> None:
    told = beanstalkd_down("h:1", error)

    assert what in told.message
    assert told.fix
