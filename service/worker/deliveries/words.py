"""Words of a relayed request, by which people find it, and the upkeep that writes them down.

======= ==========================================================================================
of      words are taken
======= ==========================================================================================
path    of all of it, percent-decoded, without the query, which may hold secrets
headers of `content-type`, `user-agent`, and of those with a name that ends like ENDINGS
body    of its first KiB, where that is text: UTF-8, or what its media type says; uncompressed
        (gzip, deflate), and without the escapes of forms and JSON
======= ==========================================================================================

A word is a run of letters and digits in lower case, of 2 to 40 characters: a longer one is cut. So
`order_id`, `orders/create` and a UUID are several words, here and in what is searched for.

The upkeep writes them into the member `words` of the delivery, after it was made: until then no
search by words finds it, and the answer of each says up to when all have theirs. It sees each
request once, so it also has those counted that came later than totals.py looks back.
"""

from __future__ import annotations

import asyncio
import codecs
import datetime as dt
import itertools
import re
import time
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, unquote_plus

from pymongo import ASCENDING, UpdateOne

from service.worker.deliveries.foreign_request import ForeignRequest, foreign_in
from service.worker.deliveries.standing import DAY, beginning
from service.worker.deliveries.totals import COUNTED_AGAIN, PART, count
from service.worker.results.connection import Store
from service.worker.results.database import WITHOUT_WORDS, Collections, Document

WORDS_MOST = 64
SHORTEST, LONGEST = 2, 40
"""Characters of a word."""

READ_MOST = 1_024
"""Bytes that are read of a body, and of any other text."""

PACKED_MOST = 64 * 1024
"""Bytes of a compressed body that are looked at: the first KiB comes out of far fewer."""

PERIOD_SECONDS = 5.0

BATCH = 100
EVENTS_TOGETHER = 10
"""Requests that have their words written together, and events that are read together: an event has
1 MiB at most, and MongoDB answers 16 at once."""

NAMED = frozenset({"content-type", "user-agent"})
ENDINGS = ("-topic", "-event", "-type", "-id", "-delivery", "-domain")
"""Headers by which senders say what happened, to whom, and under which id. None is a secret."""

_ASCII = re.compile(r"[a-z0-9]+")
_ESCAPES = re.compile(r'\\(?:u([0-9a-fA-F]{4})|["\\/bfnrt])')
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


def words_of(request: ForeignRequest) -> list[str]:
    """List the words of a request, each once: WORDS_MOST at most, those of its path first."""
    return _once(text for each in _texts(request) for text in _words(each))


def words_in(text: str) -> list[str]:
    """List the words of a text that is searched for, each once, WORDS_MOST at most."""
    return _once(_words(text))


def _once(words: Iterable[str]) -> list[str]:
    return list(itertools.islice(dict.fromkeys(words), WORDS_MOST))


def _words(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKC", text).lower()
    found = _ASCII.findall(plain) if plain.isascii() else _spaced(plain).split()
    return (each[:LONGEST] for each in found if len(each) >= SHORTEST)


def _spaced(text: str) -> str:
    """Put blanks in the place of all but letters, digits and the marks that belong to them."""
    return "".join(
        each if each.isalnum() or unicodedata.category(each)[0] == "M" else " " for each in text
    )


def _texts(request: ForeignRequest) -> Iterator[str]:
    path = request.target.partition("?")[0][:READ_MOST]
    yield unquote(path.encode("latin-1", "replace").decode("utf-8", "replace"))
    for name, value in request.headers:
        if name.lower() in NAMED or name.lower().endswith(ENDINGS):
            yield value[:READ_MOST].encode("latin-1", "replace").decode("utf-8", "replace")
    yield _text_of_body(request)


def _text_of_body(request: ForeignRequest) -> str:
    media_type = next(iter(request.values("content-type")), "").lower()
    beginning = _unpacked(request)
    text = _decoded(beginning, media_type)
    if "json" in media_type:
        return _ESCAPES.sub(_unescaped, text)
    return unquote_plus(text) if "form-urlencoded" in media_type else text


def _unpacked(request: ForeignRequest) -> bytes:
    """Take the first KiB of the body, out of its compression; of an unknown one nothing."""
    coding = next(iter(request.values("content-encoding")), "identity").strip().lower()
    if coding in {"", "identity"}:
        return request.body[:READ_MOST]
    if coding not in {"gzip", "x-gzip", "deflate"}:
        return b""
    try:
        return zlib.decompressobj(47).decompress(request.body[:PACKED_MOST], READ_MOST)
    except zlib.error:
        return b""


def _decoded(beginning: bytes, media_type: str) -> str:
    """Read bytes as text, "" where they are none; the last character may be cut in two."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        is_western = "8859-1" in media_type or "windows-1252" in media_type
        text = beginning.decode("windows-1252", "replace") if is_western else ""
    return "" if _BINARY.search(text) else text


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else " "


class Words:
    """Writes words down. Several processes at once are harmless."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def look(self) -> None:
        """Write down the words of all requests that have none yet. Raises ResultsDown."""
        late, more = set[dt.datetime](), True
        while more:
            began = time.monotonic()
            seen = await self._store.in_background(write_some, self._store)
            late |= _counted_before(seen, dt.datetime.now(dt.UTC))
            more = len(seen) == BATCH
            await asyncio.sleep(time.monotonic() - began if more else 0.0)  # others have their turn
        for part in sorted(late):
            await self._store.in_background(count, self._store, part)


def write_some(stores: Collections) -> list[dt.datetime]:
    """Write down the words of the oldest BATCH requests without; says when each came.

    Raises PyMongoError.
    """
    order = [("made_at", ASCENDING)]
    wanted = stores.deliveries.find(dict(WITHOUT_WORDS), {"event": 1, "made_at": 1}, limit=BATCH)
    new = list(wanted.sort(order).batch_size(BATCH))
    asked = {"_id": {"$in": [each["event"] for each in new]}}
    words = {
        each["_id"]: _words_of_event(each)
        for each in stores.events.find(asked).batch_size(EVENTS_TOGETHER)
    }
    changes = [
        # Of a request that is not kept any more there are none, and it is not asked for again.
        UpdateOne({"_id": each["_id"]}, {"$set": {"words": words.get(each["event"], [])}})
        for each in new
    ]
    if changes:
        stores.deliveries.bulk_write(changes, ordered=False)
    return [each["made_at"] for each in new]


def _words_of_event(event: Document) -> list[str]:
    try:
        return words_of(foreign_in(event))
    except (LookupError, TypeError, ValueError):
        return []  # this service did not write it so


def _counted_before(came: Iterable[dt.datetime], now: dt.datetime) -> set[dt.datetime]:
    """Tell which ten minutes were counted for the last time before these came.

    Not those of days that may be added up by now.
    """
    return {beginning(at, PART) for at in came if now - DAY < at < now - COUNTED_AGAIN}
