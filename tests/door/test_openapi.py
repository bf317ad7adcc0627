"""`/openapi.json`: each route with the types of what it takes and answers; `/docs` shows it."""

from __future__ import annotations

import collections
import dataclasses
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from aiohttp import ClientTimeout, web
from described_client import Described, document_of
from door_ground import NOWHERE, USPS, Client, FixedKeys, refused, serving
from limits_bench import Worker
from operations_ground import Database, serving_all
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from test_parcels_over_http import DOCUMENT
from yarl import URL

from limits.admin.snapshot import LineSnapshot
from service.http import lines
from service.http.callers import Callers
from service.http.exchange import NOT_IN_THE_DOCUMENT, About, Route
from service.http.lines import LineNow
from service.http.openapi import document
from service.operator.keys import Scope
from service.operator.statistics import Statistics, members
from service.worker.results.database import Names, indexes_for, make_indexes
from tracking.tally import Tally

OF_AFTERSHIP = "/tracking/"


"""It documents its own routes."""


HIDDEN = (404, 404)


"""What operators' routes answer without a key, and with another one: they are not to be seen."""


def app_of(client: Client) -> web.Application:
    assert client.app
    return client.app


def served(client: Client) -> set[tuple[str, str]]:
    """All routes, but for the HEAD that goes with each GET."""
    return {
        (each.method.lower(), each.resource.canonical)
        for each in app_of(client).router.routes()
        if each.resource and each.method != "HEAD"
    }


def described(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(method, path) for path, each in found["paths"].items() for method in each}


async def test_every_route_stands_in_the_document_and_no_other(api: Client) -> None:
    found = await (await api.get("/openapi.json")).json()

    assert {each for each in served(api) if not each[1].startswith(OF_AFTERSHIP)} == described(
        found
    )


async def test_the_document_is_openapi_and_its_schemas_are_json_schema(api: Client) -> None:
    found = Described(await document_of(app_of(api)))

    assert [each.message for each in OPENAPI_31_VALIDATOR.iter_errors(found.document)] == []
    names = [
        each["operationId"] for path in found.document["paths"].values() for each in path.values()
    ]
    assert len(set(names)) == len(names)
    for name, schema in found.document["components"]["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        found.validator({"$ref": f"#/components/schemas/{name}"})  # whatever it refers to is there
    with pytest.raises(jsonschema_rs.ValidationError, match="does not exist"):
        found.validator({"$ref": "#/components/schemas/Nothing"})


def untyped(part: Any, path: str = "") -> Iterator[str]:
    """Where the document says no more of a value than that it is an object, or not even that."""
    if isinstance(part, list):
        for index, each in enumerate(part):
            yield from untyped(each, f"{path}/{index}")
    elif isinstance(part, dict):
        says = part.get("properties") or isinstance(part.get("additionalProperties"), dict)
        if part == {} or (part.get("type") == "object" and not says):
            yield path
        for name, each in part.items():
            yield from untyped(each, f"{path}/{name}")


async def test_every_object_is_described_by_its_members(api: Client) -> None:
    found = await (await api.get("/openapi.json")).json()

    of_the_document = "/paths//openapi.json/"  # OpenAPI describes that
    assert [each for each in untyped(found) if not each.startswith(of_the_document)] == []


def test_the_members_of_lines_and_statistics_are_those_that_are_told() -> None:
    told = {"slug"} | {each.name for each in dataclasses.fields(LineSnapshot)} - {"line"}
    assert set(LineNow.__annotations__) == told

    kept = members(Statistics("", 0, 60, 60, [Tally()]))
    assert set(lines.Statistics.__annotations__) == set(kept)
    assert set(lines.Span.__annotations__) == set(kept["spans"][0])


async def test_a_route_wants_a_key_with_the_scope_that_stands_in_the_document(
    disk: Path, settings: dict[str, str]
) -> None:
    keys = FixedKeys()
    unfit = {scope: {"as-api-key": keys.make("main", *set(Scope) - {scope})} for scope in Scope}
    async with serving_all(disk / "spool.sqlite", settings, callers=Callers(keys, 1_000.0)) as api:

        async def status(method: str, path: str, headers: dict[str, str]) -> int:
            named = path.format_map(collections.defaultdict(lambda: "x"))
            response = await api.request(method, named, headers=headers)
            response.close()
            return response.status

        operations = json.loads(await document_of(app_of(api)))["paths"]
        for method, path in described({"paths": operations}):
            security = operations[path][method].get("security")
            if not security:
                assert await status(method, path, {}) not in {401, 403}, path
                continue
            scopes = [Scope(each) for each in security[0]["key"]]
            without, other = HIDDEN if Scope.ADMIN in scopes else (401, 403)
            assert await status(method, path, {}) == without, path
            for scope in scopes:
                assert await status(method, path, unfit[scope]) == other, path
            fit = {"as-api-key": keys.make("main", *scopes)}
            assert await status(method, path, fit) not in {401, 403}, path


async def test_what_is_asked_by_get_is_asked_by_head_too_and_the_answer_has_no_body(
    api: Client,
) -> None:
    for method, path in described(json.loads(await document_of(app_of(api)))):
        if method != "get":
            continue
        named = path.format_map(collections.defaultdict(lambda: "x"))
        async with api.head(named) as head, api.get(named) as get:
            assert (head.status, head.content_type) == (get.status, get.content_type), path
            if get.content_type != "text/event-stream":
                assert "Content-Length" in head.headers, path
            assert await head.read() == b""


async def test_the_door_alone_describes_what_it_serves(disk: Path) -> None:
    async with serving(disk / "spool.sqlite", NOWHERE) as alone:
        found = await (await alone.get("/openapi.json")).json()

        assert described(found) == served(alone)
        assert ("get", "/v1/operations/{id}") not in described(found)
        await refused(await alone.post("/openapi.json"), 405)


async def nothing(_: web.Request) -> web.Response:
    return web.Response()


def test_two_types_of_one_name_are_refused() -> None:
    kinds = [msgspec.defstruct("Told", [("a", kind)]) for kind in (int, str)]
    routes = [
        Route("GET", f"/{kind}", nothing, About("Tell.", None, {200: kind})) for kind in kinds
    ]

    with pytest.raises(ValueError, match="two types are called"):
        document(routes)


def test_a_route_that_is_marked_stays_out() -> None:
    assert document([Route("GET", "/tracking/a", nothing, NOT_IN_THE_DOCUMENT)])["paths"] == {}


async def test_the_page_for_people_names_no_other_host_and_holds_no_script(alone: Client) -> None:
    response = await alone.get("/docs")
    page = await response.text()

    assert (response.status, response.content_type) == (200, "text/html")
    assert "//" not in page
    assert re.findall(r"<script[^>]*>[^<]|<style| on\w+=", page) == []
    rules = response.headers["Content-Security-Policy"].split("; ")
    assert rules[:3] == ["default-src 'none'", "script-src 'self'", "style-src 'self'"]
    assert {word for rule in rules for word in rule.split()[1:]} == {"'none'", "'self'", "data:"}


async def test_each_file_that_the_page_loads_is_served_as_what_it_is(alone: Client) -> None:
    page = await (await alone.get("/docs")).text()
    kinds = {"js": "text/javascript", "css": "text/css"}

    names = re.findall(r'(?:src|href)="(docs/[^"]+)"', page)
    assert len(names) == 3
    for name in names:
        response = await alone.get(f"/{name}")
        assert (response.status, response.content_type) == (200, kinds[name.rpartition(".")[2]])
        assert await response.text()


async def test_the_page_for_people_shows_the_document_of_its_own_server(alone: Client) -> None:
    start = await (await alone.get("/docs/start.js")).text()
    bundle = await (await alone.get("/docs/swagger_bundle.js")).text()

    assert 'url: "openapi.json"' in start
    assert "//" not in start
    assert "SwaggerUIBundle" in bundle


async def test_of_the_package_behind_the_page_nothing_else_is_served(alone: Client) -> None:
    for name in ("redoc.js", "__init__.py", "..%2f__init__.py", "%2fetc%2fpasswd", ""):
        await refused(await alone.get(f"/docs/{name}"), 404)


PAGE = Path(__file__).parents[2] / "docs" / "http.md"


FILES = {
    "@requests.ndjson": b'{"slug": "usps", "number": "9405903699300184125060"}\n{"number": "A"}\n',
    "@orders.csv": b"number,slug,id\n9405903699300184125060,usps,order-1\n",
}
"""What the page says of files that are sent."""


KEYED = "$KEY"


"""What has a key is typed where there is one: here is none."""


def commands(page: str) -> Iterator[tuple[list[str], str]]:
    """The words of each command, and the status that its comment says; "2" where it says none."""
    for block in re.findall(r"```sh\n(.+?)```", page, re.DOTALL):
        text = block.replace("\\\n", " ")
        for command, comment in re.findall(r"^(curl .+)\n?((?:#.*\n)?)", text, re.MULTILINE):
            says = re.search(r"# (?:… )?(\d{3})\b", f"{command} {comment}")
            words = shlex.split(command, comments=True)
            if not any(KEYED in word for word in words):
                end = words.index("|") if "|" in words else None
                yield words[:end], says[1] if says else "2"


async def answered(api: Client, words: list[str]) -> tuple[int, str]:
    """Send what curl would send. Of a stream that does not end the beginning is enough."""
    method, headers, body, url = "", {}, None, ""
    options = iter(words[1:])
    for word in options:
        match word:
            case "-s" | "-sN":
                pass
            case "-X":
                method = next(options)
            case "-H":
                name, _, value = next(options).partition(": ")
                headers[name] = value
            case "-d":
                body = next(options).encode()
            case "--data-binary":
                body = FILES[next(options)]
            case _:
                assert not url, f"{word} of {words} is not understood"
                url = word
    path = URL(re.sub(r"^http://127\.0\.0\.1:808[01]", "", url), encoded=True)
    method = method or ("GET" if body is None else "POST")
    patience = ClientTimeout(total=10.0)
    async with api.request(method, path, data=body, headers=headers, timeout=patience) as reply:
        return reply.status, "" if "/events" in url else await reply.text()


async def test_every_curl_command_is_answered_as_the_page_says(
    whole: Client, worker: Worker, collections: Database
) -> None:
    collections.tracking.insert_one(DOCUMENT)
    make_indexes(collections.tracking, indexes_for(Names(""))["tracking"])
    # The operation of the page waits, behind a call that takes the only place.
    await worker.granted("BUSY")
    await worker.parked(USPS["number"], id="order-4711")
    typed = 0
    secret = link = ""
    for words, status in commands(PAGE.read_text("utf-8")):
        # What the page shortens, and what would hold a reply for a minute.
        line = [
            word.replace("9f86…", secret).replace("6923…", link).replace("wait=60", "wait=0.1")
            for word in words
        ]

        found, text = await answered(whole, line)

        assert str(found).startswith(status), f"{shlex.join(line)}: {text}"
        typed += 1
        if made := re.search(r'"id":"(\w+)","url":"[^"]+/start/(\w+)"', text):
            link, secret = made.groups()
    assert typed > 20
