"""Heads of requests, read as their senders wrote them: nothing of a head that HTTP has is refused.

aiohttp's parser in C knows the methods that it knows, takes no byte beyond ASCII in a target, and
no header twice that it holds for a single one. Senders do send such, and no relay may lose it. So
the connections of a door read heads here, and bodies as aiohttp's parser in Python does.

=============== ====================================================================================
part            is taken where it has this form; all else is 400, and the end of its connection
=============== ====================================================================================
method          a token, in its case (RFC 9110, 9.1)
target          `/` and any bytes but blanks and control codes; other forms as aiohttp reads them
header's name   a token, with the colon right behind it
header's value  any bytes but CR, LF and NUL, without the blanks around
framing         one Host, at most one Content-Length of digits, or one Transfer-Encoding and none
=============== ====================================================================================
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from aiohttp import HttpVersion10, HttpVersion11, StreamReader, hdrs, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.helpers import set_exception
from aiohttp.http_exceptions import (
    BadHttpMessage,
    BadHttpMethod,
    HttpProcessingError,
    InvalidHeader,
    LineTooLong,
    TransferEncodingError,
)
from aiohttp.http_parser import (
    ChunkState,
    HeadersParser,
    HttpPayloadParser,
    HttpRequestParserPy,
    PayloadState,
    RawRequestMessage,
)
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.typedefs import RawHeaders
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from service.worker.deliveries.foreign_request import HEAD_MOST, TCHAR

_LINE: Final = re.compile(rf"({TCHAR}+) (/[!-~\x80-\xff]*) HTTP/1\.([01])")
_BEGINNING: Final = re.compile(rb"%b+(?: |\Z)|\r?\Z" % TCHAR.encode())
_FIELD: Final = re.compile(rb"(%b+):[ \t]*([^\r\n\x00]*)" % TCHAR.encode())
_LENGTH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_ONCE: Final = (hdrs.HOST, hdrs.CONTENT_LENGTH, hdrs.TRANSFER_ENCODING)
"""What says for whom a message is, or where it ends: two of it may be read in two ways."""

Message = tuple[RawRequestMessage, StreamReader]
"""A head, and what gives its body."""


@lru_cache(128)
def _url_of(target: str) -> URL:
    """Write a target as aiohttp's routes want it; senders use the same ones again and again."""
    path, _, query = target.partition("?")
    return URL.build(path=path, query_string=query, encoded=True)


class _Headers(HeadersParser):
    """Reads headers, and trailers behind chunks."""

    def parse_headers(self, lines: list[bytes]) -> tuple[CIMultiDictProxy[str], RawHeaders]:
        """Read lines, of which the last is empty. Raises InvalidHeader."""
        raw = []
        for line in lines[:-1]:
            found = _FIELD.fullmatch(line)
            if found is None:
                raise InvalidHeader(line)
            raw.append((found[1], found[2].rstrip(b" \t")))
        read = CIMultiDict([(n.decode(), v.decode("utf-8", "surrogateescape")) for n, v in raw])
        for name in _ONCE:
            if len(read.getall(name, ())) > 1:
                raise InvalidHeader(name)
        if not _LENGTH.fullmatch(read.get(hdrs.CONTENT_LENGTH, "0")):
            raise InvalidHeader(hdrs.CONTENT_LENGTH)
        return CIMultiDictProxy(read), tuple(raw)


class _Chunks(HttpPayloadParser):
    """Takes a body out of its chunks: aiohttp's own lets a CR pass within an extension."""

    def feed_data(self, chunk: bytes, *about: Any) -> tuple[PayloadState, bytes]:
        """Read on, piece by piece; aiohttp calls it. Raises TransferEncodingError."""
        state = PayloadState.PAYLOAD_NEEDS_INPUT
        if self._chunk is ChunkState.PARSE_CHUNKED_CHUNK:  # it was paused within
            chunk, self._chunk_tail = self._chunk_tail + chunk, b""
        while chunk and state is PayloadState.PAYLOAD_NEEDS_INPUT:
            end = len(chunk)
            match self._chunk:
                case ChunkState.PARSE_CHUNKED_SIZE:
                    end = chunk.find(b"\n") + 1 or end
                    if b"\r" in (self._chunk_tail + chunk[:end]).removesuffix(b"\n")[:-1]:
                        raise TransferEncodingError("a CR ends no line")
                case ChunkState.PARSE_CHUNKED_CHUNK:
                    end = self._chunk_size
                case ChunkState.PARSE_CHUNKED_CHUNK_EOF:
                    end = len(b"\r\n") - len(self._chunk_tail)
            state, left = super().feed_data(chunk[:end], *about)
            chunk = left + chunk[end:]
        if state is PayloadState.PAYLOAD_HAS_PENDING_INPUT:
            self._chunk_tail, chunk = self._chunk_tail + chunk, b""
        return state, chunk


class Heads(HttpRequestParserPy):
    """Reads the requests of one connection. A target holds a byte in each character (Latin-1)."""

    def __init__(self, protocol: BaseProtocol, **options: Any) -> None:
        super().__init__(protocol, **options)
        self._headers_parser = _Headers()

    def feed_data(self, data: bytes, *_: Any) -> tuple[list[Message], bool, bytes]:
        """Read on; aiohttp calls it, and takes no more requests at once than it asked for.

        Nothing that comes behind an upgrade is read as another protocol: such a connection ends.
        Raises HttpProcessingError.
        """
        messages = list[Message]()
        seen, data, self._tail = len(self._tail), self._tail + data, b""
        while data or self._payload_has_more_data:
            if self._payload_parser is not None:
                data = self._read_body(self._payload_parser, data)
                if self._payload_parser is not None:
                    break
            elif data.startswith(b"\r\n"):
                data = data[2:]
            elif self._msg_in_flight >= self._max_msg_queue_size:
                self._tail = data
                break
            else:
                end = data.find(b"\r\n\r\n", max(0, seen - 3))
                try:
                    message = self._begin(data, end)
                except HttpProcessingError:
                    if not messages:
                        raise
                    message = None  # what came before it is answered first
                if message is None:
                    self._tail = data
                    break
                payload, data = self._body_of(message, data[end + 4 :])
                messages.append((message, payload))
            seen = 0
        return messages, False, b""

    def parse_message(self, lines: list[bytes]) -> RawRequestMessage:
        """Read a head; aiohttp calls it. Raises HttpProcessingError."""
        found = _LINE.fullmatch(lines[0].decode("latin-1"))
        if found is None or found[1] == hdrs.METH_CONNECT:
            message = super().parse_message(lines)
            if message.version in {HttpVersion10, HttpVersion11}:
                return message
            raise BadHttpMessage(f"there is no HTTP of version {message.version}")
        method, target, minor = found.groups()
        headers, raw, close, compression, upgrade, chunked = self.parse_headers(lines[1:])
        version = HttpVersion11 if minor == "1" else HttpVersion10
        if version == HttpVersion11 and hdrs.HOST not in headers:
            raise BadHttpMessage("Missing 'Host' header in request.")
        return RawRequestMessage(
            method,
            target,
            version,
            headers,
            raw,
            version == HttpVersion10 if close is None else close,
            compression,
            upgrade,
            bool(chunked),
            _url_of(target),
        )

    def _begin(self, data: bytes, end: int) -> RawRequestMessage | None:
        """Read a head up to its end; None where it has no end yet. Raises HttpProcessingError."""
        lines = data[: len(data) if end < 0 else end].split(b"\r\n")
        if not 0 <= end < self.max_line_size or len(lines) > self.max_headers:
            self._insist_on_bounds(lines)
        if end < 0:
            return None
        message = self.parse_message([*lines, b""])
        self._msg_in_flight += 1
        return message

    def _body_of(self, message: RawRequestMessage, data: bytes) -> tuple[StreamReader, bytes]:
        """Have a body read, at once where it is all here; gives it, and what is not read yet."""
        length = int(message.headers.get(hdrs.CONTENT_LENGTH, "0"))
        if not (length or message.chunked):
            return EMPTY_PAYLOAD, data
        assert self.protocol is not None and self.loop is not None  # noqa: S101, PT018 - a server's
        payload = StreamReader(self.protocol, self._limit, loop=self.loop)
        if not message.chunked and length <= len(data):
            payload.feed_data(data[:length])
            payload.feed_eof()
            return payload, data[length:]
        self._payload_parser = (_Chunks if message.chunked else HttpPayloadParser)(
            payload,
            None if message.chunked else length,
            message.chunked,
            headers_parser=self._headers_parser,
            max_line_size=self.max_line_size,
            max_field_size=self.max_field_size,
            max_trailers=self.max_headers,
        )
        return payload, data

    def _read_body(self, parser: HttpPayloadParser, data: bytes) -> bytes:
        """Read on in a body; gives what is behind it."""
        try:
            # A copy is as large as it is; where asyncio read into more, holes are left in memory.
            state, rest = parser.feed_data(bytes(memoryview(data)))
        except HttpProcessingError as error:
            set_exception(parser.payload, web.RequestPayloadError(str(error)), error)
            raise
        self._payload_has_more_data = state is PayloadState.PAYLOAD_HAS_PENDING_INPUT
        if state is PayloadState.PAYLOAD_COMPLETE:
            self._payload_parser = None
        return rest

    def _insist_on_bounds(self, lines: list[bytes]) -> None:
        """Refuse lines of which there are too many, or that are too long, or none of a request."""
        if len(lines[0]) > self.max_line_size:
            raise LineTooLong(lines[0][:100], self.max_line_size)
        if len(max(lines[1:], key=len, default=b"")) > self.max_field_size:
            raise LineTooLong(lines[0][:100], self.max_field_size)
        if len(lines) - 1 > self.max_headers:
            raise BadHttpMessage("Too many headers")
        if sum(map(len, lines)) > HEAD_MOST:
            raise LineTooLong(lines[0][:100], HEAD_MOST)
        if not _BEGINNING.match(lines[0]) or b"\n" in b"".join(lines):
            raise BadHttpMethod(lines[0][:100].decode("latin-1"))  # TLS, say, which has no lines
