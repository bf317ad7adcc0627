"""`/openapi.json`: every route in OpenAPI 3.1, out of the types that read and write its bodies.

`/docs` shows it with Swagger UI, which a package brings: no other host is asked for anything.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

from service import VERSION
from service.http import meanings
from service.http.exchange import JSON, PROBLEM, About, Parameter, Route
from service.operator.keys import needed

Document = dict[str, Any]
HTML = "text/html"

DESCRIPTION = """\
Puts tracking requests, and tells what became of them.

Until the first key is made, programs of the same machine are served without one. From then on a \
request sends a key, as the header `as-api-key` or as `Authorization: Bearer KEY`. An operation \
names the scope that its key needs: `ingest` puts requests, `read` asks what became of them, \
`hooks` with `read` has webhooks sent, `admin` is the operators'. Requests with a key may have to \
be signed, as docs/http.md says. What another account owns is 404.

Every refusal is a problem of RFC 9457: `detail` says what is wrong and what to send instead. \
Every answer has a header `X-Request-Id`. What is asked by GET may be asked by HEAD."""

PATH_PARAMETERS: Mapping[str, Any] = {
    "id": Annotated[str, Meta(min_length=1, description="an id, as an answer named it")],
    "name": Annotated[
        str, Meta(min_length=1, description="the name of a service", examples=["orders"])
    ],
    "slug": Annotated[str, Meta(min_length=1, description="a courier", examples=["usps"])],
    "number": Annotated[
        str, Meta(min_length=1, description="a tracking number", examples=["1Z12345E0205271688"])
    ],
}
"""What the parts of paths mean; any other is some text."""

SCHEMES: Mapping[str, Document] = {
    "key": {"type": "apiKey", "in": "header", "name": "as-api-key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}

_ALWAYS = (HTTPStatus.BAD_REQUEST, HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE)
_WITH_A_KEY = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
_WITH_A_BODY = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.EXPECTATION_FAILED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)

_PART = re.compile(r"\{(\w+)\}")
_TEXT: Document = {"type": "string"}


class ProblemDetails(msgspec.Struct):
    """Why a request is refused (RFC 9457); some reasons add members of their own."""

    type: Annotated[str, Meta(description="where this status is explained to people")]
    title: str
    status: int
    detail: Annotated[str, Meta(description="what is wrong, and what to send instead")]
    reason: Annotated[str | None, Meta(description="the same as one word, for programs")] = None


TITLE = "Courier tracking worker"

PAGE = f"""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(TITLE)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><link rel="stylesheet" href="docs/swagger_style.css">
<script src="docs/swagger_bundle.js" defer></script><script src="docs/start.js" defer></script>
</head><body><main id="docs"></main></body></html>
"""

START = b'SwaggerUIBundle({url: "openapi.json", dom_id: "#docs", validatorUrl: null})'
"""A script of its own, because no page here may run one that stands in it. The validator is a host
elsewhere."""

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}

SWAGGER_UI: Mapping[str, str] = {
    "swagger_bundle.js": "text/javascript",
    "swagger_style.css": "text/css",
}
"""The files of the package `offapi` that the page loads, and their types."""


def with_document(routes: Sequence[Route]) -> list[Route]:
    """Add the routes that serve the document of these routes, and of themselves."""

    @cache
    def written() -> bytes:
        return msgspec.json.encode(document(every))

    async def serve(_: web.Request) -> web.Response:
        # Written once somebody asks: it takes a tenth of a second.
        return web.Response(body=await asyncio.to_thread(written), content_type=JSON)

    about = About("Describe every route, in OpenAPI 3.1.", None, {200: dict[str, Any]})
    readable = About("Describe every route, for people.", None, {200: str}, gives=(HTML,))
    explained = About("Explain each status of a problem.", None, {200: str}, gives=(HTML,))
    part = About(
        "Give a file of the page for people.",
        None,
        {200: str},
        (404,),
        gives=tuple(SWAGGER_UI.values()),
    )
    every = [
        *routes,
        Route("GET", "/openapi.json", serve, about),
        Route("GET", "/docs", _show, readable),
        Route("GET", meanings.PATH, _explain, explained),
        Route("GET", "/docs/{file}", _give_file, part),
    ]
    return every


async def _show(_: web.Request) -> web.Response:
    return web.Response(text=PAGE, content_type=HTML, headers=PAGE_HEADERS)


async def _explain(_: web.Request) -> web.Response:
    return web.Response(text=meanings.page(), content_type=HTML, headers=PAGE_HEADERS)


async def _give_file(request: web.Request) -> web.Response:
    name = request.match_info["file"]
    if name == "start.js":
        return web.Response(body=START, content_type="text/javascript")
    if name not in SWAGGER_UI:
        raise web.HTTPNotFound
    # Not imported: the package would make pages of all that it brings, 9 MB of it.
    spec = find_spec("offapi")
    assert spec is not None  # noqa: S101 - it is installed with the rest
    [folder] = spec.submodule_search_locations or [""]
    body = await asyncio.to_thread((Path(folder) / name).read_bytes)
    headers = {"Cache-Control": "max-age=3600"}
    return web.Response(body=body, content_type=SWAGGER_UI[name], headers=headers)


def document(routes: Iterable[Route]) -> Document:
    """Describe routes, in their order. Those without an `About` are left out."""
    components = _Components()
    paths: dict[str, Document] = {}
    for route in routes:
        if route.about:
            described = _operation(route, route.about, components)
            paths.setdefault(route.path, {})[route.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": VERSION, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "responses": components.responses,
            "securitySchemes": SCHEMES,
        },
    }


class _Components:
    """The components: described once, and named where they are meant."""

    def __init__(self) -> None:
        self.schemas: dict[str, Document] = {}
        self.responses: dict[str, Document] = {}

    def schema(self, kind: Any) -> Document:
        """Write the schema of a type; of a tuple that of any of its types."""
        if isinstance(kind, tuple):
            return {"anyOf": [self.schema(each) for each in kind]}
        template = "#/components/schemas/{name}"
        [schema], named = msgspec.json.schema_components([kind], ref_template=template)
        for name, each in named.items():
            if text := each.get("description"):  # programs need the beginning of a docstring
                each["description"] = " ".join(text.partition("\n\n")[0].split())
            if self.schemas.setdefault(name, each) != each:
                raise ValueError(f"two types are called {name}: give one of them another name")
        return schema

    def refusal(self, status: HTTPStatus) -> Document:
        """Refer to a problem with a status."""
        name = status.phrase.replace(" ", "")
        if name not in self.responses:
            content = _content((PROBLEM,), self.schema(ProblemDetails))
            self.responses[name] = {"description": status.phrase, "content": content}
        return {"$ref": f"#/components/responses/{name}"}


def _operation(route: Route, about: About, components: _Components) -> Document:
    described: Document = {
        "operationId": "_".join([route.method.lower(), *re.findall(r"\w+", route.path)]),
        "summary": about.summary,
        "parameters": _parameters(route, about, components),
        "responses": _answers(about, components),
    }
    if about.body is not None:
        content = _content(about.takes, components.schema(about.body))
        described["requestBody"] = {"required": True, "content": content}
    if about.scope:
        scopes = [each.value for each in needed(about.scope)]
        described["security"] = [{scheme: scopes} for scheme in SCHEMES]
    return described


def _parameters(route: Route, about: About, components: _Components) -> list[Document]:
    of_path = [
        Parameter(name, PATH_PARAMETERS.get(name, str)) for name in _PART.findall(route.path)
    ]
    return [_parameter(each, "path", components) for each in of_path] + [
        _parameter(each, each.where, components) for each in about.parameters
    ]


def _parameter(each: Parameter, where: str, components: _Components) -> Document:
    schema = components.schema(each.kind)
    described = {"name": each.name, "in": where, "required": where == "path"}
    if text := schema.pop("description", None):
        described["description"] = text
    return described | {"schema": schema}


def _answers(about: About, components: _Components) -> dict[str, Document]:
    described: dict[str, Document] = {}
    for status, kind in about.answers.items():
        described[f"{status:d}"] = {"description": HTTPStatus(status).phrase}
        if kind is not None:
            described[f"{status:d}"]["content"] = _content(about.gives, components.schema(kind))
    refused = {
        *_ALWAYS,
        *(_WITH_A_KEY if about.scope else ()),
        *(_WITH_A_BODY if about.body is not None else ()),
        *map(HTTPStatus, about.refusals),
    }
    for status in sorted(refused - set(about.answers)):
        described[f"{status:d}"] = components.refusal(HTTPStatus(status))
    return described


def _content(media: Sequence[str], schema: Document) -> Document:
    """Say what stands in each form of a body: the value in JSON, in any other some text."""
    is_json = re.compile(r"application/([\w.-]+\+)?json")
    return {each: {"schema": schema if is_json.fullmatch(each) else _TEXT} for each in media}
