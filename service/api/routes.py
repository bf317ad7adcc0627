"""A route, and what the document `/openapi.json` says about it: no route is made without that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from aiohttp.typedefs import Handler

from service.client.keys import Scope

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A member of the query, or a header. `kind` is its type, with bounds and meaning in a Meta."""

    name: str
    kind: Any
    where: Literal["query", "header"] = "query"


@dataclass(frozen=True, slots=True)
class About:
    """What a program must know to ask a route.

    `summary` is a sentence. `scope` is what a key must be good for, None where none is needed.
    `answers` are the types of good answers by their status: one, several in a tuple, or None where
    there is no body. All else that is
    answered is a problem: `refusals` are the statuses that only this route gives, beside those of
    every route that needs a key, takes parameters or a body (`openapi` adds those).
    `body` is the type of what is posted, in each of `takes`; answers are written as `gives`.
    """

    summary: str
    scope: Scope | None
    answers: Mapping[int, Any]
    refusals: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    takes: tuple[str, ...] = (JSON,)
    gives: tuple[str, ...] = (JSON,)


class Route(NamedTuple):
    """What the application mounts. `path` is aiohttp's: `{name}` is one part of it."""

    method: str
    path: str
    handler: Handler
    about: About | None


NOT_IN_THE_DOCUMENT: Final = None
"""Stands for the `About` of routes that somebody else documents: AfterShip does its own."""
