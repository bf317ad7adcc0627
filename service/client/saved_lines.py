"""Requests in the spool, written on standard output too: a second copy, wherever logs are kept."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable, Iterator

from service.client.catalogue import Catalogue
from service.client.put import Bad, Sendable
from service.observe.output import LINE_MOST
from service.tubes.envelope import decode_request, encode_payload
from service.tubes.payload import read_strictly
from tracking.errors import MalformedJob

MARK = b'{"spooled":'
"""What such a line begins with; a log's own prefix may stand before it."""

STUCK_MS = 1_000
"""How long the reader of standard output may take nothing before lines are given up."""


def write_lines(bodies: Iterable[bytes], descriptor: int = 1) -> bool:
    """Write a line for each job, whole; false where nobody takes them, and some were left out."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    for piece in _pieces(bodies):
        left = piece
        while left:
            try:
                if not waiting.poll(STUCK_MS):
                    return False
                left = left[os.write(descriptor, left[:LINE_MOST]) :]
            except OSError:
                return False
    return True


def saved_in(lines: Iterable[bytes], name: str, catalogue: Catalogue) -> Iterator[Sendable | Bad]:
    """Find the requests in saved output; all its other lines are passed over."""
    for index, line in enumerate(lines, start=1):
        start = line.find(MARK)
        if start < 0:
            continue
        try:
            job = read_strictly(line[start:].rstrip())["spooled"]
            body = encode_payload(job["payload"], job.get("meta") or {})
            request = decode_request(body, catalogue.resolve)
        except (
            MalformedJob,
            ValueError,
            RecursionError,
            LookupError,
            TypeError,
            AttributeError,
        ) as e:
            why = e.detail if isinstance(e, MalformedJob) else "the line is not whole"
            yield Bad(f"{name}:{index}", why)
            continue
        yield Sendable(request.id or "", request.slug, request.number, body, index)


def _pieces(bodies: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines to what a pipe takes whole: other processes write to it too."""
    piece = b""
    for body in bodies:
        line = b"%b%b}\n" % (MARK, body)
        if piece and len(piece) + len(line) > LINE_MOST:
            yield piece
            piece = b""
        piece += line
    if piece:
        yield piece
