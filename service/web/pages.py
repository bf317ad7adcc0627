"""The pages there are: opened beside the routes of `api`, over the same connections.

A page module is a class with `pages()`, which names what it serves; here its object is made, and
its entry of the navigation stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from aiohttp import web

from service.config.address import is_loopback
from service.config.schema import Config
from service.http.exchange import Route
from service.http.serve import Backing
from service.web import assets
from service.web.frame import Entry, Frame, Page
from service.web.visitors import Visitor, Visitors

ENTRIES: tuple[Entry, ...] = (
    Entry("Overview", "/"),
    Entry("Parcels", "/parcels"),
    Entry("Settings", "/settings"),
    Entry("Lines", "/lines", operators=True),
    Entry("Workers", "/workers", operators=True),
    Entry("Dead letters", "/dead", operators=True),
    Entry("Statistics", "/statistics", operators=True),
    Entry("Accounts", "/accounts", operators=True),
)
"""The navigation, in its order. Entries of pages that come later join here."""


def wanted(config: Config, listen: str) -> bool:
    """Whether `api` serves pages where it listens."""
    enabled = config.web.enabled
    return enabled == "always" or (enabled == "loopback" and is_loopback(listen))


@contextlib.asynccontextmanager
async def open_pages(backing: Backing) -> AsyncIterator[Sequence[Route]]:
    """Open all pages for the `with` block."""
    frame = Frame(Visitors(backing.config, backing.operations.stored.stores), ENTRIES)
    pages = [*Welcome(frame).pages()]
    yield [*assets.routes(), *frame.routes(pages)]


class Welcome:
    """The first page."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def pages(self) -> list[Page]:
        """Name it."""
        return [Page("GET", "/", self.show)]

    async def show(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        """Show it."""
        return self._frame.render(request, visitor, "welcome.html")
