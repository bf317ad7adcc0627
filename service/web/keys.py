"""Keys and secret links of an account: what opens the API to programs. Each is shown once."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec
from aiohttp import web

from service.http.backend.links import LINKS_MOST, Link, Links, TooManyLinks
from service.http.exchange import Problem
from service.http.serve import Backing
from service.operator import accounts
from service.operator.accounts import PER_SECOND_MOST, KeptKey, MadeKey, Terms
from service.operator.connections import in_thread
from service.operator.keys import Scope, needed
from service.operator.put import PostedLink
from service.operator.signatures import HmacSecret
from service.web.frame import NOTHING, Answer, Page, see_other
from service.web.settings import OWNERS, ask, show
from service.web.visitors import Visitor, Visitors, fields_of
from service.web.writing import link as link_to
from tracking.errors import MalformedJob
from tracking.request import FIELDS, MAIN

KEYS, LINKS = "/settings/keys", "/settings/links"

LINKS_SHOWN = 100
"""Links of one page."""

MEANINGS = {
    Scope.READ: "read parcels, operations and links",
    Scope.INGEST: "put requests and make secret links",
    Scope.HOOKS: "make and change services of webhooks; reads, too",
    Scope.ADMIN: "do what operators do: lines, dead letters",
}
"""What a key of each scope may do."""

KEEP = {
    "0": "ends now",
    "3600": "works on for an hour",
    "86400": "works on for a day",
    "604800": "works on for a week",
}
"""For how many seconds a key works on beside its successor."""

DAYS_MOST = 3_650
"""The most days that a key with an end works."""

TRIED = {
    Scope.HOOKS: "/v1/services",
    Scope.READ: "/v1/links",
    Scope.ADMIN: "/v1/lines",
}
"""What a key of a scope is tried at, the first of its scopes that stands here."""

REQUEST = '{"slug": "usps", "number": "9405903699300184125060"}'
"""What a key that only puts requests is tried with."""


class KeyPages:
    """For one event loop."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors
        self._stores = visitors.stores

    def pages(self) -> list[Page]:
        """Name them."""
        one = f"{KEYS}/{{key}}"
        return [
            Page("GET", KEYS, self._list, OWNERS),
            Page("POST", KEYS, self._make, OWNERS),
            Page("GET", f"{one}/revoke", self._ask_to_revoke, OWNERS),
            Page("POST", f"{one}/revoke", self._revoke, OWNERS),
            Page("GET", f"{one}/rotate", self._ask_to_rotate, OWNERS),
            Page("POST", f"{one}/rotate", self._rotate, OWNERS),
        ]

    async def _list(self, _: web.Request, visitor: Visitor, wrong: str = "") -> Answer:
        own = (await in_thread(accounts.keys, self._stores, visitor.account))[::-1]
        is_first = not own and not await in_thread(accounts.keys, self._stores)
        return show(
            "keys",
            wrong=wrong,
            works=[*filter(_works, own)],
            ended=[each for each in own if not _works(each)],
            is_first=is_first,
            scopes={each: MEANINGS[each] for each in Scope if may_give(visitor, each)},
        )

    async def _make(self, request: web.Request, visitor: Visitor) -> Answer:
        form = await fields_of(request)
        ticked = [each for each in Scope if form[each] and may_give(visitor, each)]
        scopes = [each for each in Scope if any(each in needed(one) for one in ticked)]
        if not scopes:
            return await self._list(request, visitor, "Tick what the key is to be good for.")
        try:
            terms = terms_of(form)
        except ValueError as error:
            return await self._list(request, visitor, f"{error}")
        asked = (self._stores, visitor.operator, visitor.account, scopes, terms)
        made = await in_thread(accounts.add_key, *asked)
        return self._made_page(request, made, scopes)

    async def _ask_to_revoke(self, request: web.Request, visitor: Visitor) -> Answer:
        key = await self._key(request, visitor)
        what = "Whatever uses it is refused within 5 seconds, and nobody makes it work again."
        return ask(f"Revoke the key {key.prefix}…?", what, "Revoke it", KEYS)

    async def _revoke(self, request: web.Request, visitor: Visitor) -> Answer:
        key = await self._key(request, visitor)
        await in_thread(accounts.revoke_key, self._stores, visitor.operator, key.prefix)
        return see_other(KEYS, done=f"{key.prefix}… has ended.")

    async def _ask_to_rotate(self, request: web.Request, visitor: Visitor) -> Answer:
        key = await self._key(request, visitor)
        return show("rotate", key=key, keep=KEEP)

    async def _rotate(self, request: web.Request, visitor: Visitor) -> Answer:
        key, keep = await self._key(request, visitor), (await fields_of(request))["keep"]
        if keep not in KEEP:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "say how long the old key works on")
        asked = (self._stores, visitor.operator, key.prefix, float(keep))
        made = await in_thread(accounts.rotate_key, *asked)
        return self._made_page(request, made, key.scopes)

    async def _key(self, request: web.Request, visitor: Visitor) -> KeptKey:
        """Find the visitor's key that the path names. Raises Problem."""
        name = request.match_info["key"]
        for each in await in_thread(accounts.keys, self._stores, visitor.account):
            if each.prefix == name and _works(each):
                return each
        raise Problem(HTTPStatus.NOT_FOUND, "there is no such key, or it has ended")

    def _made_page(self, request: web.Request, made: MadeKey, scopes: Sequence[Scope]) -> Answer:
        secret = made.signing.secret if isinstance(made.signing, HmacSecret) else ""
        # Where requests must be signed, none can be written here.
        tried = "" if made.signing else curl(self._visitors.base_of(request), made.text, scopes)
        return show("key", text=made.text, secret=secret, scopes=scopes, curl=tried)


def may_give(visitor: Visitor, scope: Scope) -> bool:
    """Whether a visitor may make keys of this scope."""
    return scope is not Scope.ADMIN or visitor.account == MAIN


def terms_of(form: Mapping[str, str]) -> Terms:
    """Read for how many days a key works, and how often a second. Raises ValueError, for people."""
    days, per_second = form["days"].strip(), form["per_second"].strip()
    if days and not (days.isdecimal() and 1 <= int(days) <= DAYS_MOST):
        raise ValueError(f"A key works for 1 to {DAYS_MOST:,} days, or without an end.")
    try:
        rate = float(per_second) if per_second else None
    except ValueError:
        rate = 0.0
    if rate is not None and not 0 < rate <= PER_SECOND_MOST:
        raise ValueError(f"Requests a second: above 0, {PER_SECOND_MOST:,} at most, or none.")
    return Terms(lasts_seconds=int(days) * 86_400.0 if days else None, per_second=rate)


def curl(base: str, key: str, scopes: Sequence[Scope]) -> str:
    """Write a command that works with a key, and shows that it does."""
    header = shlex.quote(f"as-api-key: {key}")
    for scope, path in TRIED.items():
        if scope in scopes:
            return f"curl -H {header} {shlex.quote(base + path)}"
    kind, body = shlex.quote("Content-Type: application/json"), shlex.quote(REQUEST)
    return f"curl -H {header} -H {kind} -d {body} {shlex.quote(base + '/v1/requests')}"


def _works(key: KeptKey) -> bool:
    return key.ends_at is None or key.ends_at > dt.datetime.now(dt.UTC)


class LinkPages:
    """For one event loop."""

    def __init__(self, visitors: Visitors, backing: Backing) -> None:
        self._visitors = visitors
        self._http = backing.config.http
        self._couriers = backing.catalogue.slugs
        self._links = Links(backing.operations.stored, backing.door, backing.catalogue)

    def pages(self) -> list[Page]:
        """Name them."""
        one = f"{LINKS}/{{link}}"
        return [
            Page("GET", LINKS, self._list),
            Page("POST", LINKS, self._make, Scope.INGEST),
            Page("GET", f"{one}/revoke", self._ask_to_revoke, Scope.INGEST),
            Page("POST", f"{one}/revoke", self._revoke, Scope.INGEST),
        ]

    async def _list(
        self,
        request: web.Request,
        visitor: Visitor,
        given: Mapping[str, str] = NOTHING,
        wrong: str = "",
    ) -> Answer:
        after = request.query.get("after", "")
        found = await self._links.of(visitor.account, after, LINKS_SHOWN + 1)
        shown = found[:LINKS_SHOWN]
        following = link_to(LINKS, after=shown[-1].id) if len(found) > len(shown) else ""
        return show(
            "links",
            links=shown,
            following=following,
            couriers=self._couriers,
            fields=FIELDS,
            given=given,
            wrong=wrong,
        )

    async def _make(self, request: web.Request, visitor: Visitor) -> Answer:
        form = await fields_of(request)
        names = ("slug", "number", "title", *FIELDS)
        given = {name: text for name in names if (text := form[name].strip())}
        try:
            msgspec.convert(given, PostedLink)
            request_members = {name: text for name, text in given.items() if name != "title"}
            asked = (visitor.operator, request_members, given.get("title"))
            made, secret = await self._links.add(*asked)
        except msgspec.ValidationError as error:
            return await self._list(request, visitor, given, f"{error}")
        except MalformedJob as error:
            return await self._list(request, visitor, given, error.detail)
        except TooManyLinks as error:
            why = f"there are {LINKS_MOST} links already: revoke those that nobody needs"
            raise Problem(HTTPStatus.CONFLICT, why) from error
        url = f"{self._visitors.base_of(request)}/start/{secret}"
        return show("link", made=made, url=url, by_get=self._http.links_by_get)

    async def _ask_to_revoke(self, request: web.Request, visitor: Visitor) -> Answer:
        found = await self._link(request, visitor)
        what = f"{found.title} " if found.title else ""
        what = f"The link {what}for {found.slug} {found.number} starts nothing any more."
        return ask("Revoke this secret link?", what, "Revoke it", LINKS)

    async def _revoke(self, request: web.Request, visitor: Visitor) -> Answer:
        found = await self._link(request, visitor)
        await self._links.revoke(visitor.operator, found.id)
        return see_other(LINKS, done=f"The link for {found.slug} {found.number} is revoked.")

    async def _link(self, request: web.Request, visitor: Visitor) -> Link:
        """Find the visitor's link that the path names. Raises Problem."""
        found = await self._links.find(visitor.account, request.match_info["link"])
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such link, or it was revoked")
        return found
