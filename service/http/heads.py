"""Heads of requests, read as their senders wrote them: nothing of a head that HTTP has is refused.

aiohttp's own parser, in C, knows the methods that it knows, takes no byte beyond ASCII in a target,
and no header twice that it holds for a single one. Senders do send such, and no relay may lose it.
So a door reads heads with aiohttp's parser in Python, which frames messages as strictly, and with
the two rules below in the place of aiohttp's.

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
from typing import Any, Final

from aiohttp import HttpVersion10, HttpVersion11, hdrs
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import BadHttpMessage, BadHttpMethod, InvalidHeader, LineTooLong
from aiohttp.http_parser import HeadersParser, HttpRequestParserPy, RawRequestMessage
from aiohttp.typedefs import RawHeaders
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from service.worker.deliveries.foreign_request import TCHAR

_LINE: Final = re.compile(rf"({TCHAR}+) (/[!-~\x80-\xff]*) HTTP/1\.([01])")
_BEGINNING: Final = re.compile(rb"[\r\n]*(?:%b+(?: |\Z)|\Z)" % TCHAR.encode())
_FIELD: Final = re.compile(rb"(%b+):[ \t]*([^\r\n\x00]*)" % TCHAR.encode())
_LENGTH: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_ONCE: Final = (hdrs.HOST, hdrs.CONTENT_LENGTH, hdrs.TRANSFER_ENCODING)
"""What says for whom a message is, or where it ends: two of it may be read in two ways."""


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


class Heads(HttpRequestParserPy):
    """Reads the requests of one connection. A target holds a byte in each character (Latin-1)."""

    def __init__(self, protocol: BaseProtocol, max_headers: int, **options: Any) -> None:
        # aiohttp counts the lines, of which two are no header.
        super().__init__(protocol, max_headers=max_headers + 2, **options)
        self._headers_parser = _Headers()

    def feed_data(self, data: bytes, *about: Any) -> Any:
        """Read on; aiohttp calls it. Raises HttpProcessingError."""
        try:
            messages, *more = super().feed_data(data, *about)
        except LineTooLong as error:
            # aiohttp holds each first line of what it is given for a request's.
            if not self._lines:
                raise
            raise LineTooLong(error.args[0], self.max_field_size) from error
        if self._tail and not (messages or self._lines or _BEGINNING.match(self._tail)):
            raise BadHttpMethod(self._tail[:100].decode("latin-1"))  # TLS, say, which has no lines
        return messages, *more

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
        path, _, query = target.partition("?")
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
            URL.build(path=path, query_string=query, encoded=True),
        )
