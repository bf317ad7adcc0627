"""The page of one relayed request: as it came, and the form that sends an edited copy of it."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web

from service.operator import inbox
from service.operator.connections import in_thread
from service.operator.inbox import Edit
from service.operator.keys import Scope
from service.operator.services import BadWish, Services
from service.web.bodies import Sent, curl, shown_body, text_in, visible
from service.web.deliveries import INBOX, address_of
from service.web.delivery import as_file, now_of
from service.web.frame import NOTHING, Answer, Page, View, see_other, view
from service.web.service_forms import wrong_in
from service.web.visitors import Visitor, fields_of

ONE = f"{INBOX}/{{id}}"

EDITED_MOST = 64 * 1024
"""Bytes of a body that a form holds: a longer one stays, or a file replaces it."""

HEADER_SHOWN = 2 * 1024
"""Characters of a header's value that the page shows at once."""

KEY_MOST = 40

_LINE_END = re.compile("\r\n|\r|\n")


class OneRelayed:
    """For one event loop. Each handler raises Problem, 404 for what is another account's."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stores = services.stores

    def pages(self) -> list[Page]:
        """Name them."""
        return [
            Page("GET", ONE, self.show),
            Page("GET", f"{ONE}/body", self.download),
            Page("GET", f"{ONE}/edit", self.form, Scope.HOOKS),
            Page("POST", f"{ONE}/edit", self.edit, Scope.HOOKS),
        ]

    async def show(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show all of one. Raises Problem, StoreError."""
        values = await in_thread(self._values, visitor, request.match_info["id"])
        return view("deliveries/relayed.html", **values)

    def _values(self, visitor: Visitor, name: str) -> dict[str, Any]:
        told = inbox.show(self._stores, visitor.account, name)
        body, headers = body_of(told), [(each[0], each[1]) for each in told["headers"]]
        is_kept = told["method"] is not None
        sent = Sent(
            told["method"] or "", told["url"] or "", headers, body or b"", f"request-{name}.bin"
        )
        return {
            "told": told,
            "target": visible(told["target"] or ""),
            "headers": [(visible(key), visible(value)) for key, value in headers],
            "header_shown": HEADER_SHOWN,
            "body": shown_body(body, told["media_type"] or "") if body is not None else None,
            "curl": curl(sent) if is_kept else "",
            "is_kept": is_kept,
            **now_of(self._stores, visitor, name),
        }

    async def download(self, request: web.Request, visitor: Visitor) -> Answer:
        """Give a body as a file. Raises Problem, StoreError."""
        name = request.match_info["id"]
        told = await in_thread(inbox.show, self._stores, visitor.account, name)
        return as_file(body_of(told), f"request-{name}.bin")

    async def form(self, request: web.Request, visitor: Visitor) -> Answer:
        """Show the form that edits a copy. Raises Problem, StoreError."""
        told = await self._told(request, visitor)
        return _form(told, {"key": secrets.token_hex(16)})

    async def edit(self, request: web.Request, visitor: Visitor) -> Answer:
        """Check an edited copy, and have it sent now. Raises Problem, StoreError."""
        told, given = await self._told(request, visitor), dict(await fields_of(request))
        try:
            file = (await request.post()).get("file")
            wished = edit_in(told, given, await in_thread(_file_in, file))
            asked = (self._services, visitor.operator, visitor.account, told["id"])
            made = await in_thread(inbox.edit, *asked, wished)
        except BadWish as error:
            return _form(told, given, wrong_in(error))
        return see_other(address_of(made), done="The edited copy is sent now.")

    async def _told(self, request: web.Request, visitor: Visitor) -> dict[str, Any]:
        name = request.match_info["id"]
        told: dict[str, Any] = await in_thread(inbox.show, self._stores, visitor.account, name)
        if told["method"] is None:
            raise web.HTTPNotFound
        return told


def _form(
    told: Mapping[str, Any], given: Mapping[str, str], wrong: Mapping[str, str] = NOTHING
) -> View:
    body = editable(body_of(told))
    now = {"method": told["method"], "target": told["target"], "body": body or ""}
    given = {**now, "headers": written(told["headers"]), **given}
    holds_body = body is not None
    return view("deliveries/edit.html", told=told, given=given, wrong=wrong, holds_body=holds_body)


def body_of(told: Mapping[str, Any]) -> bytes | None:
    """Read the body of a request as `inbox.show` says it; None where it is not kept any more."""
    if told["body"] is not None:
        return str(told["body"]).encode()
    return base64.b64decode(told["body_base64"]) if told["body_base64"] is not None else None


def editable(body: bytes | None) -> str | None:
    """Write a body as a form holds it; None where a form would change it, or is too small."""
    text = text_in(body) if body is not None and len(body) <= EDITED_MOST else None
    return None if text is None or "\r" in text.replace("\r\n", "") else text


def written(headers: Iterable[Sequence[str]]) -> str:
    """Write headers as a form holds them, one a line."""
    return "\n".join(": ".join(each) for each in headers)


def edit_in(told: Mapping[str, Any], given: Mapping[str, str], file: bytes | None) -> Edit:
    """Read what of a form is another than the request was. Raises BadWish.

    The same form sent twice makes one request; sent with something else in it, another one.
    """
    method, target = given.get("method", "").strip(), given.get("target", "").strip()
    headers = _headers_in(given.get("headers", ""))
    parts = [method, target, written(headers), given.get("body", ""), given.get("key", "")]
    shown = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass") + (file or b""))
    return Edit(
        method=None if method == told["method"] else method,
        target=None if target == told["target"] else target,
        headers=None if written(headers) == written(told["headers"]) else headers,
        body=_body_in(told, given) if file is None else file,
        key=shown.hexdigest()[:KEY_MOST],
    )


def _headers_in(text: str) -> list[tuple[str, str]]:
    headers = list[tuple[str, str]]()
    for line in filter(str.strip, _LINE_END.split(text)):
        name, colon, value = line.partition(":")
        if not colon:
            raise BadWish("headers", f"write {line[:60]!r} as Name: value")
        headers.append((name.strip(), value.strip(" \t")))
    return headers


def _body_in(told: Mapping[str, Any], given: Mapping[str, str]) -> bytes | None:
    """Read the body of a form. Browsers end lines by CR LF: what came is ended as it was."""
    old = editable(body_of(told))
    if old is None or "body" not in given:
        return None
    lines = _LINE_END.split(given["body"])
    if lines == _LINE_END.split(old):
        return None
    return ("\r\n" if "\r\n" in old else "\n").join(lines).encode()


def _file_in(field: object) -> bytes | None:
    return field.file.read() if isinstance(field, web.FileField) and field.filename else None
