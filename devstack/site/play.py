"""Giving an answer to a caller: as it should be, or with a fault."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import zlib
from collections.abc import Mapping

from aiohttp import web

from devstack.site.behaviour import Behaviour, Fault
from devstack.site.shapes.reply import Reply, encode

DRIP_SECONDS = 0.2
CHUNK = b"x" * 65_536
BOMB_CHUNK = bytes(1 << 20)
REDIRECTED = "/_followed"
HTML = b"<!doctype html><title>Maintenance</title><p>We will be back soon.</p>"
JSON = {"Content-Type": "application/json"}
RESET_AT_ONCE = struct.pack("ii", 1, 0)  # linger, for zero seconds: RST instead of FIN

Answer = tuple[int, bytes, Mapping[str, str]]


async def play(
    request: web.BaseRequest, reply: Reply, fault: Fault | None, behaviour: Behaviour
) -> web.StreamResponse | None:
    """Answer `request`; returns the response once its last byte left, None if there was none."""
    match fault:
        case Fault.HANG:
            await asyncio.Event().wait()  # cancelled when the caller hangs up
            return None
        case Fault.RESET:
            _reset(request)
            return None
        case Fault.CUT:
            await _cut(request, reply)
            return None
        case Fault.DRIP:
            return await _drip(request, reply)
        case Fault.HUGE | Fault.GZIP_BOMB:
            return await _pour(request, zipped=fault is Fault.GZIP_BOMB)
        case _:
            return await _send(request, *_answer(reply, fault, behaviour))


def _answer(reply: Reply, fault: Fault | None, behaviour: Behaviour) -> Answer:
    """Choose an answer that goes out whole."""
    answer: Answer = (reply.status, reply.body, reply.headers)
    match fault:
        case Fault.STATUS:
            pause = behaviour.retry_after
            headers = JSON if pause is None else {**JSON, "Retry-After": pause}
            error = {"error": {"code": behaviour.status, "message": "as you wished"}}
            answer = (behaviour.status, encode(error), headers)
        case Fault.UNKNOWN:
            answer = (*reply.unknown, reply.headers)
        case Fault.REDIRECT:
            answer = (302, b"", {"Location": REDIRECTED})
        case Fault.GARBAGE:
            answer = (200, HTML, {"Content-Type": "text/html"})
        case Fault.TRUNCATED:
            answer = (reply.status, reply.body[: len(reply.body) // 2], reply.headers)
        case Fault.SENSELESS:
            answer = (reply.status, _senseless(reply, behaviour), reply.headers)
    return answer


def _senseless(reply: Reply, behaviour: Behaviour) -> bytes:
    """Say 17 of each number that the fault is meant for."""
    if not reply.riders:
        return encode(17)
    told = json.loads(reply.body)
    return encode({each: 17 if behaviour.befalls(each) else told[each] for each in told})


async def _send(
    request: web.BaseRequest, status: int, body: bytes, headers: Mapping[str, str]
) -> web.StreamResponse:
    response = web.Response(status=status, body=body, headers=headers)
    await response.prepare(request)
    await response.write_eof()
    return response


async def _cut(request: web.BaseRequest, reply: Reply) -> None:
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    response.content_length = len(reply.body)
    await response.prepare(request)
    await response.write(reply.body[: len(reply.body) // 2])
    _reset(request)


async def _drip(request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    response.content_length = len(reply.body)
    await response.prepare(request)
    for byte in reply.body:
        await response.write(bytes((byte,)))
        await asyncio.sleep(DRIP_SECONDS)
    await response.write_eof()
    return response


async def _pour(request: web.BaseRequest, *, zipped: bool) -> web.StreamResponse:
    """Write without end; the lost connection ends it, as an exception."""
    encoding = {"Content-Encoding": "gzip"} if zipped else {}
    response = web.StreamResponse(status=200, headers={**JSON, **encoding})
    await response.prepare(request)
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)  # 16: with the header of gzip
    while True:
        chunk = CHUNK
        if zipped:
            chunk = packer.compress(BOMB_CHUNK) + packer.flush(zlib.Z_SYNC_FLUSH)
        await response.write(chunk)
        await asyncio.sleep(0)


def _reset(request: web.BaseRequest) -> None:
    transport = request.transport
    if transport is None:
        return  # the caller was faster
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_ONCE)
    transport.abort()
