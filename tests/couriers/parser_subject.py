"""What the generic tests know of a module: answers as its courier might give them."""

from __future__ import annotations

import json
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from xml.sax.saxutils import escape

import msgspec

NUMBER = "15509990000007"

Event = tuple[str, str, str]
"""Its time, its text, a code or none."""

WHOLE = (
    "delivered",
    "has been delivered",
    "your parcel delivered",
    "your parcel has been delivered",
)
"""Sentences that say a delivery from the first word to the last, of the generated ones."""


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def as_xml(value: object, name: str = "answer") -> bytes:
    """Write what JSON could hold as XML: members are elements, lists are repeated ones."""
    return _element(name, value).encode()


def _element(name: str, value: object) -> str:
    match value:
        case dict():
            inside = "".join(_element(key, each) for key, each in value.items())
        case list():
            return "".join(_element(name, each) for each in value) or f"<{name}/>"
        case None:
            inside = ""
        case _:
            inside = escape("".join(each for each in str(value) if each.isprintable()))
    return f"<{name}>{inside}</{name}>"


@dataclass(frozen=True)
class Subject:
    """A module; an answer out of events; which of them deliver; codes, known ones and others.

    `elements` are the names that a module reads of its courier's XML. `in_english` is False for a
    courier whose events have no words, or none in English.
    """

    module: ModuleType
    answer: Callable[[list[Event]], object]
    delivered: Callable[[Event], bool]
    codes: tuple[str, ...]
    encode: Callable[[Any], bytes] = as_json
    elements: AbstractSet[str] = frozenset()
    in_english: bool = True

    @property
    def reads_codes(self) -> bool:
        """Whether its courier gives codes, and the module has a table of them."""
        return "" in self.codes[1:]

    @property
    def names(self) -> list[str]:
        """Every name that the module reads in its courier's answers."""
        if self.elements:
            return sorted(self.elements)
        # Long ones have files of their own, inside of the package.
        inside = f"{self.module.__name__}."
        members = [each for each in vars(self.module).values() if isinstance(each, ModuleType)]
        own = [self.module, *(each for each in members if each.__name__.startswith(inside))]
        shapes = [shape for module in own for shape in vars(module).values()]
        structs = [shape for shape in shapes if isinstance(shape, msgspec.StructMeta)]
        return sorted({name for shape in structs for name in shape.__struct_encode_fields__})


def rows(events: list[Event], at: str, what: str, code: str) -> list[dict[str, str]]:
    return [{at: time, what: said, code: coded} for time, said, coded in events]


def coded(*codes: str) -> Callable[[Event], bool]:
    return lambda event: event[2] in codes


def said(*sentences: str) -> Callable[[Event], bool]:
    return lambda event: event[1].lower() in sentences
