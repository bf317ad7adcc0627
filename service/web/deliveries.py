"""Deliveries of an account: listed by filters, looked at, sent again and cancelled.

The inbox is the same list of what other systems sent to relays: it is also searched by words, and
by the status of the newest attempt. All that a filter means is sent again, or cancelled, step by
step (bulk.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import web

from service.http.backend.operators import cursor_of
from service.http.exchange import Problem
from service.http.reading import place_of
from service.operator import deliveries, delivery_acts, inbox
from service.operator.connections import in_thread
from service.operator.deliveries import Delivery, DeliveryState, EventName, Which
from service.operator.delivery_acts import Acted
from service.operator.keys import Scope
from service.operator.services import BadWish, Services
from service.web import bulk
from service.web.bulk import Bulk, Failure, Meant, SoFar, act_in, moment_in, uncut
from service.web.frame import Answer, Page, see_other, view
from service.web.visitors import Visitor, count_in, fields_of
from service.web.writing import link, part

PAGE_MOST = 50
STEP_MOST, STEP_SECONDS = 1_000, 5.0
"""Of all on which an act is done, in one step: it can be stopped behind each."""

FAILURES_SHOWN = 20
STATUS_DIGITS = 3

DELIVERIES, INBOX = "/deliveries", "/inbox"

FILTERS = {
    DELIVERIES: ("service", "state", "event", "parcel", "since", "until"),
    INBOX: ("service", "state", "status", "words", "since", "until"),
}
"""By what each list is narrowed."""

STATES = tuple(map(str, DeliveryState))


class Act(NamedTuple):
    """An act on all that are meant: `done` is what becomes of each, `states` whom it is for."""

    do: Callable[..., Acted]
    states: Sequence[DeliveryState]
    done: str
    button: str


ACTS = {
    "resend": Act(delivery_acts.resend_all, deliveries.RESENDS, "sent again", "Send them again"),
    "cancel": Act(delivery_acts.cancel_all, deliveries.CANCELS, "cancelled", "Cancel them"),
}


def address_of(delivery: Delivery) -> str:
    """Write the path of a delivery's page."""
    root = INBOX if delivery.type is EventName.RELAY_REQUEST else DELIVERIES
    return f"{root}/{part(delivery.id)}"


class DeliveryLists:
    """A list, at `root`: of all deliveries, or of the inbox."""

    def __init__(self, services: Services, root: str) -> None:
        self._services = services
        self._stores = services.stores
        self._root = root

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", self._root, self.show),
            Page("GET", f"{self._root}/all", self.ask, Scope.HOOKS),
            Page("POST", f"{self._root}/all", self.go_on, Scope.HOOKS),
        ]

    async def show(self, request: web.Request, visitor: Visitor) -> Answer:
        """List those that are meant, the newest first. Raises Problem, StoreError."""
        meant, names = await self._meant(request.query, visitor)
        rows, searched_until = list[Mapping[str, Any]](), None
        if meant.which and self._root == INBOX:
            page = await in_thread(inbox.inbox_of, self._stores, meant.which, PAGE_MOST)
            rows = [{**each, "made_at": each["received_at"]} for each in page.requests]
            searched_until = page.searched_until if meant.which.words else None
        elif meant.which:
            rows = await in_thread(self._rows, meant.which)
        last = rows[-1] if len(rows) == PAGE_MOST else None
        following = last and {**meant.given, "cursor": cursor_of(last["made_at"], last["id"])}
        return view(
            "deliveries/list.html" if self._root == DELIVERIES else "deliveries/inbox.html",
            HTTPStatus.BAD_REQUEST if meant.wrong else HTTPStatus.OK,
            root=self._root,
            meant=meant,
            rows=rows,
            services=names,
            states=STATES,
            events=tuple(map(str, EventName)),
            following=link(self._root, **following) if following else "",
            first=link(self._root, **meant.filters) if meant.given["cursor"] else "",
            acts={act: link(f"{self._root}/all", act=act, **meant.filters) for act in ACTS},
            may_cancel=meant.given["state"] in {"", *deliveries.CANCELS},
            searched_until=searched_until,
        )

    def _rows(self, which: Which) -> list[Mapping[str, Any]]:
        found = deliveries.deliveries_of(self._stores, which, PAGE_MOST)
        names = deliveries.names_of_services(self._stores, found)
        return [
            {**deliveries.members(each, names[each.service]), "address": address_of(each)}
            for each in found
        ]

    async def ask(self, request: web.Request, visitor: Visitor) -> Answer:
        """Count those that an act is for, and ask whether to do it. Raises Problem, StoreError."""
        act = act_in({"act": "resend", **request.query}, ACTS)
        meant, _ = await self._meant(uncut(request.query), visitor)
        if meant.which is None:
            return see_other(self._root, **meant.given)
        asked = (self._stores, meant.which, ACTS[act].states)
        counted = await in_thread(deliveries.count_meant, *asked)
        so_far = SoFar(counted=counted, counted_most=deliveries.COUNTED_MOST - 1)
        return bulk.show(self._bulk(act, meant), so_far)

    async def go_on(self, request: web.Request, visitor: Visitor) -> Answer:
        """Have it done on the next ones, the oldest first. Raises Problem, StoreError."""
        form = await fields_of(request)
        act = act_in(form, ACTS)
        meant, _ = await self._meant(form, visitor)
        if meant.which is None:
            raise Problem(HTTPStatus.BAD_REQUEST, ", ".join(meant.wrong.values()))
        asked = (self._services, visitor.operator, meant.which, STEP_SECONDS, STEP_MOST)
        came = await in_thread(ACTS[act].do, *asked)
        done, failed = bulk.before(form)
        failures = list(came.failures.items())[:FAILURES_SHOWN]
        so_far = SoFar(
            begun=True,
            done=done + came.done,
            failed=failed + came.failed,
            failures=[Failure(f"{DELIVERIES}/{part(name)}", name, why) for name, why in failures],
            cursor=cursor_of(*came.behind) if came.behind else None,
        )
        return bulk.show(self._bulk(act, meant), so_far)

    def _bulk(self, name: str, meant: Meant[Which]) -> Bulk:
        act = ACTS[name]
        states = "" if meant.given["state"] else f": those that are {' or '.join(act.states)}"
        return Bulk(
            path=f"{self._root}/all",
            things="Deliveries" if self._root == DELIVERIES else "Relayed requests",
            done=act.done,
            button=act.button,
            meant=meant.words + states,
            fields=uncut(meant.given) | {"act": name},
            back=link(self._root, **meant.filters),
            step=f"{STEP_MOST:,} are {act.done} at a time, the oldest first.",
            is_danger=name == "cancel",
        )

    async def _meant(
        self, given: Mapping[str, str], visitor: Visitor
    ) -> tuple[Meant[Which], list[str]]:
        """Read which are meant, and list the account's services. Raises Problem, StoreError."""
        own = {each.name: each.id for each in await in_thread(self._services.of, visitor.account)}
        filters = FILTERS[self._root]
        named = {name: given.get(name, "").strip() for name in (*filters, "cursor")}
        which = Which(
            visitor.account,
            behind=place_of(named["cursor"] or None, HTTPStatus.BAD_REQUEST),
            event=EventName.RELAY_REQUEST if self._root == INBOX else None,
        )
        wrong, wanted = dict[str, str](), dict[str, Any]()
        for name in filters:
            try:
                wanted[name] = _READ[name](named[name], own) if named[name] else None
            except (ValueError, OverflowError):
                wrong[name] = _WRONG[name]
            except BadWish as error:
                wrong[name] = f"{error}".removeprefix(f"{name}: ")
        wanted = {name: value for name, value in wanted.items() if value is not None}
        return Meant(named, None if wrong else replace(which, **wanted), wrong), list(own)


def _service(text: str, own: Mapping[str, str]) -> str:
    if text not in own:
        raise ValueError(text)
    return own[text]


_READ: Mapping[str, Callable[[str, Mapping[str, str]], Any]] = {
    "service": _service,
    "state": lambda text, _: DeliveryState(text),
    "event": lambda text, _: EventName(text),
    "parcel": lambda text, _: text,
    "status": lambda text, _: count_in(text, STATUS_DIGITS),
    "words": lambda text, _: inbox.sought(text),
    "since": lambda text, _: moment_in(text),
    "until": lambda text, _: moment_in(text),
}
_WRONG: Mapping[str, str] = {
    "service": "there is no such service",
    "state": f"write one of {', '.join(STATES)}",
    "event": "there is no such event",
    "status": "write a status like 500, or 0 for no answer",
    "since": bulk.MOMENT_HINT,
    "until": bulk.MOMENT_HINT,
}
