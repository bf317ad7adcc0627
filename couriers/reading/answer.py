"""Reading an answer: its JSON or XML becomes typed values, its texts become clean ones.

Couriers turn XML into JSON, and databases into either: a list of one becomes the one, a text of
digits a number, and what is empty becomes "", {} or []. What does not fit at first is brought into
shape where it has only one possible meaning; else the answer cannot be read. Details (weight,
service, reference, proof, sub-parcels) never make an answer unreadable: in another form than
expected they count as not said.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from tracking.errors import UnreadableAnswer

_T = TypeVar("_T")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
    another form of the same meaning are read too (`fit_to_shape`). Raises UnreadableAnswer with
    the path of the first value that does not fit: a page instead of JSON, a changed type, text that
    is not UTF-8, nesting without end.
    """
    plain = body.removeprefix(BYTE_ORDER_MARK)
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
    listed = body.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")
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


def fit_to_shape(value: Any, kind: Any) -> Any:
    """Bring `value` (of decoded JSON) into the form that the type `kind` asks for, where it can."""
    kinds = typing.get_args(kind) if _is_union(kind) else (kind,)
    of_list = next((typing.get_args(each)[0] for each in kinds if _is_list(each)), None)
    shape = next((each for each in kinds if _is_shape(each)), None)
    if value in ("", {}, []):
        own = list if of_list else dict if shape else str
        return value if isinstance(value, own) else None
    match value:
        case dict() if shape is not None:
            value = _members(value, shape)
        case dict() if of_list is not None:
            value = [fit_to_shape(value, of_list)]
        case list() if of_list is not None:
            value = [fit_to_shape(each, of_list) for each in value if each is not None]
        case [single] if shape is not None:
            value = fit_to_shape(single, kind)
        case int() | float() if str in kinds and int not in kinds and not isinstance(value, bool):
            value = str(value)
    return value


def _members(value: Mapping[str, Any], shape: type[msgspec.Struct]) -> dict[str, Any]:
    kinds = _kinds(shape)
    return {name: fit_to_shape(each, kinds[name]) for name, each in value.items() if name in kinds}


@functools.cache
def _kinds(shape: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Look up the members of a shape and their types; there are as many as modules declare."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(shape)}


def _is_shape(kind: Any) -> typing.TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, msgspec.StructMeta)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) is list


class Element:
    """One element; namespaces are ignored, because couriers change them without notice."""

    __slots__ = ("_node",)

    def __init__(self, node: Any) -> None:
        self._node = node

    def text(self, name: str) -> str | None:
        """Return the trimmed text of the first child called `name`; None for none, or an empty."""
        child = next((node for node in self._node if _local(node) == name), None)
        return None if child is None else Element(child).content

    @property
    def content(self) -> str | None:
        """The trimmed text of this element; None for none."""
        return text(self._node.xpath("string()"))

    def attribute(self, name: str) -> str | None:
        """Return the trimmed value of the attribute called `name`; None for none, or an empty."""
        return text(self._node.get(name))

    def each(self, name: str) -> Iterator[Element]:
        """Find all elements called `name`, this one and those at any depth, in their order."""
        return (Element(node) for node in self._node.iter() if _local(node) == name)

    def first(self, name: str) -> Element | None:
        """Find the first of `each`; None when there is none."""
        return next(self.each(name), None)


def read_xml(body: bytes) -> Element:
    """Parse a whole document.

    Raises UnreadableAnswer for what is no XML, and for a document type: no courier sends one, and
    entities are how a small document becomes a huge one or names a file of this machine.
    """
    # Slow to import, and needed by no command but a worker's and `reparse`.
    from lxml import etree  # noqa: PLC0415 - see above

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False
    )
    try:
        root = etree.fromstring(body.strip(), parser)  # an XML declaration must stand first
    except (etree.XMLSyntaxError, ValueError) as unfit:
        raise UnreadableAnswer(f"not the XML that was expected: {unfit}") from unfit
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableAnswer("the XML declares a document type")
    return Element(root)


def _local(node: Any) -> str:
    """Name an element without its namespace; "" for comments and processing instructions."""
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""


_POUND, _OUNCE = 453.59237, 28.349523125
_GRAMS = {
    **dict.fromkeys(("g", "gr", "gram", "grams", "gramm"), 1.0),
    **dict.fromkeys(("kg", "kgs", "kilogram", "kilograms", "kilogramm", "metric", "si"), 1000.0),
    **dict.fromkeys(("lb", "lbs", "pound", "pounds", "imperial", "su"), _POUND),
    **dict.fromkeys(("oz", "ozs", "ounce", "ounces"), _OUNCE),
}
"""Grams by the names that couriers give to units of weight."""
_AMOUNT = re.compile(r"\d{1,7}(?:\.\d{1,9})?", re.ASCII)
_ADDRESS = re.compile(r"https?://[\x21-\x7e]{1,2000}", re.ASCII | re.IGNORECASE)


def inside(value: Any, *path: str) -> str | None:
    """Follow the names of `path` into decoded JSON and read what is there as text.

    Of a list the first counts. None for nothing, and where there is no such member.
    """
    for name in (*path, None):
        if isinstance(value, list):
            value = value[0] if value else None
        if name is not None:
            value = value.get(name) if isinstance(value, dict) else None
    told = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return text(value) if told else None


def grams(amount: str | float | None, unit: str | None = "kg") -> int | None:
    """Read a weight; None for none, for nothing at all (many write 0), or an unknown unit."""
    if amount is None:
        return None
    told, factor = _AMOUNT.fullmatch(text(amount) or ""), _GRAMS.get((unit or "").strip().lower())
    return round(float(told[0]) * factor) or None if told and factor else None


def address(value: str | None) -> str | None:
    """Take a web address as it is; None for what is none."""
    plain = text(value)
    return plain if plain and _ADDRESS.fullmatch(plain) else None


def others(numbers: Iterable[str | int | None], asked: str) -> tuple[str, ...]:
    """List the parcels of a consignment besides the number that was asked for, each once."""
    named = dict.fromkeys(name for number in numbers if (name := text(number)))
    return tuple(name for name in named if name.upper() != asked)
