"""A receiver that keeps each request as its bytes came: no server reads them before.

Servers fold headers, decode targets and join what is repeated; this one splits lines, and that is
all. It takes what it gets on loopback over kept connections, each in a thread.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, cast

from devstack.senders import Message

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


class RawReceiver:
    """Where requests arrive: `arrived`, in the order in which they were complete.

    `answer`: what is answered, but for the body of a 200. `keep` gets each request, in the
    thread of its connection, and may be set to another than one that keeps all of them.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.arrived: list[Message] = []
        self.keep: Callable[[Message], None] = self.arrived.append
        self.answer = _OK

    def take(self, reader: BinaryIO, writer: BinaryIO) -> None:
        """Serve a connection until the sender closes it."""
        while (message := read_message(reader)) is not None:
            self.keep(message)
            # An answer to HEAD has no body, whatever its head says.
            body = b"ok" if self.answer == _OK and message.method != "HEAD" else b""
            writer.write(self.answer + body)
            writer.flush()


def read_message(reader: BinaryIO) -> Message | None:
    """Read a request as it came, None behind the last one: also where its sender died in it."""
    lines = list[bytes]()
    while (line := reader.readline()) != b"\r\n":
        if not line:
            return None
        lines.append(line)
    first, *fields = (line.removesuffix(b"\r\n").decode("latin-1") for line in lines)
    method, target, _ = first.split(" ")
    headers = tuple(cast("tuple[str, str]", tuple(each.split(": ", 1))) for each in fields)
    lengths = [int(value) for name, value in headers if name.lower() == "content-length"]
    body = reader.read(*lengths) if lengths else b""
    return Message(method, target, headers, body) if len(body) == sum(lengths) else None


@contextmanager
def raw_receiver() -> Iterator[RawReceiver]:
    """Receive on a free port of this machine."""

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(ConnectionError):
                receiver.take(cast("BinaryIO", self.rfile), cast("BinaryIO", self.wfile))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Connection) as server:
        receiver = RawReceiver(server.server_address[1])
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            serving.join()
