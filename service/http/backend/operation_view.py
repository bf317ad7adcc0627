"""An operation as Redis or the archive shows it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from limits.admin.view import Place, View
from limits.ends import End
from service.operator.stored import Stored
from tracking.errors import ResultsDown
from tracking.line import courier_line
from tracking.operation import ENDS, State, number_of
from tracking.request import Number, Slug


@dataclass(frozen=True, slots=True)
class OperationView:
    """An operation under its id, as Redis knows it: its `members` as in `limits.admin.operations`.

    `slug` and `number` are None of one whose parcel was forgotten; `place` is known while it waits.
    """

    id: str
    slug: Slug | None
    number: Number | None
    members: Mapping[str, Any]
    place: Place | None = None

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.members["status"] in ENDS


def view_of_members(identity: str, members: Mapping[str, Any]) -> OperationView:
    """Make the view of the operation `identity`, with the parcel that its members name."""
    slug, _, number = (members.get("tracking") or "").partition(":")
    if not slug:
        return OperationView(identity, None, None, members)
    return OperationView(identity, Slug(slug), Number(number), members)


async def placed(view: View, known: OperationView) -> OperationView:
    """Add the place of an operation that waits. Raises LimitsDown."""
    if known.members["status"] != State.WAITING or known.slug is None or known.number is None:
        return known
    number = Number(number_of(known.number, known.id))
    place = await view.place(courier_line(known.slug), number, itself=True)
    return replace(known, place=place)


async def views_of_ends(view: View, stored: Stored, ends: Sequence[End]) -> Sequence[OperationView]:
    """View operations that ended, with as much as is known of each. Raises LimitsDown."""
    found = await view.operations([each.operation for each in ends])
    over = [each.operation for each in ends if not _tells_of(found.get(each.operation), each)]
    if over:
        with contextlib.suppress(ResultsDown):
            found |= await stored.archived(over)
    return [_view_of_end(each, found.get(each.operation)) for each in ends]


def _tells_of(members: Mapping[str, Any] | None, end: End) -> bool:
    """Whether it is that end: an id may be used again, once its end is over."""
    return members is not None and members["status"] == end.state


def _view_of_end(end: End, members: Mapping[str, Any] | None) -> OperationView:
    if members is None or not _tells_of(members, end):
        members = {"status": end.state, "finishedAt": None, "output": None}
    return view_of_members(end.operation, members)
