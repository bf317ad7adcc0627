"""The pages that make a service and change one: their forms are read by service_forms.py."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web

from service.http.exchange import Problem
from service.http.serve import Backing
from service.operator import service_view
from service.operator.connections import in_thread
from service.operator.keys import Scope
from service.operator.services import BadWish, NoKeys, Services, ServiceType, UnknownService
from service.web import service_forms
from service.web.frame import NOTHING, Answer, Page, View, see_other, view
from service.web.service_forms import Asked, asked_in, shown_in, typed_in, wrong_in
from service.web.services import BESIDE, ONE, SERVICES, show_secret
from service.web.visitors import Visitor
from service.web.writing import part
from tracking.errors import NotDone

NEW = f"{BESIDE}/new"
NAME_MOST = 80

_ASIDE = (NoKeys, UnknownService)
"""What is no matter of the form."""


class ServiceEdits:
    """For one event loop. Each handler raises Problem, 404 for what is another account's."""

    def __init__(self, services: Services, backing: Backing) -> None:
        self._services = services
        self._slugs = backing.catalogue.slugs

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", NEW, self.form, Scope.HOOKS),
            Page("POST", NEW, self.make, Scope.HOOKS),
            Page("GET", f"{ONE}/edit", self.edit, Scope.HOOKS),
            Page("POST", f"{ONE}/edit", self.change, Scope.HOOKS),
        ]

    async def form(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show the form that makes a service, of the type that is chosen. Raises Problem."""
        usual = self._usual(request.query.get("type", ServiceType.WEBHOOK), visitor)
        return self._form(usual, {**shown_in(usual), "name": ""})

    async def make(self, request: web.Request, visitor: Visitor) -> Answer:
        """Make a service, and show its secret. Raises Problem, StoreError."""
        posted = await request.post()
        usual = self._usual(f"{posted.get('type', '')}", visitor)
        kind = ServiceType(usual["type"])
        name, asked = f"{posted.get('name', '')}".strip()[:NAME_MOST], asked_in(posted, usual)
        wishes = asked.wishes | {"type": str(kind)}
        wrong = asked.wrong
        if not wrong:
            try:
                given = (visitor.operator, visitor.account, name, wishes)
                made = await in_thread(self._services.make, *given)
                return show_secret(self._services, made)
            except NotDone as error:
                wrong = _wrong(error)
        return self._form(usual, {**typed_in(posted, kind), "name": name}, wrong)

    async def edit(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show the form that changes one. Raises Problem, StoreError."""
        now = await self._members(request, visitor)
        return self._form(now, shown_in(now))

    async def change(self, request: web.Request, visitor: Visitor) -> Answer:
        """Change what is another in the form. Raises Problem, StoreError."""
        now, posted = await self._members(request, visitor), await request.post()
        name = now["name"]
        asked: Asked = asked_in(posted, now)
        wrong = asked.wrong
        try:
            if asked.wishes and not wrong:
                given = (visitor.operator, visitor.account, name, asked.wishes)
                await in_thread(self._services.change, *given)
        except NotDone as error:
            wrong = _wrong(error)
        if wrong:
            typed = typed_in(posted, ServiceType(now["type"]))
            return self._form(now, typed, wrong)
        done = "Nothing was changed." if not asked.wishes else "It is changed, and holds at once."
        return see_other(f"{SERVICES}/{part(name)}", done=done)

    def _usual(self, kind: str, visitor: Visitor) -> dict[str, Any]:
        try:
            wanted = ServiceType(kind)
        except ValueError as error:
            why = f"type is one of {', '.join(ServiceType)}"
            raise Problem(HTTPStatus.BAD_REQUEST, why) from error
        return service_view.usual_members(self._services, visitor.account, wanted)

    async def _members(self, request: web.Request, visitor: Visitor) -> dict[str, Any]:
        asked = (visitor.account, request.match_info["name"])
        found = await in_thread(self._services.named, *asked)
        return service_view.members(self._services, found)

    def _form(
        self, it: Mapping[str, Any], given: Mapping[str, Any], wrong: Mapping[str, str] = NOTHING
    ) -> View:
        fields = service_forms.names_of(ServiceType(it["type"]))
        return view(
            "services/form.html",
            it=it,
            given=given,
            wrong=wrong,
            about=wrong.get("", ""),
            fields=fields,
            says={each: service_forms.says(each) for each in fields},
            types=tuple(map(str, ServiceType)),
            events=service_forms.EVENTS,
            tags=service_forms.TAGS,
            formats=service_forms.FORMATS,
            handshakes=service_forms.HANDSHAKES,
            slugs=self._slugs,
            action=NEW if not it["name"] else f"{SERVICES}/{part(it['name'])}/edit",
        )


def _wrong(error: NotDone) -> dict[str, str]:
    """Say what is wrong with a form, beside its field where it is a field's. Raises NotDone."""
    if isinstance(error, _ASIDE):
        raise error
    return wrong_in(error) if isinstance(error, BadWish) else {"": f"{error}"}
