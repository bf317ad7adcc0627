"""Dead requests: listed by filters, read, put again and deleted, one or all that are meant.

An act on many (bulk.py) goes on in steps of RECORDS_MOST, as the API does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web

from service.http.backend.operators import Filter, behind
from service.http.dead import NAMED_MOST, RECORDS_MOST
from service.http.exchange import Problem
from service.http.reading import place_of
from service.operator.connections import in_thread
from service.operator.dead import Document, count, shown
from service.web import bulk
from service.web.board import Board
from service.web.bulk import Bulk, Meant, SoFar, act_in, uncut
from service.web.frame import Answer, Page, see_other, view
from service.web.visitors import Visitor, fields_of
from service.web.writing import link, part
from tracking.errors import MalformedJob
from tracking.request import parse_account

PAGE_MOST = 50
COUNTED_MOST = 10_000
"""Beyond so many nobody counts."""

ACTS = {"kick": "put again", "delete": "deleted"}
_BUTTONS = {"kick": "Put them again", "delete": "Delete them"}
MEANT = ("slug", "reason", "account", "since")


class DeadPages:
    """The pages of dead requests."""

    def __init__(self, board: Board) -> None:
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

    async def show(self, request: web.Request, _: Visitor) -> Answer:
        """List those that are meant, the newest first. Raises Problem, StoreError."""
        meant = self._meant(request.query)
        found: list[Document] = []
        if meant.which:
            found = await self._board.operators.dead(meant.which, PAGE_MOST)
        further = behind(found[-1]) if len(found) == PAGE_MOST else None
        return view(
            "operators/dead.html",
            HTTPStatus.BAD_REQUEST if meant.wrong else HTTPStatus.OK,
            meant=meant,
            found=found,
            acts=ACTS,
            slugs=self._board.catalogue.slugs,
            following=further and link("/dead", **{**meant.given, "cursor": further}),
            first=link("/dead", **uncut(meant.given)) if meant.given["cursor"] else None,
            bulk={act: link("/dead/all", act=act, **uncut(meant.given)) for act in ACTS},
        )

    async def show_one(self, request: web.Request, _: Visitor) -> Answer:
        """Show all of one. Raises Problem, StoreError."""
        record = shown(await self._record(request))
        return view("operators/dead_one.html", record=record)

    async def act_on_one(self, request: web.Request, visitor: Visitor) -> Answer:
        """Put one again, or delete it. Raises Problem, StoreError."""
        record = await self._record(request)
        act = act_in(await fields_of(request), ACTS)
        acted = await self._acts[act](visitor.operator, Filter(ids=(record["_id"],)), 1)
        for why in acted.failures.values():
            raise Problem(HTTPStatus.CONFLICT, why)
        about = f"{record.get('slug') or ''} {record.get('number') or ''}".strip()
        return see_other("/dead", done=f"{about or 'The request'} was {ACTS[act]}.")

    async def ask(self, request: web.Request, _: Visitor) -> Answer:
        """Count those that are meant, and ask whether the act is. Raises Problem, StoreError."""
        meant, act = self._meant(uncut(request.query)), act_in(request.query, ACTS)
        if meant.which is None:
            return see_other("/dead", **meant.given)
        stores = self._board.stores
        counted = await in_thread(count, stores.dead, meant.which, COUNTED_MOST + 1)
        so_far = SoFar(counted=counted, counted_most=COUNTED_MOST)
        return bulk.show(_bulk(act, meant), so_far)

    async def go_on(self, request: web.Request, visitor: Visitor) -> Answer:
        """Act on the next ones that are meant. Raises Problem, StoreError."""
        form = await fields_of(request)
        meant, act = self._meant(form), act_in(form, ACTS)
        if meant.which is None:
            raise Problem(HTTPStatus.BAD_REQUEST, ", ".join(meant.wrong.values()))
        acted = await self._acts[act](visitor.operator, meant.which, RECORDS_MOST)
        done, failed = bulk.before(form)
        failures = [
            bulk.Failure(f"/dead/records/{part(name)}", name, why)
            for name, why in acted.failures.items()
        ]
        so_far = SoFar(
            begun=True,
            done=done + acted.done,
            failed=failed + len(failures),
            failures=failures[:NAMED_MOST],
            cursor=acted.cursor,
        )
        return bulk.show(_bulk(act, meant), so_far)

    async def _record(self, request: web.Request) -> Document:
        found = await self._board.operators.dead(Filter(ids=(request.match_info["id"],)), 1)
        if not found:
            why = "no dead request has this id: it was put again, deleted, or expired"
            raise Problem(HTTPStatus.NOT_FOUND, why)
        return found[0]

    def _meant(self, given: Mapping[str, str]) -> Meant[Filter]:
        """Read which are meant out of a query or a form. Raises Problem for a cursor of nobody."""
        named = {name: given.get(name, "").strip() for name in (*MEANT, "cursor")}
        wrong: dict[str, str] = {}
        slug, account, since = named["slug"] or None, None, None
        with contextlib.suppress(MalformedJob):  # requests for a courier of nobody die, too
            slug = slug and self._board.catalogue.resolve(slug)[0]
        try:
            since = bulk.moment_in(named["since"])
        except (OverflowError, ValueError):
            wrong["since"] = bulk.MOMENT_HINT
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


def _bulk(act: str, meant: Meant[Filter]) -> Bulk:
    given = uncut(meant.given)
    return Bulk(
        path="/dead/all",
        things="Dead letters",
        done=ACTS[act],
        button=_BUTTONS[act],
        meant=meant.words,
        fields=given | {"act": act},
        back=link("/dead", **given),
        step=f"{RECORDS_MOST} are {ACTS[act]} at a time, the newest first.",
        is_danger=act == "delete",
    )
