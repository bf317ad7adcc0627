"""Whatever is sent to a relay is kept exactly as a strict reader has it, or refused: never else.

The strict reader below knows no second meaning of anything: where two readers could differ about
where a message ends, it reads none. So what hides there (request smuggling) is never kept.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from aiohttp import web
from door_ground import FixedKeys
from relay_ground import KEY, LABEL, PATH, written

from service.config.load import load
from service.http.backend.bodies import Bodies
from service.http.backend.door import Door
from service.http.ingest import Relays
from service.http.serve import Connections, SenderConnection
from service.operator.keys import Keys
from service.worker.deliveries.foreign_request import decode_foreign
from service.worker.deliveries.service import Ingest

SEED = 30

CHUNKED = b"5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX-T: 1\r\n\r\n"
WHOLE = (
    written(f"{PATH}/a?b=c", b"hello world", X_A="1", Connection="X-B", X_B="2"),
    written(PATH, Transfer_Encoding="chunked") + CHUNKED,
    written(PATH, b"first") + written(f"{PATH}/2", b"second"),
    written(PATH, Transfer_Encoding="chunked") + CHUNKED + written(f"{PATH}/2", method="GET"),
    written(f"{PATH}/2", method="GET") + written(PATH, b"x" * 40, "PUT"),
)
PIECES = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b"\x00",
        b"\x0b",
        b"\x7f",
        b"\xff",
        b"0",
        b"+",
        b"-",
    ),
    *(b"\r\n\r\n", b"\r\n ", b";", b",", b"chunked", b"identity", b"0x", b"0\r\n\r\n", b"5\r\n"),
    *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length : 5\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding:\x0bchunked\r\n", b"HTTP/1.0"),
    *(b"Transfer-Encoding: chunked, identity\r\n", b"Transfer_Encoding: chunked\r\n"),
    *(b"Connection: close\r\n", b"Connection: Content-Length\r\n", b"Upgrade: websocket\r\n"),
    *(b"GET /in/x HTTP/1.1\r\nHost: y\r\n\r\n", written(f"{PATH}/hidden", b"z"), b"/../", b"#"),
)

FIXED = [
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\nContent-Length: 1\r\n\r\nx",
    b"Transfer-Encoding : chunked\r\nContent-Length: 1\r\n\r\nx",
    b"Transfer-Encoding:\n chunked\r\nContent-Length: 1\r\n\r\nx",
    b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
    b"Content-Length: 1, 1\r\n\r\nx",
    b"Content-Length: +1\r\n\r\nx",
    b"Content-Length: 0x1\r\n\r\nx",
    b"Content-Length: 18446744073709551617\r\n\r\nx",
    b"Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
    b"Transfer-Encoding: chunked\r\n\r\n1;a\rb\r\nx\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
    b"!POST %b\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
    b"!POST %b HTTP/2.0\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
    b"!POST %b HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    b"Host: b\r\nContent-Length: 1\r\n\r\nx",
    b"X: 1\r\n Content-Length: 1\r\n\r\nx",
]
"""What must not be kept at all: behind the first lines, or in their place where `!` begins it."""

_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (/[!-~\x80-\xff]*) HTTP/1\.([01])")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\x00]*)")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})(?:[ \t]*;[^\r\n]*)?\r\n")
_LEFT_OUT = re.compile(
    r"connection|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*"
)


class Strict(NamedTuple):
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def strictly(data: bytes) -> Iterator[Strict]:
    """Read messages, until one is not whole or has no single meaning."""
    while True:
        data = data.lstrip(b"\r\n")
        head, end, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        line, fields = _LINE.fullmatch(first), [_FIELD.fullmatch(each) for each in lines]
        if not (end and line and all(fields)):
            return
        pairs = [each.groups() for each in fields if each]
        headers = [(n.decode("latin-1"), v.rstrip(b" \t").decode("latin-1")) for n, v in pairs]
        body = _body(headers, rest, old=line[3] == b"0")
        if body is None:
            return
        named = {
            each.strip().lower()
            for name, value in headers
            if name.lower() == "connection"
            for each in value.split(",")
        }
        kept = [
            pair
            for pair in headers
            if not _LEFT_OUT.fullmatch(pair[0].lower()) and pair[0].lower() not in named
        ]
        yield Strict(line[1].decode(), line[2].decode("latin-1"), tuple(kept), body[0])
        data = body[1]


def _body(
    headers: Sequence[tuple[str, str]], rest: bytes, *, old: bool
) -> tuple[bytes, bytes] | None:
    lengths = [value for name, value in headers if name.lower() == "content-length"]
    codings = [value.lower() for name, value in headers if name.lower() == "transfer-encoding"]
    if codings:
        return None if lengths or old or codings != ["chunked"] else _unchunked(rest)
    if not lengths:
        return b"", rest
    if len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,18}", lengths[0]):
        return None
    size = int(lengths[0])
    return (rest[:size], rest[size:]) if len(rest) >= size else None


def _unchunked(rest: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while found := _CHUNK.match(rest):
        size, rest = int(found[1], 16), rest[found.end() :]
        if not size:
            while not rest.startswith(b"\r\n"):
                trailer, end, rest = rest.partition(b"\r\n")
                if not end or not _FIELD.fullmatch(trailer):
                    return None
            return body, rest[2:]
        if rest[size : size + 2] != b"\r\n":
            return None
        body, rest = body + rest[:size], rest[size + 2 :]
    return None


class Taking:
    """In place of a door: what it is given is durable."""

    def __init__(self) -> None:
        self.jobs: list[bytes] = []

    def insist_on_pace(self) -> None:
        pass

    def job_most(self) -> None:
        return None

    async def take_jobs(self, jobs: Sequence[bytes]) -> list[bool]:
        self.jobs += jobs
        return [False] * len(jobs)


class Wire(asyncio.Transport):
    """The other end of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.is_over = False

    def write(self, data: Any) -> None:
        self.said += data

    def close(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Exchange:
    """A door's connections, without a network."""

    def __init__(self) -> None:
        config, keys = load(None, {}, Path("/")).config, FixedKeys()
        free = Ingest(per_second=1_000_000, bytes_per_second=1_000_000_000)
        keys.keys = Keys({}, KEY, {LABEL: free})
        self.taking = Taking()
        relays = Relays(config, keys, cast("Door", self.taking), Bodies(Path("/nowhere")))
        self._server = web.Server(relays.others)
        relays.stand_before(self._server)
        self._connections = Connections(10)

    async def sends(self, *pieces: bytes) -> tuple[list[int], list[Strict]]:
        """Send pieces; gives the statuses of the answers, and what was kept."""
        self.taking.jobs.clear()
        loop, wire = asyncio.get_running_loop(), Wire()
        made = SenderConnection(self._server, self._connections, loop=loop, access_log=None)
        made.connection_made(wire)
        for piece in pieces:
            made.data_received(piece)
            await settled(10)
        made.connection_lost(None)
        await settled(3)
        statuses = [int(each) for each in re.findall(rb"HTTP/[0-9.]+ (\d{3}) ", wire.said)]
        kept = [decode_foreign(each) for each in self.taking.jobs]
        return statuses, [
            Strict(each.method, each.url.split("/", 3)[3], each.headers, each.body) for each in kept
        ]


async def settled(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def damage(chance: random.Random, text: bytes) -> bytes:
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) + 1)
        to = min(len(text), at + chance.randint(0, 12))
        piece = chance.choice(PIECES) if chance.random() < 0.8 else chance.randbytes(3)
        match chance.randrange(5):
            case 0:
                text = text[:at] + text[to:]
            case 1:
                text = text[:at] + piece + text[at:]
            case 2:
                text = text[:at] + piece + text[to:]
            case 3:
                text = text[:to] + text[at:to] + text[to:]
            case _:
                ends = [found.end() for found in re.finditer(rb"\r\n", text)] or [0]
                at = chance.choice(ends)
                text = text[:at] + piece + text[at:]
    return text


def is_kept_of(kept: Sequence[Strict], read: Sequence[Strict]) -> bool:
    """Whether all that is kept was read, in its order."""
    left = iter(read)
    return all(each in left for each in kept)


@pytest.mark.parametrize("count", [1_500, pytest.param(100_000, marks=pytest.mark.prove)])
async def test_what_is_kept_is_what_a_strict_reader_has(count: int) -> None:
    chance, exchange, taken = random.Random(SEED), Exchange(), 0
    for number in range(count):
        sent = damage(chance, chance.choice(WHOLE)) if number % 20 else chance.choice(WHOLE)
        cut = chance.randrange(len(sent) + 1)

        statuses, kept = await exchange.sends(sent[:cut], sent[cut:])

        read = [each._replace(target=each.target[1:]) for each in strictly(sent)]
        assert is_kept_of(kept, read), (sent, kept)
        assert {each for each in statuses if each >= 500} <= {501}, (sent, statuses)
        assert statuses.count(202) == len(kept), (sent, statuses)
        taken += len(kept)
    assert taken > count // 10


@pytest.mark.parametrize("said", FIXED)
async def test_what_two_readers_could_read_differently_is_refused(said: bytes) -> None:
    hidden = written(f"{PATH}/hidden", b"x")
    first = b"POST %b HTTP/1.1\r\nHost: a\r\n" % PATH.encode()
    sent = said[1:] % PATH.encode() if said.startswith(b"!") else first + said
    statuses, kept = await Exchange().sends(sent, hidden)

    assert kept == []
    assert statuses
    assert statuses[0] // 100 in {4, 5}
