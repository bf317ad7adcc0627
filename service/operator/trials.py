"""Trials of couriers: one request for a number, and what is noted of the last one of each courier.

A module is written after its courier's documentation. That it works is known once the courier has
answered a call with real credentials; so the date of that call is shown wherever couriers are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple

from service.config.schema import Config
from service.operator.catalogue import Catalogue
from service.operator.connections import Collections, collections_of
from service.operator.put import Row, Sendable, jobs_of_rows
from tracking.errors import MalformedJob, ResultsDown
from tracking.operation import State
from tracking.request import Slug

_ENDS_OF_CALLS = frozenset({State.SUCCESS.value, State.ERROR.value})


class Trial(NamedTuple):
    """The last call by which a courier was tried: when, and its tag or the code of its error."""

    tried_at: dt.datetime
    outcome: str


def request_of(couriers: Catalogue, slug: Slug, number: str, fields: Mapping[str, str]) -> Sendable:
    """Make the request of a trial: its courier is asked whatever is stored. Raises MalformedJob."""
    texts = {**fields, "slug": slug, "number": number, "max_age": "0"}
    [made] = jobs_of_rows([Row("the number", texts)], couriers)
    if isinstance(made, Sendable):
        return made
    raise MalformedJob("bad_shape", str(made))


def note_trial(config: Config, slug: Slug, operation: Mapping[str, Any]) -> None:
    """Note that a courier was tried, and its outcome; nothing where no call was made.

    Raises ResultsDown.
    """
    if operation["status"] not in _ENDS_OF_CALLS or not operation.get("startedAt"):
        return
    output = operation.get("output") or {}
    noted = {"tried_at": dt.datetime.now(dt.UTC)}
    noted |= {"outcome": output.get("tag") or output.get("code") or operation["status"]}
    with collections_of(config) as stores:
        stores.trials.replace_one({"_id": slug}, noted, upsert=True)


def trials_in(stores: Collections) -> dict[Slug, Trial]:
    """Read the last trial of each courier. Raises PyMongoError."""
    return {each["_id"]: Trial(each["tried_at"], each["outcome"]) for each in stores.trials.find()}


def trials_of(config: Config) -> dict[Slug, Trial]:
    """Read the last trial of each courier; of none while MongoDB does not answer."""
    try:
        with collections_of(config) as stores:
            return trials_in(stores)
    except ResultsDown:
        return {}
