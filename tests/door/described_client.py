"""A client that refuses every answer which is not what `/openapi.json` says of its route."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any

import jsonschema_rs
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient

OPEN = {"ProblemDetails"}
"""Types whose values may have members that they do not name."""


class Described:
    """A document, and whether answers are what it says. Members that no type names are refused."""

    def __init__(self, document: bytes) -> None:
        self.document: dict[str, Any] = json.loads(document)
        for name, each in self.document["components"]["schemas"].items():
            if "properties" in each and name not in OPEN:
                each["additionalProperties"] = False
        self._paths = {
            path: re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))
            for path in self.document["paths"]
        }
        self._validators: dict[tuple[str, str, str, str], jsonschema_rs.Draft202012Validator] = {}

    def answers_of(self, method: str, raw_path: str) -> tuple[str, dict[str, Any]] | None:
        """Find a route, and its answers by their status; None for what is no route."""
        for path, form in self._paths.items():
            operation = self.document["paths"][path].get(method.lower())
            if operation and form.fullmatch(raw_path):
                return path, operation["responses"]
        return None

    def judge(self, response: ClientResponse, body: bytes) -> None:
        """Insist that an answer is one that its route is said to give."""
        found = self.answers_of(response.method, response.url.raw_path)
        if found is None or response.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        path, answers = found
        asked = f"{response.method} {path}"
        assert str(response.status) in answers, f"{asked} answers {response.status}: {body!r}"
        content = self._referred(answers[str(response.status)]).get("content", {})
        assert response.content_type in content or not (content or body), (
            f"{asked} answers {response.content_type} with {response.status}"
        )
        if not response.content_type.endswith("json"):
            return
        key = (response.method, path, str(response.status), response.content_type)
        if key not in self._validators:
            schema = content[response.content_type]["schema"]
            self._validators[key] = self.validator(schema)
        for error in self._validators[key].iter_errors(json.loads(body)):
            raise AssertionError(f"{asked} answers {response.status} {body!r}: {error}")

    def validator(self, schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        """Make what judges the values of a schema of the document."""
        whole = schema | {"components": self.document["components"]}
        return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)

    def _referred(self, answer: dict[str, Any]) -> dict[str, Any]:
        name = answer.get("$ref", "").rpartition("/")[2]
        found: dict[str, Any] = self.document["components"]["responses"].get(name, answer)
        return found


async def document_of(app: web.Application) -> bytes:
    """Ask the application itself: no key, no name of a host, no request that is counted."""
    [serve] = [
        each.handler
        for each in app.router.routes()
        if each.method == "GET" and each.resource and each.resource.canonical == "/openapi.json"
    ]
    response = await serve(None)  # type: ignore[arg-type] - it looks at nothing of a request
    assert isinstance(response.body, bytes)
    return response.body


KNOWN: dict[frozenset[tuple[str, str]], Described] = {}
"""Applications of this process by their routes: to describe one takes longer than most tests."""


async def described(app: web.Application) -> Described:
    """Describe an application as it does itself."""
    served = ((each.method, each.resource) for each in app.router.routes())
    routes = frozenset((method, resource.canonical) for method, resource in served if resource)
    if routes not in KNOWN:
        KNOWN[routes] = Described(await document_of(app))
    return KNOWN[routes]


class DescribedClient(TestClient[web.Request, web.Application]):
    """Judges each answer; a stream of events is left to who reads it."""

    async def _request(self, method: str, path: Any, **kwargs: Any) -> ClientResponse:
        response = await super()._request(method, path, **kwargs)
        assert self.app
        if response.content_type != "text/event-stream":
            (await described(self.app)).judge(response, await response.read())
        return response
