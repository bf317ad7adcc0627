"""A courier that costs next to nothing: every call is stamped, and answered after a set delay.

Run as `python -m benchmarks.courier_stub PORT`. It reads one request at a time per connection: a
GET for one number, a POST of json_feed for several, or POST /hook/NAME, a webhook, which is taken;
where NAME begins with `hang` it is never answered. It understands three requests of its own:

============================== ===================================================================
GET /_reset?delay_ms=&spread=  forget all calls; answer after `delay_ms`, shortened or lengthened by
                               up to `spread` of itself
GET /_count                    how many calls have arrived
GET /_calls                    a line per call: target (of several numbers /slug/NUMBER,NUMBER,…,
                               of a webhook /NAME/ID), arrival,
                               end (monotonic ns; 0: it runs), and how much earlier it may have come
                               while the stub did not look, in ns
============================== ===================================================================

The collector is off: a courier that stands still lets arrivals bunch, and no sender can foresee
that. What a run leaves behind is forgotten at the next reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import re
import selectors
import sys
from array import array
from collections.abc import Sequence
from functools import partial
from time import monotonic_ns
from urllib.parse import parse_qsl, urlsplit

HOST = "127.0.0.1"
BACKLOG = 4096
GOLDEN = 0.6180339887
"""Its multiples fall evenly between 0 and 1, in an order that repeats nothing."""

LOOK_SECONDS = 0.005
STALL_NS = round(2 * LOOK_SECONDS * 1_000_000_000)

_END = b"\r\n\r\n"
_CONTROL = b"/_"
_HOOK, _HANGS = b"/hook/", b"/hang"
_ID = re.compile(rb"(?i)\r\nwebhook-id: *([^\r]+)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


def feed() -> bytes:
    """Write the answer to every call: 8 checkpoints, 1.4 KB, in the form of `json_feed`."""
    events = [
        {
            "checkpoint_time": f"2024-03-{day:02}T09:{day + 20}:00",
            "message": f"Processed through the sorting facility no. {day}",
            "country_name": "Germany",
            "city": f"Leipzig {day}",
            "tag": "InTransit",
        }
        for day in range(1, 9)
    ]
    return json.dumps({"tag": "InTransit", "checkpoints": events}).encode()


def answer(body: bytes) -> bytes:
    """Put an HTTP head before a body."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + _END + body


FEED_BODY = feed()
FEED = answer(FEED_BODY)


TAKEN = answer(b'{"taken":true}')


def feed_of(numbers: Sequence[bytes]) -> bytes:
    """Write the answer to a call for several numbers."""
    return answer(b"{" + b",".join(b'"%b":%b' % (each, FEED_BODY) for each in numbers) + b"}")


class Looks(selectors.DefaultSelector):
    """A selector that looks at least every LOOK_SECONDS, and knows when it could not."""

    def __init__(self) -> None:
        super().__init__()
        self._last_ns = self._before_ns = monotonic_ns()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look, for a moment only; the loop comes again."""
        self._before_ns, began_ns = self._last_ns, monotonic_ns()
        found = super().select(LOOK_SECONDS if timeout is None else min(timeout, LOOK_SECONDS))
        ended_ns = monotonic_ns()
        # Stopped in the middle of a look, it may find nothing or what came before: what came
        # meanwhile is found by the next one.
        self._last_ns = ended_ns if ended_ns - began_ns < STALL_NS else began_ns
        return found

    def late_ns(self, arrived_ns: int) -> int:
        """How long before `arrived_ns` that may have come; 0 unless the loop stalled."""
        unseen = arrived_ns - self._before_ns
        return unseen if unseen > STALL_NS else 0


class Ledger:
    """All calls since the last reset, and how they are answered."""

    def __init__(self) -> None:
        self.reset(0.0, 0.0)

    def reset(self, delay: float, spread: float) -> None:
        """Forget all calls. `delay` in seconds; `spread` of it is added or taken away at most."""
        self.targets: list[bytes] = []
        self.arrived = array("q")
        self.ended = array("q")
        self.late = array("q")
        self._delay, self._spread = delay, spread

    def delay(self, index: int) -> float:
        """Seconds until call `index` is answered."""
        if not self._spread:
            return self._delay
        return self._delay * (1 + self._spread * (2 * (index * GOLDEN % 1) - 1))

    def lines(self) -> bytes:
        """Write down every call."""
        rows = zip(self.targets, self.arrived, self.ended, self.late, strict=True)
        return b"".join(b"%b %d %d %d\n" % row for row in rows)


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, ledger: Ledger, loop: asyncio.AbstractEventLoop, looks: Looks) -> None:
        self._ledger = ledger
        self._loop = loop
        self._looks = looks
        self._begun = b""
        self._arrived_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Stamp a request as its first byte is read, before anything else is done."""
        arrived_ns = monotonic_ns()
        if self._begun:
            data, arrived_ns = self._begun + data, self._arrived_ns
        posts = data.startswith(b"POST")
        if not (_is_whole(data) if posts else data.endswith(_END)):
            self._begun, self._arrived_ns = data, arrived_ns
            return
        self._begun = b""
        if posts:
            target, told = _posted(data)
            self._call(target, told, arrived_ns)
            return
        target = data[4 : data.index(b" ", 4)]
        if target.startswith(_CONTROL):
            self._write(answer(self._control(target.decode())))
        else:
            self._call(target, FEED, arrived_ns)

    def _call(self, target: bytes, told: bytes, arrived_ns: int) -> None:
        ledger = self._ledger
        index = len(ledger.targets)
        ledger.targets.append(target)
        ledger.arrived.append(arrived_ns)
        ledger.ended.append(0)
        ledger.late.append(self._looks.late_ns(arrived_ns))
        if target.startswith(_HANGS):
            return
        delay = ledger.delay(index)
        if delay and told is not TAKEN:
            self._loop.call_later(delay, self._answer, index, told)
        else:
            self._answer(index, told)

    def _answer(self, index: int, told: bytes) -> None:
        # Stamped before the write: the process it wakes may run before this line is reached again.
        if index < len(self._ledger.ended):
            self._ledger.ended[index] = monotonic_ns()
        self._write(told)

    def _write(self, data: bytes) -> None:
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.write(data)

    def _control(self, target: str) -> bytes:
        asked = urlsplit(target)
        match asked.path:
            case "/_calls":
                return self._ledger.lines()
            case "/_count":
                return b"%d" % len(self._ledger.targets)
            case "/_reset":
                told = dict(parse_qsl(asked.query))
                self._ledger.reset(float(told["delay_ms"]) / 1000, float(told["spread"]))
                gc.collect()
        return b""


def _is_whole(data: bytes) -> bool:
    """Whether a POST is read to the end of its body."""
    head, end, body = data.partition(_END)
    length = _LENGTH.search(head)
    return bool(end) and length is not None and len(body) >= int(length[1])


def _posted(data: bytes) -> tuple[bytes, bytes]:
    """Read a POST: its target with all numbers, or the id of a webhook, and what it is answered."""
    head, _, body = data.partition(_END)
    target = head[5 : head.index(b" ", 5)]
    if target.startswith(_HOOK):
        named = _ID.search(head)
        return b"/%b/%b" % (target[len(_HOOK) :], named[1] if named else b"none"), TAKEN
    numbers = [each.encode() for each in json.loads(body)["numbers"]]
    return b"%b/%b" % (target, b",".join(numbers)), feed_of(numbers)


async def serve(port: int, looks: Looks) -> None:
    """Serve until killed, on a loop that looks by `looks`."""
    loop = asyncio.get_running_loop()
    ledger = Ledger()
    connect = partial(Connection, ledger, loop, looks)
    server = await loop.create_server(connect, HOST, port, backlog=BACKLOG)
    gc.collect()
    gc.freeze()
    gc.disable()
    await server.serve_forever()


if __name__ == "__main__":
    seen = Looks()
    with (
        contextlib.suppress(KeyboardInterrupt),
        asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(seen)) as runner,
    ):
        runner.run(serve(int(sys.argv[1]), seen))
