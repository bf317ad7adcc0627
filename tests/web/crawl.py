"""A walk over all pages, as somebody who follows every link and looks at every form.

What is found is all that one can reach: pages by their path, and to where their forms post.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urljoin, urlsplit

from pages_ground import Person, Shown

MOST = 400
OTHERS = ("/v1/", "/docs", "/openapi.json", "/static/", "/trackings", "/healthz", "/metrics")
"""Paths of programs, which have their own tests."""


@dataclass
class Walk:
    """`pages` by their addresses; `posts`: for each path to which a form posts, the page it is on.

    `files` and `streams` are no pages. `broken`: links that lead nowhere.
    """

    pages: dict[str, Shown] = field(default_factory=dict)
    posts: dict[str, Shown] = field(default_factory=dict)
    files: dict[str, Shown] = field(default_factory=dict)
    streams: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)

    @property
    def paths(self) -> set[str]:
        """All, without queries."""
        return {path_in(each) for each in (*self.pages, *self.posts, *self.files, *self.streams)}


def walk(person: Person, *starts: str) -> Walk:
    """Begin at the first page, or at these."""
    found, known, left = Walk(), set[object](), list(starts or ("/",))
    while left and len(found.pages) < MOST:
        address = left.pop(0)
        if _shape(address) in known:
            continue
        known.add(_shape(address))
        shown = person.open(address)
        if shown.status != 200:
            found.broken.add(address)
            continue
        if shown.headers.get_content_type() != "text/html":
            found.files[address] = shown
            continue
        found.pages[address] = shown
        found.streams |= {*shown.tree.xpath("//@sse-connect")}
        for form in shown.tree.forms:
            target = _absolute(shown, form.get("action"))
            if form.method.upper() == "POST":
                found.posts.setdefault(path_in(target), shown)
            else:
                left.append(target)
        left += [each for each in _links(shown) if not each.startswith(OTHERS)]
    return found


def _links(shown: Shown) -> Iterable[str]:
    for name in ("href", "hx-get"):
        for each in shown.tree.xpath(f"//*[@{name} and not(self::link)]"):
            address = _absolute(shown, each.get(name))
            if address.startswith("/"):
                yield address


def _absolute(shown: Shown, link: str | None) -> str:
    return urljoin(shown.path, link or "").partition("#")[0] or "/"


def _shape(address: str) -> object:
    """Two addresses of one shape show the same page with other values of its filters."""
    parts = urlsplit(address)
    return parts.path, tuple(sorted(name for name, _ in parse_qsl(parts.query)))


def path_in(address: str) -> str:
    """The path, without a query."""
    return urlsplit(address).path


def matches(pattern: str, paths: Iterable[str]) -> bool:
    """Whether one of the paths is of a route like `/parcels/{slug}/{number}`."""
    expression = re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(pattern))
    return any(re.fullmatch(expression, path) for path in paths)
