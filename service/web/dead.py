"""Dead requests: listed by filters, read, put again and deleted, one or all that are meant.

An act on many is confirmed on a page of its own, which counts them first, and goes on in steps of
RECORDS_MOST by a cursor, as the API does. A page that a script reads asks for the next step by
itself, but only behind one that somebody confirmed: what is shown by GET asks for nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import web

from service.http.backend.operators import Acted, Filter, behind
from service.http.dead import NAMED_MOST, RECORDS_MOST
from service.http.exchange import Problem
from service.http.reading import place_of
from service.operator.connections import in_thread
from service.operator.dead import Document, count, shown
from service.web.board import Board
from service.web.entrance import fields_of
from service.web.frame import Frame, Page, see_other
from service.web.visitors import Visitor
from service.web.writing import link
from tracking.errors import MalformedJob
from tracking.request import parse_account

PAGE_MOST = 50
COUNTED_MOST = 10_000
"""Beyond so many nobody counts."""

ACTS = {"kick": "put again", "delete": "deleted"}
MEANT = ("slug", "reason", "account", "since")


class Meant(NamedTuple):
    """Which dead requests are meant, as typed; `filter` is None where a word of it is `wrong`."""

    given: Mapping[str, str]
    filter: Filter | None
    wrong: Mapping[str, str]

    @property
    def words(self) -> str:
        """Say it."""
        named = {name: self.given[name] for name in MEANT if self.given[name]}
        return ", ".join(f"{name} {value}" for name, value in named.items()) or "all of them"


class DeadPages:
    """The pages of dead requests."""

    def __init__(self, frame: Frame, board: Board) -> None:
        self._frame = frame
        self._board = board
        self._acts = {"kick": board.operators.kick, "delete": board.operators.delete}

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", "/dead", self.show, operators=True),
            Page("GET", "/dead/all", self.ask, operators=True),
            Page("POST", "/dead/all", self.go_on, operators=True),
            Page("GET", "/dead/records/{id}", self.show_one, operators=True),
            Page("POST", "/dead/records/{id}", self.act_on_one, operators=True),
        ]

    async def show(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """List those that are meant, the newest first. Raises Problem, StoreError."""
        meant = self._meant(request.query)
        found: list[Document] = []
        if meant.filter:
            found = await self._board.operators.dead(meant.filter, PAGE_MOST)
        further = behind(found[-1]) if len(found) == PAGE_MOST else None
        return self._frame.render(
            request,
            visitor,
            "operators/dead.html",
            HTTPStatus.BAD_REQUEST if meant.wrong else HTTPStatus.OK,
            meant=meant,
            found=found,
            acts=ACTS,
            slugs=self._board.catalogue.slugs,
            following=further and link("/dead", **{**meant.given, "cursor": further}),
            first=link("/dead", **_uncut(meant.given)) if meant.given["cursor"] else None,
            bulk={act: link("/dead/all", act=act, **_uncut(meant.given)) for act in ACTS},
        )

    async def show_one(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Show all of one. Raises Problem, StoreError."""
        record = shown(await self._record(request))
        return self._frame.render(request, visitor, "operators/dead_one.html", record=record)

    async def act_on_one(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Put one again, or delete it. Raises Problem, StoreError."""
        record = await self._record(request)
        act = _act(await fields_of(request))
        acted = await self._acts[act](visitor.operator, Filter(ids=(record["_id"],)), 1)
        for why in acted.failures.values():
            raise Problem(HTTPStatus.CONFLICT, why)
        about = f"{record.get('slug') or ''} {record.get('number') or ''}".strip()
        return see_other("/dead", done=f"{about or 'the request'} was {ACTS[act]}")

    async def ask(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Count those that are meant, and ask whether the act is. Raises Problem, StoreError."""
        meant, act = self._meant(_uncut(request.query)), _act(request.query)
        if meant.filter is None:
            return see_other("/dead", **meant.given)
        stores = self._board.stores
        counted = await in_thread(count, stores.dead, meant.filter, COUNTED_MOST + 1)
        return self._bulk(request, visitor, (act, meant), counted=counted)

    async def go_on(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Act on the next ones that are meant. Raises Problem, StoreError."""
        form = await fields_of(request)
        meant, act = self._meant(form), _act(form)
        if meant.filter is None:
            raise Problem(HTTPStatus.BAD_REQUEST, ", ".join(meant.wrong.values()))
        acted = await self._acts[act](visitor.operator, meant.filter, RECORDS_MOST)
        done, failed = (_number(form[name]) for name in ("done", "failed"))
        return self._bulk(
            request,
            visitor,
            (act, meant),
            acted=acted,
            done=done + acted.done,
            failed=failed + len(acted.failures),
        )

    def _bulk(
        self, request: web.Request, visitor: Visitor, what: tuple[str, Meant], **values: Any
    ) -> web.Response:
        act, meant = what
        acted: Acted = values.setdefault("acted", Acted())
        empty = {"counted": None, "done": 0, "failed": 0}
        return self._frame.render(
            request,
            visitor,
            "operators/dead_all.html",
            act=act,
            meant=meant,
            words=ACTS[act],
            begun=request.method == "POST",
            step=RECORDS_MOST,
            counted_most=COUNTED_MOST,
            failures=list(acted.failures.items())[:NAMED_MOST],
            back=link("/dead", **_uncut(meant.given)),
            **empty | values,
        )

    async def _record(self, request: web.Request) -> Document:
        found = await self._board.operators.dead(Filter(ids=(request.match_info["id"],)), 1)
        if not found:
            why = "no dead request has this id: it was put again, deleted, or expired"
            raise Problem(HTTPStatus.NOT_FOUND, why)
        return found[0]

    def _meant(self, given: Mapping[str, str]) -> Meant:
        """Read which are meant out of a query or a form. Raises Problem for a cursor of nobody."""
        named = {name: given.get(name, "").strip() for name in (*MEANT, "cursor")}
        wrong: dict[str, str] = {}
        slug, account, since = named["slug"] or None, None, None
        with contextlib.suppress(MalformedJob):  # requests for a courier of nobody die, too
            slug = slug and self._board.catalogue.resolve(slug)[0]
        try:
            since = _moment(named["since"])
        except (OverflowError, ValueError):
            wrong["since"] = "write a day like 2026-05-04, or 2026-05-04T08:00 in UTC"
        try:
            account = parse_account(named["account"]) if named["account"] else None
        except ValueError as error:
            wrong["account"] = f"{error}"
        if wrong:
            return Meant(named, None, wrong)
        wanted = Filter(
            slug=slug,
            reason=named["reason"] or None,
            account=account,
            since=since,
            behind=place_of(named["cursor"] or None, HTTPStatus.BAD_REQUEST),
        )
        return Meant(named, wanted, {})


def _act(given: Mapping[str, str]) -> str:
    act = given.get("act", "")
    if act not in ACTS:
        raise Problem(HTTPStatus.BAD_REQUEST, f"act is one of {', '.join(ACTS)}")
    return act


def _moment(text: str) -> dt.datetime | None:
    """Read a time, in UTC where it names no zone. Raises OverflowError, ValueError."""
    if not text:
        return None
    at = dt.datetime.fromisoformat(text)
    return at.astimezone(dt.UTC) if at.tzinfo else at.replace(tzinfo=dt.UTC)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= len("1000000000") else 0


def _uncut(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if name != "cursor"}
