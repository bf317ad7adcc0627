"""Acts on all that a filter means: counted first, confirmed, then done step by step, stoppable.

What a page counted is confirmed on it; each step says how far the act is, and carries the cursor of
the next one in a form. A page that a script reads posts that form by itself, but only behind a step
that somebody confirmed: what is shown by GET asks for nothing. Who leaves the page has stopped it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Container, Mapping, Sequence
from http import HTTPStatus
from typing import Generic, NamedTuple, TypeVar

from service.http.exchange import Problem
from service.web.frame import View, view

MOMENT_HINT = "write a day like 2026-05-04, or 2026-05-04T08:00 in UTC"

_NUMBER_MOST = len("1000000000")


T = TypeVar("T")


class Meant(NamedTuple, Generic[T]):
    """What is meant, as typed; `which` is None where a word of it is `wrong`."""

    given: Mapping[str, str]
    which: T | None
    wrong: Mapping[str, str]

    @property
    def filters(self) -> dict[str, str]:
        """Those that are set."""
        return {name: text for name, text in uncut(self.given).items() if text}

    @property
    def words(self) -> str:
        """Say it."""
        return ", ".join(f"{name} {text}" for name, text in self.filters.items()) or "all of them"


class Failure(NamedTuple):
    """One on which an act was not done: where it is looked at, its id, and why."""

    page: str
    id: str
    why: str


class Bulk(NamedTuple):
    """An act: where its form posts, in which words, and what the form carries from step to step.

    `done` is what becomes of each: "put again". `back` is the list of what is meant.
    """

    path: str
    things: str
    done: str
    button: str
    meant: str
    fields: Mapping[str, str]
    back: str
    step: str
    is_danger: bool = False


class SoFar(NamedTuple):
    """How far an act is. Before it begins `begun` is false, and `counted` says how many are meant.

    `counted`: None where nobody can count them soon. `cursor`: where the next step begins, None
    where no more are meant.
    """

    begun: bool = False
    counted: int | None = None
    counted_most: int = 0
    done: int = 0
    failed: int = 0
    failures: Sequence[Failure] = ()
    cursor: str | None = None


def show(bulk: Bulk, so_far: SoFar) -> View:
    """Show the page of an act."""
    return view("bulk.html", bulk=bulk, so_far=so_far)


def act_in(given: Mapping[str, str], acts: Container[str]) -> str:
    """Read which act is asked for. Raises Problem."""
    act = given.get("act", "")
    if act not in acts:
        raise Problem(HTTPStatus.BAD_REQUEST, f"{act!r} is nothing that can be done with all")
    return act


def before(form: Mapping[str, str]) -> tuple[int, int]:
    """Read how many were done, and how many not, in the steps before."""
    return _number(form.get("done", "")), _number(form.get("failed", ""))


def moment_in(text: str) -> dt.datetime | None:
    """Read a time, in UTC where it names no zone; None for "". Raises OverflowError, ValueError."""
    if not text:
        return None
    at = dt.datetime.fromisoformat(text)
    return at.astimezone(dt.UTC) if at.tzinfo else at.replace(tzinfo=dt.UTC)


def uncut(given: Mapping[str, str]) -> dict[str, str]:
    """Take what is meant as a whole: without the cursor of a page."""
    return {name: value for name, value in given.items() if name != "cursor"}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _NUMBER_MOST else 0
