"""Several numbers in one call: asking for them, and reading what the answer says of each.

An answer is cut into the parts of its numbers, and each part is read by the parser of one number,
as if it had come alone: what cannot be read there is that number's own failure. The names in a part
say whose it is, never its place: couriers leave numbers out and change their order.
A part that names nobody who was asked for is nobody's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from couriers.http.refusals import refuse
from couriers.reading import numbers as written
from couriers.reading.answer import BYTE_ORDER_MARK, Answer, decode
from tracking.checkpoint import Tracking
from tracking.errors import (
    CourierError,
    InvalidNumber,
    RequestRefused,
    UnreadableAnswer,
    WrongNumber,
)
from tracking.request import TrackingRequest

Ends = Mapping[str, Tracking | CourierError]
"""What came of each number, as it was asked for; one that is missing was left out of the answer."""

Parse = Callable[[int, Mapping[str, str], bytes, str], Tracking]
ParseMany = Callable[[int, Mapping[str, str], bytes, Sequence[str]], Ends]


class Reads(Protocol):
    """Runs a parser over an answer; `couriers.http.fetch.Fetch` does."""

    def read_many(self, answer: Answer, parse_many: ParseMany, numbers: Sequence[str]) -> Ends:
        """Read what came of each number."""


_Fetch = TypeVar("_Fetch", bound=Reads)


def _itself(number: str) -> Iterable[str]:
    return (number,)


class Cut(NamedTuple):
    """How the answers of one courier are cut.

    `path` names the members that lead to the list of parts. `names` reads how a part calls its
    number; `forms` gives all the names under which a number may come. `speaks_for_all`: where the
    whole answer says "not known (yet)", none of the numbers is.
    """

    path: tuple[str, ...]
    names: Callable[[bytes], Iterable[str | None]]
    forms: Callable[[str], Iterable[str]] = _itself
    speaks_for_all: bool = False


async def track_each(
    fetch: _Fetch,
    requests: Sequence[TrackingRequest],
    ask: Callable[[_Fetch, Sequence[str]], Awaitable[Answer]],
    parse_many: ParseMany,
) -> Ends:
    """Ask for those numbers that can be the courier's; the others have failed without a call."""
    ends: dict[str, Tracking | CourierError] = {}
    asked = []
    for number in dict.fromkeys(str(request.number) for request in requests):
        try:
            asked.append(written.alphanumeric(number))
        except InvalidNumber as invalid:
            ends[number] = invalid
    if asked:
        ends |= fetch.read_many(await ask(fetch, asked), parse_many, asked)
    return ends


def parser_of(parse: Parse, cut: Cut, judges: Container[int] | None = None) -> ParseMany:
    """Make a module's `parse_many`: each number is read as if it had come alone.

    `judges`: of the whole answer, as `couriers.http.refusals.refuse` takes them.
    """

    def parse_many(
        status: int, headers: Mapping[str, str], body: bytes, numbers: Sequence[str]
    ) -> Ends:
        refuse(status, headers, body, judges)
        return read_each(parse, Answer(status, headers, body), numbers, cut)

    return parse_many


def read_each(parse: Parse, answer: Answer, numbers: Sequence[str], cut: Cut) -> Ends:
    """Read the part of each number with the parser of one; raises what the whole answer means."""
    if len(numbers) == 1:
        return {numbers[0]: read_part(parse, answer, numbers[0])}
    whose: dict[str, list[str]] = {}
    for number in numbers:
        for name in cut.forms(number):
            whose.setdefault(name, []).append(number)
    parts: dict[str, list[bytes]] = {}
    strangers = 0
    for piece in _pieces(answer.body, cut.path):
        names = _names(piece, cut)
        strangers += bool(names)
        for number in dict.fromkeys(each for name in names for each in whose.get(name, ())):
            parts.setdefault(number, []).append(piece)
    if not parts and strangers:
        raise WrongNumber(f"asked for {len(numbers)} numbers, answered about {strangers} others")
    if not parts:
        return _of_all(parse, answer, numbers, cut)
    return {
        number: read_part(parse, answer._replace(body=_joined(pieces, cut.path)), number)
        for number, pieces in parts.items()
    }


def read_part(parse: Parse, answer: Answer, number: str) -> Tracking | CourierError:
    """Read what is about one number; its error keeps that part, and nothing of the others."""
    try:
        return parse(answer.status, answer.headers, answer.body, number)
    except CourierError as failed:
        error = failed
    except Exception as fault:  # noqa: BLE001 - a fault of the parser must not spoil the others
        error = UnreadableAnswer(f"the parser failed: {type(fault).__name__}: {fault}")
    error.part = answer.body
    return error


def _of_all(parse: Parse, answer: Answer, numbers: Sequence[str], cut: Cut) -> Ends:
    """Read an answer that names nobody: it is about the call, and says nothing of one number."""
    try:
        told = parse(answer.status, answer.headers, answer.body, numbers[0])
    except InvalidNumber as invalid:
        # Of which number nobody knows: each is asked for again, in smaller company.
        raise RequestRefused(invalid.message) from invalid
    if cut.speaks_for_all and not told.checkpoints:
        return dict.fromkeys(numbers, told)
    raise UnreadableAnswer(f"one answer for {len(numbers)} numbers, which names none of them")


def _names(piece: bytes, cut: Cut) -> set[str]:
    try:
        return {name for name in cut.names(piece) if name}
    except UnreadableAnswer:
        return set()


def members(body: bytes) -> dict[str, bytes]:
    """Read a JSON object, and leave its members as they are written. Raises UnreadableAnswer."""
    found = decode(body, dict[str, msgspec.Raw])
    return {name: bytes(value) for name, value in found.items()}


def _pieces(body: bytes, path: Sequence[str]) -> list[bytes]:
    """Follow a path to a list and cut it up; one alone may stand in the place of a list of it."""
    found = body
    for name in path:
        whole = _listed(found)
        if len(whole) > 1:
            raise UnreadableAnswer(f"not the JSON that was expected: several have a {name!r}")
        found = members(whole[0]).get(name, b"") if whole else b""
    return _listed(found)


def _listed(found: bytes) -> list[bytes]:
    plain = found.removeprefix(BYTE_ORDER_MARK).strip()
    if plain.startswith(b"["):
        cut = map(bytes, decode(plain, list[msgspec.Raw]))
        return [piece for piece in cut if piece != b"null"]
    return [plain] if plain.startswith(b"{") else []


def _joined(pieces: Iterable[bytes], path: Sequence[str]) -> bytes:
    head = "".join(f'{{"{name}":' for name in path).encode()
    return b"%b[%b]%b" % (head, b",".join(pieces), b"}" * len(path))
