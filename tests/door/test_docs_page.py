"""`/docs`: the document as a page for people, without anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import shlex
from html.parser import HTMLParser
from typing import Any

import pytest
from aiohttp import web
from door_ground import Client

from service.api.openapi import document
from service.api.page import page
from service.api.routes import About, Parameter, Route

VOID = {"meta"}


class Read(HTMLParser):
    """What stands in a page; every element must be closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.inside: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        self.attributes |= set(given)
        self.ids += [str(given["id"])] if "id" in given else []
        self.links += [str(given["href"])] if "href" in given else []
        if tag not in VOID:
            self._open.append(tag)
            self.inside.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.inside[tag][-1] += data


async def test_the_page_shows_every_route_and_type_of_the_document(api: Client) -> None:
    found = await (await api.get("/openapi.json")).json()
    response = await api.get("/docs")
    read = Read(await response.text())

    assert (response.status, response.content_type) == (200, "text/html")
    routes = [
        f"{method.upper()} {path}" for path, each in found["paths"].items() for method in each
    ]
    assert read.inside["h2"] == routes + list(found["components"]["schemas"])
    assert len(set(read.ids)) == len(read.ids)
    assert {link.removeprefix("#") for link in read.links} - set(read.ids) == {"/openapi.json"}


async def test_the_page_loads_and_runs_nothing(api: Client) -> None:
    response = await api.get("/docs")
    read = Read(await response.text())

    assert not read.tags & {"script", "img", "iframe", "object", "form", "base", "link"}
    assert not {"src", "style"} & read.attributes
    assert not [each for each in read.attributes if each.startswith("on")]
    [style] = read.inside["style"]
    assert "url(" not in style
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    rules = response.headers["Content-Security-Policy"].split("; ")
    assert rules[0] == "default-src 'none'"
    assert f"style-src 'sha256-{hashed}'" in rules


async def test_every_example_is_a_request_that_is_understood(whole: Client) -> None:
    for text in Read(await (await whole.get("/docs")).text()).inside["pre"]:
        words = shlex.split(text.replace("\\\n", " "))
        assert words[:2] == ["curl", "-s"]
        method = words[words.index("-X") + 1] if "-X" in words else "GET"
        [path] = [word.removeprefix("$SERVER") for word in words if word.startswith("$SERVER/")]
        sent: dict[str, Any] = {"headers": {}}
        for flag, value in itertools.pairwise(words):
            if flag == "-H" and "$KEY" not in value:
                name, _, said = value.partition(": ")
                sent["headers"][name] = said
            if flag == "-d":
                sent["data"] = value.encode()

        response = await whole.request(method, path, **sent)

        assert response.status in {200, 201, 202, 204, 404, 409}, text
        if response.status == 404:
            assert "nothing at this path" not in await response.text(), text
        response.close()


async def nothing(_: web.Request) -> web.Response:
    return web.Response()


@pytest.mark.parametrize("hostile", ["</style><script>alert(1)</script>", "\"'><b onclick=x>&"])
def test_whatever_a_description_says_is_text(hostile: str) -> None:
    about = About(hostile, None, {200: str}, parameters=(Parameter(hostile, str),))
    routes = [Route("GET", "/a", nothing, about)]

    text = page(document(routes))

    assert not {"script", "b"} & Read(text).tags
    assert hostile in re.sub(r"\s+", " ", "".join(Read(text).inside["section"]))
