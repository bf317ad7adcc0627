"""Bodies and headers that somebody else wrote, as pages show them: as text, and never run.

============================= ====================================================================
a body                        is shown as
============================= ====================================================================
JSON in UTF-8                 the same tokens, each member on a line of its own
a form                        a table of its names and values
other text in UTF-8           that text
all else                      a hex dump
============================= ====================================================================

What is long is cut; all of it is downloaded. Characters that nobody sees, or that turn the order of
others around, are written as escapes: so no text looks like another one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec

TEXT_MOST = 16 * 1024
"""Characters of a text that are shown."""

DUMP_MOST = 2 * 1024
"""Bytes that are shown as a hex dump."""

FORM_MOST = 200
"""Fields of a form that are shown."""

CURL_MOST = 32 * 1024
"""Bytes of a body that a command quotes: a longer one is read from its file."""

INDENTED_MOST = 30
"""Levels of JSON that are indented further than the one above."""

FORM = "application/x-www-form-urlencoded"

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
_BINARY = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class Form(StrEnum):
    """How a body is shown."""

    EMPTY = "empty"
    JSON = "JSON"
    FORM = "form"
    TEXT = "text"
    HEX = "hex dump"


class ShownBody(NamedTuple):
    """A body as it is shown: a `text`, or of a form its `fields`. `is_cut`: there is more."""

    form: Form
    size: int
    text: str = ""
    fields: Sequence[tuple[str, str]] = ()
    is_cut: bool = False


def shown_body(body: bytes, media_type: str = "") -> ShownBody:
    """Write a body for people; its media type decides nothing but whether it is a form."""
    size, text = len(body), text_in(body)
    if not body:
        return ShownBody(Form.EMPTY, 0)
    if text is None:
        return ShownBody(Form.HEX, size, "\n".join(_dump(body[:DUMP_MOST])), (), size > DUMP_MOST)
    kind = media_type.partition(";")[0].strip().lower()
    if kind == FORM and (fields := _fields(text)):
        return ShownBody(Form.FORM, size, "", *_cut_fields(fields))
    if _is_json(text):
        return ShownBody(Form.JSON, size, *_cut(_indented(text)))
    return ShownBody(Form.TEXT, size, *_cut([text]))


def text_in(body: bytes) -> str | None:
    """Read a body as text; None where it is none: no UTF-8, or with control characters in it."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if _BINARY.search(text) else text


def visible(text: str) -> str:
    """Write what nobody would see, or see in another place, as escapes."""
    return _HIDDEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] == "\r":
        return "" if found.string[found.end() : found.end() + 1] == "\n" else "\\r"
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - a byte


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in {"{", "["}:
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _indented(text: str) -> Iterator[str]:
    """Write JSON with a member a line; each token as it came: no number is read, none rounded."""
    depth, before = 0, ""
    for found in _TOKEN.finditer(text):
        each = found[0]
        if each in "}]":
            depth -= 1
        begins = before in {"{", "[", ","} or each in "}]"
        if begins and before + each not in {"{}", "[]"}:
            yield "\n" + "  " * min(depth, INDENTED_MOST) if before else ""
        yield f"{each} " if each == ":" else each
        if each in "{[":
            depth += 1
        before = each


def _cut(parts: Iterable[str]) -> tuple[str, tuple[()], bool]:
    """Join parts up to TEXT_MOST characters; whether there is more."""
    taken, left = list[str](), TEXT_MOST
    for each in parts:
        taken.append(each[:left])
        left -= len(each)
        if left < 0:
            break
    return visible("".join(taken)), (), left < 0


def _fields(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=TEXT_MOST)
    except ValueError:
        return []


def _cut_fields(fields: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], bool]:
    taken, left = list[tuple[str, str]](), TEXT_MOST
    for name, value in fields[:FORM_MOST]:
        if left <= 0:
            break
        taken.append((visible(name[:left]), visible(value[:left])))
        left -= len(name) + len(value)
    return taken, left < 0 or len(taken) < len(fields)


def _dump(body: bytes) -> Iterator[str]:
    for at in range(0, len(body), 16):
        row = body[at : at + 16]
        told = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in row)  # noqa: PLR2004
        yield f"{at:06x}  {row.hex(' '):<47}  {told}"


class Sent(NamedTuple):
    """A request as somebody sends it."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    file: str


def curl(sent: Sent) -> str:
    """Write a command that sends it once more; a body that cannot be quoted is read from a file."""
    own = {"host", "content-length"}
    words = ["curl", "--globoff", "--http1.1"]
    words += ["--head"] if sent.method == "HEAD" else ["--request", sent.method]
    for name, value in sent.headers:
        if name.lower() not in own:
            # Without a value curl would take the header out.
            words += ["--header", f"{name}: {value}" if value.strip() else f"{name};"]
    named = {name.lower() for name, _ in sent.headers}
    added = ["accept", "user-agent", *(["content-type"] if sent.body else [])]
    for name in added:  # which curl would send by itself
        words += [] if name in named else ["--header", f"{name}:"]
    text = text_in(sent.body) if len(sent.body) <= CURL_MOST else None
    if sent.body:
        quoted = ["--data-binary", f"@{sent.file}"] if text is None else ["--data-raw", text]
        words += quoted
    return shlex.join([*words, "--url", sent.url])
