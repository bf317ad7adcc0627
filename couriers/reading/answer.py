"""What a courier answered over HTTP, and how its JSON becomes typed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from couriers.reading.json_to_shape import fit_to_shape
from tracking.errors import UnreadableAnswer

_T = TypeVar("_T")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Answer(NamedTuple):
    """One whole HTTP answer.

    Header names are in lower case. `date` is always there: the courier's own, else the time of
    arrival, so that a `Retry-After` that names an instant can be read without a clock.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def decode(body: bytes, shape: type[_T]) -> _T:
    """Read `body` as JSON of the given shape (a msgspec.Struct, a list of them, …).

    Fields that the shape does not name are ignored, so a courier may add to its answers; values in
    another form of the same meaning are read too (`json_to_shape`). Raises UnreadableAnswer with
    the path of the first value that does not fit: a page instead of JSON, a changed type, text that
    is not UTF-8, nesting without end.
    """
    plain = body.removeprefix(_BYTE_ORDER_MARK)
    try:
        try:
            return msgspec.json.decode(plain, type=shape)
        except msgspec.ValidationError:
            values = fit_to_shape(msgspec.json.decode(plain), shape)
            return msgspec.convert(values, shape, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as unfit:
        raise UnreadableAnswer(f"not the JSON that was expected: {unfit}") from unfit


def decode_each(body: bytes, shape: type[_T]) -> list[_T]:
    """Read `body` like `decode`, as one value of the given shape or as a list of them."""
    listed = body.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"[")
    # `list[shape]` is a type that only the running program knows.
    several: type[list[_T]] = list[shape]  # type: ignore[valid-type]
    return decode(body, several) if listed else [decode(body, shape)]


def text(value: str | float | None) -> str | None:
    """Trim a value and join its blanks; None for nothing, and for the word "null" some send."""
    if value is None:
        return None
    words = str(value)
    # Nearly every value is clean, and this is asked a hundred times for one answer.
    # `strip` gives the text itself where there is nothing to take off.
    if "  " in words or words.strip() is not words or not words.isprintable():
        words = " ".join(words.replace("\0", " ").split())
    return words if words and words != "null" else None


def place(*parts: str | None) -> str | None:
    """Join the parts of a place that are there ("SALEM, OR"); None when none is."""
    return ", ".join(part for told in parts if (part := text(told))) or None
