"""`/openapi.json`: each route stands in it, with the types of what it takes and answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from door_ground import NOWHERE, Client, refused, serving

from service.api.openapi import document
from service.api.routes import NOT_IN_THE_DOCUMENT, About, Route

OF_AFTERSHIP = "/tracking/"
"""It documents its own routes."""


def served(client: Client) -> set[tuple[str, str]]:
    assert client.app
    return {
        (each.method.lower(), each.resource.canonical)
        for each in client.app.router.routes()
        if each.resource
    }


def described(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(method, path) for path, each in found["paths"].items() for method in each}


async def test_every_route_stands_in_the_document_and_no_other(api: Client) -> None:
    found = await (await api.get("/openapi.json")).json()

    assert {each for each in served(api) if not each[1].startswith(OF_AFTERSHIP)} == described(
        found
    )


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
