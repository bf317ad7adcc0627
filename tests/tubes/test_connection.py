"""One connection: what ends it, and that nothing is done over another one.

The server of these tests says what real ones say when a link is cut or something else listens.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import greenstalk
import pytest

from devstack.servers import Server
from service.tubes.commands import Placing, Reply, Verb
from service.tubes.connection import Connection, Patience, PutRefused, Reservation
from service.tubes.wire import AHEAD_MOST, TOGETHER_MS
from tracking.errors import TubesDown

HASTE = Patience(connect=1.0, reply=0.3)
STATS = b"---\nid: 0123abcd\n"
GREETING = [
    (b"use t\r\n", b"USING t\r\n"),
    (b"watch t\r\n", b"WATCHING 2\r\n"),
    (b"ignore default\r\n", b"WATCHING 1\r\n"),
    (b"stats\r\n", b"OK %d\r\n%b\r\n" % (len(STATS), STATS)),
]


@contextmanager
def scripted(*exchanges: tuple[bytes, bytes]) -> Iterator[Connection]:
    """A connection to a server that answers expected commands with given bytes, then hangs up."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            # The client may be gone before it has read all, or before this end hangs up.
            with accepted, accepted.makefile("rb") as reader, suppress(OSError):
                for command, reply in [*GREETING, *exchanges]:
                    heard.append(reader.read(len(command)))
                    if heard[-1] != command:
                        return
                    accepted.sendall(reply)
                accepted.shutdown(socket.SHUT_WR)
                reader.read()

        thread = threading.Thread(target=serve)
        thread.start()
        with closing(Connection.open(address_of(listener), "t", Patience())) as connection:
            yield connection
        thread.join()
    assert heard == [command for command, _ in [*GREETING, *exchanges]]


def address_of(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


NOW = b"reserve-with-timeout 0\r\n"


@pytest.mark.parametrize(
    "reply",
    [
        b"RESERVED 7 2\r",
        b"RESERVED 7 5\r\nab",
        b"RESERVED 7 2\r\nabcd\r\n",
        b"RESERVED 7\r\n",
        b"RESERVED x y\r\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"\xff\xfe\r\n",
        b"UNKNOWN_COMMAND\r\n",
        b"",
    ],
)
def test_a_reply_that_makes_no_sense_ends_the_connection(reply: bytes) -> None:
    with scripted((NOW, reply)) as connection:
        with pytest.raises(TubesDown):
            connection.reserve_ready(1)

        assert not connection.alive
        assert connection.error


def held(connection: Connection) -> Reservation:
    (reservation,) = connection.reserve_ready(1)
    return reservation


ONE = (NOW, b"RESERVED 7 2\r\nab\r\n")


def test_a_jobs_handle_dies_with_its_connection() -> None:
    with scripted(ONE, (NOW, b"nonsense\r\n")) as connection:
        job = held(connection)
        with pytest.raises(TubesDown):
            connection.reserve_ready(1)

        assert job.lost
        assert connection.abandoned == 1
        with pytest.raises(TubesDown):
            connection.tell(Verb.DELETE, [job])


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
def test_replies_that_the_protocol_foresees_are_results(
    verb: Verb, command: bytes, line: bytes, expected: Reply
) -> None:
    with scripted(ONE, (command, line)) as connection:
        job = held(connection)
        job.priority = 5

        assert connection.tell(verb, [job]) == [expected]
        assert connection.alive
        assert job.lost


def test_a_job_buried_at_its_release_is_stuck() -> None:
    with scripted(ONE, (b"release 7 0 0\r\n", b"BURIED\r\n")) as connection:
        assert connection.tell(Verb.RELEASE, [held(connection)]) == [Reply.STUCK]


THREE = (NOW * 3, b"RESERVED 7 1\r\na\r\nRESERVED 8 1\r\nb\r\nRESERVED 9 1\r\nc\r\n")


@pytest.mark.parametrize(
    ("verb", "commands", "lines", "expected"),
    [
        (Verb.DELETE, b"delete %d\r\n", b"DELETED NOT_FOUND DELETED", Reply.MISSING),
        (Verb.TOUCH, b"touch %d\r\n", b"TOUCHED NOT_FOUND TOUCHED", Reply.MISSING),
        (Verb.BURY, b"bury %d 0\r\n", b"BURIED NOT_FOUND BURIED", Reply.MISSING),
        (Verb.RELEASE, b"release %d 0 0\r\n", b"RELEASED BURIED RELEASED", Reply.STUCK),
    ],
)
def test_another_reply_among_many_is_about_its_own_job(
    verb: Verb, commands: bytes, lines: bytes, expected: Reply
) -> None:
    said = b"".join(line + b"\r\n" for line in lines.split())
    with scripted(THREE, (commands * 3 % (7, 8, 9), said), (NOW, b"TIMED_OUT\r\n")) as connection:
        jobs = connection.reserve_ready(3)

        assert connection.tell(verb, jobs) == [Reply.DONE, expected, Reply.DONE]
        assert [job.lost for job in jobs] == [False, True, False]
        assert connection.reserve_ready(1) == []


@pytest.mark.parametrize("said", [b"", b"DELETED\r\nDELETED\r\n", b"DELETED\r\n" * 2 + b"DELE"])
def test_replies_that_stop_in_their_middle_end_the_connection(said: bytes) -> None:
    with scripted(THREE, (b"delete %d\r\n" * 3 % (7, 8, 9), said)) as connection:
        jobs = connection.reserve_ready(3)

        with pytest.raises(TubesDown):
            connection.tell(Verb.DELETE, jobs)
        assert [job.lost for job in jobs] == [True] * 3


def test_a_deadline_is_no_job() -> None:
    with scripted((NOW * 2, b"DEADLINE_SOON\r\nTIMED_OUT\r\n")) as connection:
        assert connection.reserve_ready(2) == []


def test_facts_of_a_job_that_is_gone_tell_that_it_is_lost() -> None:
    with scripted(ONE, (b"stats-job 7\r\n", b"NOT_FOUND\r\n")) as connection:
        job = held(connection)

        connection.read_facts([job])

        assert (job.lost, job.ttr) == (True, None)


USE = (b"use t\r\n", b"USING t\r\n")
PUT = b"put 0 0 60 2\r\nab\r\n"


@pytest.mark.parametrize(
    "reply", [b"DRAINING", b"OUT_OF_MEMORY", b"JOB_TOO_BIG", b"INTERNAL_ERROR"]
)
def test_a_put_that_is_refused_leaves_the_connection_as_it_is(reply: bytes) -> None:
    with scripted(USE, (PUT, reply + b"\r\n")) as connection:
        (result,) = connection.put("t", [b"ab"], Placing(priority=0))

        assert isinstance(result, PutRefused)
        assert connection.alive


def test_each_of_many_puts_has_its_reply_and_a_buried_job_goes_so_that_nobody_kicks_it() -> None:
    replies = b"INSERTED 8\r\nBURIED 9\r\nJOB_TOO_BIG\r\nINSERTED 10\r\n"
    deleted = (b"delete 9\r\n", b"DELETED\r\n")
    with scripted(USE, (PUT * 4, replies), deleted) as connection:
        first, buried, too_big, last = connection.put("t", [b"ab"] * 4, Placing(priority=0))

        assert (first, last) == (8, 10)
        assert isinstance(buried, PutRefused)
        assert isinstance(too_big, PutRefused)
        assert connection.alive


def test_of_many_puts_those_that_were_acknowledged_count_when_the_connection_ends() -> None:
    with scripted(USE, (PUT * 4, b"INSERTED 8\r\nINSERTED 9\r\n")) as connection:
        assert connection.put("t", [b"ab"] * 4, Placing(priority=0)) == [8, 9]


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400\r\n", b"", b"\r\n", b"USING t\r\nWHAT\r\n"])
def test_whatever_else_listens_there_is_no_beanstalkd(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(greeting)
                while connection.recv(100):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(TubesDown):
            Connection.open(address_of(listener), "t", HASTE)
        thread.join()


def test_what_was_sent_ahead_is_what_greenstalk_must_say() -> None:
    with scripted((NOW, b"TIMED_OUT\r\n")) as connection:
        connection.begin_wait(0)

        with pytest.raises(TubesDown, match="is not what was sent ahead"):
            connection.end_wait(5)

        assert not connection.alive


def test_a_server_that_is_slow_with_its_replies_is_waited_for(beanstalkd: Server) -> None:
    connection = Connection.open(f"{beanstalkd.host}:{beanstalkd.port}", "t", Patience())
    for _ in range(AHEAD_MOST + 2):
        connection.put("t", [b"ab"], Placing())
    jobs = [*connection.reserve_ready(AHEAD_MOST), *connection.reserve_ready(2)]
    beanstalkd.pause()
    later = threading.Timer(2 * TOGETHER_MS / 1000, beanstalkd.resume)
    later.start()

    assert connection.tell(Verb.DELETE, jobs) == [Reply.DONE] * (AHEAD_MOST + 2)

    later.join()
    assert connection.reserve_ready(2) == []
    connection.close()


@pytest.mark.parametrize("verb", Verb)
def test_the_usual_reply_is_the_one_that_is_looked_for_among_many(
    beanstalkd_address: str, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each reply would be read by itself again, and nobody would notice but by the time."""
    connection = Connection.open(beanstalkd_address, "t", Patience())
    for _ in range(2):
        connection.put("t", [b"ab"], Placing())
    jobs = connection.reserve_ready(2)
    monkeypatch.delattr(greenstalk.Client, verb.value)

    assert connection.tell(verb, jobs) == [Reply.DONE] * 2

    connection.close()


def test_greenstalk_still_writes_the_commands_that_we_write_ahead(
    beanstalkd_address: str,
) -> None:
    """Each verb once, against the real server: a changed command would end the connection."""
    connection = Connection.open(beanstalkd_address, "t", Patience())
    for _ in range(4):
        connection.put("t", [b"ab"], Placing(priority=3))
    jobs = connection.reserve_ready(4)
    connection.read_facts(jobs)
    replies = [connection.tell(verb, [job])[0] for verb, job in zip(Verb, jobs, strict=True)]
    connection.begin_wait(1)
    again = connection.end_wait(1)

    assert replies == [Reply.DONE] * 4
    assert [job.priority for job in jobs] == [3] * 4
    assert isinstance(again, Reservation)
    assert isinstance(again.raw, greenstalk.Job)
    connection.close()
