"""Puts over one connection: what they come to, and what ends it.

The server of these tests says what real ones say when a link is cut or something else listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import greenstalk
import pytest
from scripted_server import HASTE, serving

from devstack.servers import Server
from service.worker.tubes import connection
from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.connection import TOGETHER_SECONDS
from service.worker.tubes.put_client import ENOUGH, PutClient, PutOptions, PutRefused
from tracking.errors import TubesDown


def stats(records: int = 0) -> bytes:
    told = b"---\nid: 0123abcd\nbinlog-current-index: 1\nbinlog-records-written: %d\n" % records
    return b"OK %d\r\n%b\r\n" % (len(told), told)


ASK = b"stats\r\n"
USE = b"use t\r\n"
PUT = b"put 0 0 60 2\r\nab\r\n"
FIRST = PutOptions(priority=0)


@asynccontextmanager
async def scripted(
    *exchanges: tuple[bytes, bytes], durable: bool = False
) -> AsyncIterator[PutClient]:
    """A connection to a server of these exchanges, made by the client that puts."""
    async with serving((ASK, stats()), *exchanges) as address:
        with closing(await PutClient.open(address, HASTE, durable=durable)) as client:
            yield client


@pytest.mark.parametrize(
    "reply", [b"DRAINING", b"OUT_OF_MEMORY", b"JOB_TOO_BIG", b"INTERNAL_ERROR"]
)
async def test_a_put_that_is_refused_leaves_the_connection_as_it_is(reply: bytes) -> None:
    again = (PUT, b"INSERTED 1\r\n")
    async with scripted((USE + PUT, b"USING t\r\n" + reply + b"\r\n"), again) as client:
        (refused,) = await client.put("t", [b"ab"], FIRST)

        assert isinstance(refused, PutRefused)
        assert await client.put("t", [b"ab"], FIRST) == [1]


async def test_a_put_is_answered_also_where_another_question_follows_in_its_write() -> None:
    told = b"---\ncurrent-jobs-ready: 3\ncurrent-jobs-reserved: 1\n"
    replies = b"USING t\r\nINSERTED 4\r\nOK %d\r\n%b\r\n" % (len(told), told)
    again = (PUT, b"INSERTED 5\r\n")
    async with scripted((USE + PUT + b"stats-tube t\r\n", replies), again) as client:

        async def putting() -> list[int | PutRefused]:
            return await client.put("t", [b"ab"], FIRST)

        async with asyncio.timeout(5):
            assert await asyncio.gather(putting(), client.jobs("t")) == [[4], 4]
            assert await putting() == [5]


async def test_each_of_many_has_its_reply_and_a_buried_job_goes_so_that_nobody_kicks_it() -> None:
    replies = b"USING t\r\nINSERTED 8\r\nBURIED 9\r\nJOB_TOO_BIG\r\nINSERTED 10\r\n"
    deleted = (b"delete 9\r\n", b"DELETED\r\n")
    async with scripted((USE + PUT * 4, replies), deleted) as client:
        first, buried, too_big, last = await client.put("t", [b"ab"] * 4, FIRST)

        assert (first, last) == (8, 10)
        assert isinstance(buried, PutRefused)
        assert isinstance(too_big, PutRefused)
        assert not client.down


async def test_what_is_put_in_one_turn_leaves_in_one_write_and_each_has_its_own_replies() -> None:
    replies = b"USING t\r\nINSERTED 8\r\nDRAINING\r\nINSERTED 10\r\nUSING u\r\nINSERTED 11\r\n"
    async with scripted((USE + PUT * 3 + b"use u\r\n" + PUT, replies)) as client:
        posts = [client.put("t", [b"ab"] * 2, FIRST), client.put("t", [b"ab"], FIRST)]
        other = client.put("u", [b"ab"], FIRST)

        [[eight, refused], ten] = await asyncio.gather(*posts)
        assert (eight, ten, await other) == (8, [10], [11])
        assert isinstance(refused, PutRefused)


async def test_the_next_write_does_not_wait_for_the_replies_to_the_last() -> None:
    both = b"USING t\r\n" + b"INSERTED 7\r\n" * (ENOUGH + 1)
    async with scripted((USE + PUT * (ENOUGH + 1), both)) as client:
        first = client.put("t", [b"ab"] * ENOUGH, FIRST)
        second = client.put("t", [b"ab"], FIRST)

        assert len(await first) == ENOUGH
        assert await second == [7]


async def test_one_who_waits_no_longer_takes_nobodys_reply() -> None:
    async with scripted((USE + PUT * 2, b"USING t\r\nINSERTED 8\r\nINSERTED 9\r\n")) as client:
        gone, stays = (client.put("t", [b"ab"], FIRST) for _ in "12")
        gone.cancel()

        assert await stays == [9]


async def test_of_many_those_that_were_acknowledged_count_when_the_connection_ends() -> None:
    replies = b"USING t\r\nINSERTED 8\r\nINSERTED 9\r\nINSER"
    async with scripted((USE + PUT * 5, replies)) as client:
        posts = [client.put("t", [b"ab"] * count, FIRST) for count in (1, 3, 1)]

        assert await posts[0] == [8]
        assert await posts[1] == [9]
        with pytest.raises(TubesDown, match="closed the connection"):
            await posts[2]
        with pytest.raises(TubesDown, match="closed the connection"):
            await client.put("t", [b"ab"], FIRST)


async def test_what_is_acknowledged_is_durable_once_the_binlog_grew_by_it() -> None:
    asked = ASK + PUT * 2 + ASK
    taken = b"INSERTED 8\r\nINSERTED 9\r\n"
    grew = b"USING t\r\n" + stats(5) + taken + stats(7)
    grew_less = stats(7) + taken + stats(8)
    async with scripted((USE + asked, grew), (asked, grew_less), durable=True) as client:
        assert await client.put("t", [b"ab"] * 2, FIRST) == [8, 9]
        with pytest.raises(TubesDown, match="stopped writing its binlog"):
            await client.put("t", [b"ab"] * 2, FIRST)
        assert client.forgetful
        assert client.down


async def test_what_follows_a_buried_job_is_not_durable() -> None:
    """The write that fails counts as a record; afterwards beanstalkd acknowledges without one."""
    taken = b"INSERTED 8\r\nBURIED 9\r\nINSERTED 10\r\n"
    replies = b"USING t\r\n" + stats(5) + taken + stats(7)
    deleted = (b"delete 9\r\n", b"DELETED\r\n")
    async with scripted((USE + ASK + PUT * 3 + ASK, replies), deleted, durable=True) as client:
        first, buried, last = await client.put("t", [b"ab"] * 3, FIRST)

        assert first == 8
        assert isinstance(buried, PutRefused)
        assert isinstance(last, PutRefused)


async def test_records_that_are_moved_are_no_proof() -> None:
    told = b"---\nid: 0123abcd\nbinlog-records-migrated: 2\nbinlog-records-written: 7\n"
    moved = b"OK %d\r\n%b\r\n" % (len(told), told)
    replies = b"USING t\r\n" + stats(5) + b"INSERTED 8\r\nINSERTED 9\r\n" + moved
    async with scripted((USE + ASK + PUT * 2 + ASK, replies), durable=True) as client:
        with pytest.raises(TubesDown, match="stopped writing its binlog"):
            await client.put("t", [b"ab"] * 2, FIRST)


async def test_an_acknowledged_job_is_not_durable_where_the_connection_ends_before_the_proof() -> (
    None
):
    replies = b"USING t\r\n" + stats() + b"INSERTED 8\r\n" + stats()[:30]
    async with scripted((USE + ASK + PUT + ASK, replies), durable=True) as client:
        with pytest.raises(TubesDown):
            await client.put("t", [b"ab"], FIRST)


@pytest.mark.parametrize(
    "reply", [b"WHAT\r\n", b"\r\n", b"x" * 5000, b"RESERVED 1 1\r\na\r\n", b"INSERTED x\r\n"]
)
async def test_a_reply_that_makes_no_sense_ends_the_connection(reply: bytes) -> None:
    async with scripted((USE + PUT, b"USING t\r\n" + reply)) as client:
        with pytest.raises(TubesDown):
            await client.put("t", [b"ab"], FIRST)
        assert client.down


async def test_a_server_that_is_slow_with_its_replies_is_waited_for(beanstalkd: Server) -> None:
    client = await PutClient.open(beanstalkd.url, Timeouts(), durable=True)
    beanstalkd.pause()
    put = [client.put("t", [b"ab"] * ENOUGH, FIRST), client.put("t", [b"ab"], FIRST)]
    asyncio.get_running_loop().call_later(2 * TOGETHER_SECONDS, beanstalkd.resume)

    assert [len(await each) for each in put] == [ENOUGH, 1]
    client.close()


@pytest.mark.parametrize("durable", [False, True])
async def test_the_replies_to_many_are_read_in_one_go(
    beanstalkd: Server, monkeypatch: pytest.MonkeyPatch, *, durable: bool
) -> None:
    """Else each reply would be a turn of the loop, and nobody would notice but by the time."""
    monkeypatch.setattr(connection, "TOGETHER_SECONDS", 5.0)  # however slow the server is just now
    client = await PutClient.open(beanstalkd.url, Timeouts(), durable=durable)
    await client.put("t", [b"ab"], FIRST)
    reads: list[bytes] = []
    read = PutClient.data_received
    monkeypatch.setattr(
        PutClient, "data_received", lambda self, data: (reads.append(data), read(self, data))[1]
    )

    put = [client.put("t", [b"ab"] * 20, FIRST), client.put("t", [b"ab"], FIRST)]

    assert [len(await each) for each in put] == [20, 1]
    assert len(reads) <= 2  # how long the last question's answer is nobody knows before
    client.close()


async def test_a_put_means_what_greenstalks_means(beanstalkd: Server) -> None:
    """Against the real server: what one puts the other one sees."""
    client = await PutClient.open(beanstalkd.url, Timeouts())
    first, second = await client.put(
        "t", [b"ab", b"c\r\nd"], PutOptions(priority=3, delay=0, ttr=7)
    )

    with greenstalk.Client((beanstalkd.host, beanstalkd.port), encoding=None, watch="t") as other:
        assert client.instance == str(other.stats()["id"])
        assert client.binlog
        assert isinstance(first, int)
        facts = other.stats_job(first)
        assert (facts["pri"], facts["delay"], facts["ttr"]) == (3, 0, 7)
        jobs = [other.reserve(timeout=0) for _ in "12"]
        assert [(job.id, job.body) for job in jobs] == [(first, b"ab"), (second, b"c\r\nd")]
    client.close()
