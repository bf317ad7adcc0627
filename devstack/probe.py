"""Asking a server whether it serves, in its own protocol.

Each probe raises OSError as long as the server does not answer as it should. Raw sockets, because
the clients reconnect, wait and start threads of their own.
"""

from __future__ import annotations

import socket
import struct

import bson

PATIENCE = 1.0
"""Seconds for one answer on loopback; the caller repeats the probe."""

_OP_MSG = 2013
_HEADER = struct.Struct("<iiii")  # length, request id, response to, opcode
_FLAGS_AND_KIND = 5  # four bytes of flags, one for the kind of the only section


def beanstalkd(host: str, port: int) -> None:
    """Ask for `stats`."""
    with socket.create_connection((host, port), PATIENCE) as connection:
        connection.sendall(b"stats\r\n")
        _expect(connection.recv(64), b"OK ")


def redis(host: str, port: int) -> None:
    """Send PING; a server that asks for a password serves too, one that still loads does not."""
    with socket.create_connection((host, port), PATIENCE) as connection:
        connection.sendall(b"PING\r\n")
        _expect(connection.recv(64), b"+PONG", b"-NOAUTH")


def mongodb(host: str, port: int) -> None:
    """Send `hello` and look whether writes are taken."""
    body = b"\0\0\0\0\0" + bson.encode({"hello": 1, "$db": "admin"})
    with socket.create_connection((host, port), PATIENCE) as connection:
        connection.sendall(_HEADER.pack(_HEADER.size + len(body), 1, 0, _OP_MSG) + body)
        with connection.makefile("rb") as stream:
            length, *_ = _HEADER.unpack(_exactly(stream.read(_HEADER.size), _HEADER.size))
            answer = _exactly(stream.read(length - _HEADER.size), length - _HEADER.size)
    if not bson.decode(answer[_FLAGS_AND_KIND:]).get("isWritablePrimary"):
        raise ConnectionError("mongod answers but takes no writes")


def _expect(answer: bytes, *beginnings: bytes) -> None:
    if not answer.startswith(beginnings):
        raise ConnectionError(f"unexpected answer {answer[:64]!r}")


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise ConnectionError("the answer was cut off")
    return data
