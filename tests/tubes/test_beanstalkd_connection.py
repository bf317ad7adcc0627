"""Client over one connection: what ends it, and that nothing is done over another one.

The server of these tests says what real ones say when a link is cut or something else listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import greenstalk
import pytest
from scripted_server import HASTE, NOW, ONE, THREE, Settled, hung_up, opened, reserved, scripted

from devstack.servers import Server
from service.worker.tubes import connection
from service.worker.tubes.blocking import Timeouts
from service.worker.tubes.connection import AHEAD_MOST, TOGETHER_SECONDS, Client, Reply, Verb
from service.worker.tubes.held import USUAL, YOUNG, ReservingClient, Touches
from service.worker.tubes.put_client import PutClient, PutOptions
from tracking.errors import TubesDown


@pytest.mark.parametrize(
    "reply",
    [
        b"RESERVED 7 2\r",
        b"RESERVED 7 5\r\nab",
        b"RESERVED 7 2\r\nabcd\r\n",
        b"RESERVED 7 -2\r\n",
        b"RESERVED 7\r\n",
        b"RESERVED x y\r\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"\xff\xfe\r\n",
        b"UNKNOWN_COMMAND\r\n",
        b"x" * 5000,
        b"",
    ],
)
async def test_a_reply_that_makes_no_sense_ends_the_connection(reply: bytes) -> None:
    async with scripted((NOW, reply)) as client:
        with pytest.raises(TubesDown):
            await client.reserve()

        assert client.down


async def test_a_reply_that_nobody_asked_for_ends_the_connection() -> None:
    async with scripted((NOW, b"TIMED_OUT\r\nTIMED_OUT\r\n")) as client:
        assert await client.reserve() is None

        assert client.down


async def test_a_silent_server_is_not_waited_for(beanstalkd: Server) -> None:
    reserving = await opened(beanstalkd.url, timeouts=HASTE)
    putting = await PutClient.open(beanstalkd.url, HASTE)
    beanstalkd.pause()
    try:
        with pytest.raises(TubesDown, match="no answer in time"):
            await reserving.reserve()
        with pytest.raises(TubesDown, match="no answer in time"):
            await putting.put("t", [b"ab"] * 3, PutOptions())
        with pytest.raises(TubesDown, match="no answer in time"):
            await PutClient.open(beanstalkd.url, HASTE)
    finally:
        beanstalkd.resume()


async def test_a_jobs_handle_dies_with_its_connection() -> None:
    settled = Settled()
    async with scripted(ONE, (NOW, b"nonsense\r\n"), settled=settled) as client:
        (job,) = await reserved(client)
        with pytest.raises(TubesDown):
            await client.reserve()

        assert job.lost
        assert client.abandoned == 1
        assert settled.ids == []
        assert await client.send(Verb.DELETE, job) is Reply.MISSING
        assert settled.ids == [7]


@pytest.mark.parametrize(
    ("verb", "command"),
    [
        (Verb.DELETE, b"delete 7\r\n"),
        (Verb.TOUCH, b"touch 7\r\n"),
        (Verb.BURY, b"bury 7 5\r\n"),
        (Verb.RELEASE, b"release 7 5 0\r\n"),
    ],
)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"NOT_FOUND\r\n", Reply.MISSING),
        (b"OUT_OF_MEMORY\r\n", Reply.STUCK),
        (b"INTERNAL_ERROR\r\n", Reply.STUCK),
    ],
)
async def test_replies_that_the_protocol_foresees_are_results(
    verb: Verb, command: bytes, line: bytes, expected: Reply
) -> None:
    async with scripted(ONE, (command, line), (NOW, b"TIMED_OUT\r\n")) as client:
        (job,) = await reserved(client)
        job.priority = 5

        assert await client.send(verb, job) is expected
        assert job.lost
        assert await reserved(client) == []


@pytest.mark.parametrize(
    ("verb", "commands", "lines", "expected"),
    [
        (Verb.DELETE, b"delete %d\r\n", b"DELETED NOT_FOUND DELETED", Reply.MISSING),
        (Verb.TOUCH, b"touch %d\r\n", b"TOUCHED NOT_FOUND TOUCHED", Reply.MISSING),
        (Verb.BURY, b"bury %d 0\r\n", b"BURIED NOT_FOUND BURIED", Reply.MISSING),
        (Verb.RELEASE, b"release %d 0 0\r\n", b"RELEASED BURIED RELEASED", Reply.STUCK),
    ],
)
async def test_another_reply_among_many_is_about_its_own_job(
    verb: Verb, commands: bytes, lines: bytes, expected: Reply
) -> None:
    said = b"".join(line + b"\r\n" for line in lines.split())
    together = (commands * 3 % (7, 8, 9), said)
    async with scripted(THREE, together, (NOW, b"TIMED_OUT\r\n")) as client:
        jobs = await reserved(client, 3)
        told = [client.send(verb, job) for job in jobs]

        assert [await each for each in told] == [Reply.DONE, expected, Reply.DONE]
        assert [job.lost for job in jobs] == [False, True, False]
        assert await reserved(client) == []


@pytest.mark.parametrize(
    ("said", "done"),
    [
        (b"", 0),
        (b"DELETED\r\nDELETED\r\n", 2),
        (b"DELETED\r\n" * 2 + b"DELE", 2),
        (b"DELETED\r\nnonsense\r\nDELETED\r\n", 1),
    ],
)
async def test_what_was_answered_counts_when_replies_stop_in_their_middle(
    said: bytes, done: int
) -> None:
    settled = Settled()
    together = (b"delete %d\r\n" * 3 % (7, 8, 9), said)
    async with scripted(THREE, together, settled=settled) as client:
        jobs = await reserved(client, 3)
        told = [client.send(Verb.DELETE, job) for job in jobs]

        replies = [await each for each in told]
        assert replies == [Reply.DONE] * done + [Reply.MISSING] * (3 - done)
        assert client.down
        assert sorted(settled.ids) == [7, 8, 9], "each gives its room back, once"


async def test_a_job_that_is_being_settled_is_not_touched() -> None:
    async with scripted(ONE, (b"delete 7\r\n", b"DELETED\r\n"), (NOW, b"TIMED_OUT\r\n")) as client:
        jobs, touches = await reserved(client), Touches()
        touches.add(jobs, now=0.0)

        told = client.send(Verb.DELETE, *jobs)
        await touches.touch_due(now=YOUNG)

        assert await told is Reply.DONE
        assert not jobs[0].lost
        assert await reserved(client) == []


async def test_a_deadline_is_no_job() -> None:
    async with scripted((NOW * 2, b"DEADLINE_SOON\r\nTIMED_OUT\r\n")) as client:
        assert await reserved(client, 2) == []


async def test_facts_of_a_job_that_is_gone_tell_that_it_is_lost() -> None:
    async with scripted(ONE, (b"stats-job 7\r\n", b"NOT_FOUND\r\n")) as client:
        (job,) = await reserved(client)

        await client.read_facts([job])

        assert (job.lost, job.ttr) == (True, None)


@pytest.mark.parametrize("facts", [b"", b"---\nttr: x\n", b"---\npri: 1\nttr: 60\n"])
async def test_facts_that_make_no_sense_end_the_connection(facts: bytes) -> None:
    said = b"OK %d\r\n%b\r\n" % (len(facts), facts)
    async with scripted(ONE, (b"stats-job 7\r\n", said)) as client:
        with pytest.raises(TubesDown):
            await client.read_facts(await reserved(client))

        assert client.down


@pytest.mark.parametrize("open_client", [opened, PutClient.open])
@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400\r\n", b"", b"\r\n", b"WATCHING 2\r\nWHAT\r\n", b"OK 4\r\nid\n\r\n"]
)
async def test_whatever_else_listens_there_is_no_beanstalkd(
    greeting: bytes, open_client: Callable[..., Awaitable[Client]]
) -> None:
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        with suppress(OSError):
            await reader.read()
        await hung_up(writer, over)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TubesDown):
            await open_client(f"127.0.0.1:{port}", timeouts=HASTE)
        await over.wait()


async def of_a_server(
    beanstalkd: Server, jobs: int, **placing: int
) -> tuple[ReservingClient, list[int]]:
    with greenstalk.Client((beanstalkd.host, beanstalkd.port), encoding=None, use="t") as producer:
        ids = [producer.put(b"ab", **placing) for _ in range(jobs)]
    return await opened(beanstalkd.url), ids


async def test_a_server_that_is_slow_with_its_replies_is_waited_for(beanstalkd: Server) -> None:
    client, _ = await of_a_server(beanstalkd, AHEAD_MOST + 2)
    jobs = await reserved(client, AHEAD_MOST + 2)
    beanstalkd.pause()
    told = [client.send(Verb.DELETE, job) for job in jobs]
    asyncio.get_running_loop().call_later(2 * TOGETHER_SECONDS, beanstalkd.resume)

    assert [await each for each in told] == [Reply.DONE] * (AHEAD_MOST + 2)
    assert await reserved(client, 2) == []
    client.close()


async def test_a_batch_may_take_long_as_long_as_no_silence_within_it_does(
    beanstalkd: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = await of_a_server(beanstalkd, 3)
    jobs = await reserved(client, 3)
    loop, by_hand = asyncio.get_running_loop(), 0.0
    ticking = loop.time
    monkeypatch.setattr(loop, "time", lambda: ticking() + by_hand)
    beanstalkd.pause()
    try:
        told = [client.send(Verb.DELETE, job) for job in jobs]
        downs = []
        for silence, reply in [(0, b""), (0.7, b"DELETED\r\n"), (0.7, b"DELETED\r\n"), (1.1, b"")]:
            by_hand += silence * Timeouts().reply
            for _ in range(3):  # what is due by now is done
                await asyncio.sleep(0)
            if reply:
                client.data_received(reply)
            downs.append(client.down is not None)
    finally:
        beanstalkd.resume()

    assert downs == [False, False, False, True]
    assert [await each for each in told] == [Reply.DONE, Reply.DONE, Reply.MISSING]


@pytest.mark.parametrize("verb", USUAL)
async def test_the_usual_replies_to_many_are_read_in_one_go(
    beanstalkd: Server, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each reply would be a turn of the loop, and nobody would notice but by the time."""
    monkeypatch.setattr(connection, "TOGETHER_SECONDS", 5.0)  # however slow the server is just now
    client, _ = await of_a_server(beanstalkd, 3)
    jobs = await reserved(client, 3)
    reads: list[bytes] = []
    read = ReservingClient.data_received
    monkeypatch.setattr(
        ReservingClient,
        "data_received",
        lambda self, data: (reads.append(data), read(self, data))[1],
    )

    told = [client.send(verb, job) for job in jobs]

    assert [await each for each in told] == [Reply.DONE] * 3
    assert reads == [USUAL[verb] * 3]
    client.close()


async def test_beside_greenstalk_each_verb_means_the_same(beanstalkd: Server) -> None:
    """The real server is asked by both: what one does the other one sees."""
    client, ids = await of_a_server(beanstalkd, 4, priority=3, ttr=7)
    jobs = await reserved(client, 4)
    await client.read_facts(jobs)
    told = [client.send(verb, job) for verb, job in zip(USUAL, jobs, strict=True)]
    assert [await each for each in told] == [Reply.DONE] * 4

    with greenstalk.Client((beanstalkd.host, beanstalkd.port), encoding=None, watch="t") as other:
        assert client.instance == str(other.stats()["id"])
        with pytest.raises(greenstalk.NotFoundError):
            other.stats_job(ids[0])
        states = [other.stats_job(job)["state"] for job in ids[1:]]
        facts = other.stats_job(ids[3])

    assert states == ["buried", "ready", "reserved"]
    assert [job.id for job in jobs] == ids
    assert (jobs[3].priority, jobs[3].ttr) == (facts["pri"], facts["ttr"]) == (3, 7)
    again = await client.reserve(1)
    assert again
    assert (again.id, again.body) == (ids[2], b"ab")
    client.close()


LATE_ACKNOWLEDGEMENT_SECONDS = 0.04
"""How long Linux waits with the acknowledgement of small packets that nobody reads."""


def test_replies_are_read_long_before_their_acknowledgement_would_be_late() -> None:
    """Until it comes the server sends no more than its congestion window holds.

    That costs two thirds of the puts.
    """
    assert TOGETHER_SECONDS <= LATE_ACKNOWLEDGEMENT_SECONDS / 10
