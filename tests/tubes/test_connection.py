"""One connection of greenstalk's: what its puts come to, and what ends it.

The server of these tests says what real ones say when a link is cut or something else listens.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from service.tubes.commands import Placing
from service.tubes.connection import Connection, Patience, PutRefused
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


PUT = b"put 0 0 60 2\r\nab\r\n"
LAST = (PUT, b"INSERTED 102\r\n")


@pytest.mark.parametrize(
    "reply", [b"DRAINING", b"OUT_OF_MEMORY", b"JOB_TOO_BIG", b"INTERNAL_ERROR"]
)
def test_a_put_that_is_refused_leaves_the_connection_as_it_is(reply: bytes) -> None:
    with scripted((PUT, reply + b"\r\n")) as connection:
        (result,) = connection.put("t", [b"ab"], Placing(priority=0))

        assert isinstance(result, PutRefused)
        assert connection.alive


def test_each_of_many_puts_has_its_reply_and_a_buried_job_goes_so_that_nobody_kicks_it() -> None:
    replies = b"INSERTED 8\r\nBURIED 9\r\nJOB_TOO_BIG\r\nINSERTED 10\r\n"
    deleted = (b"delete 9\r\n", b"DELETED\r\n")
    with scripted((PUT * 4, replies), deleted) as connection:
        first, buried, too_big, last = connection.put("t", [b"ab"] * 4, Placing(priority=0))

        assert (first, last) == (8, 10)
        assert isinstance(buried, PutRefused)
        assert isinstance(too_big, PutRefused)
        assert connection.alive


def test_many_puts_that_are_taken_are_read_together_and_the_next_replies_are_left() -> None:
    many = (PUT * 3, b"INSERTED 8\r\nINSERTED 99\r\nINSERTED 100\r\n")
    another = (b"use u\r\n", b"USING u\r\n")
    with scripted(many, (PUT * 2, b"INSERTED 101\r\nDRAINING\r\n"), another, LAST) as connection:
        assert connection.put("t", [b"ab"] * 3, Placing(priority=0)) == [8, 99, 100]
        taken, refused = connection.put("t", [b"ab"] * 2, Placing(priority=0))
        assert taken == 101
        assert isinstance(refused, PutRefused)
        assert connection.put("u", [b"ab"], Placing(priority=0)) == [102]


def test_of_many_puts_those_that_were_acknowledged_count_when_the_connection_ends() -> None:
    with scripted((PUT * 4, b"INSERTED 8\r\nINSERTED 9\r\n")) as connection:
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
    with scripted((PUT, b"INSERTED 8\r\n")) as connection:
        connection.wire.send_ahead([PUT])

        with pytest.raises(ConnectionError, match="is not what was sent ahead"):
            connection.client.put(b"another")


def test_greenstalk_still_writes_the_puts_that_we_write_ahead(beanstalkd_address: str) -> None:
    """Against the real server: a changed command would end the connection."""
    with closing(Connection.open(beanstalkd_address, "t", Patience())) as connection:
        first, second = connection.put("t", [b"ab", b"c"], Placing(priority=3, ttr=7))

        assert [connection.client.stats_job(job)["pri"] for job in (first, second)] == [3, 3]
