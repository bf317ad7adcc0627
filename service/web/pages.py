"""The pages there are: opened beside the routes of `api`, over the same connections.

A page module is a class with `pages()`, which names what it serves; here its object is made, and
its entry of the navigation stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from service.config.address import is_loopback
from service.config.schema import Config
from service.http.serve import Backing, Opened
from service.operator.services import Services
from service.web import assets
from service.web.accounts import AccountPages
from service.web.board import Board
from service.web.dead import DeadPages
from service.web.deliveries import DELIVERIES, INBOX, DeliveryLists
from service.web.delivery import OneDelivery
from service.web.entrance import Entrance
from service.web.frame import Entry, Frame, Page
from service.web.imports import Imports
from service.web.inbox import OneRelayed
from service.web.keys import KeyPages, LinkPages
from service.web.lines import LinePages, WorkerPages
from service.web.overview import Overview
from service.web.parcel import OneParcel
from service.web.parcels import Parcels
from service.web.proof import ProofPages
from service.web.service_edits import ServiceEdits
from service.web.services import SERVICES, ServicePages
from service.web.settings import Settings
from service.web.statistics import StatisticsPages
from service.web.users import UserPages
from service.web.visitors import Visitors

ENTRIES: tuple[Entry, ...] = (
    Entry("Overview", "/"),
    Entry("Parcels", "/parcels"),
    Entry("Services", SERVICES),
    Entry("Deliveries", DELIVERIES),
    Entry("Inbox", INBOX),
    Entry("Settings", "/settings"),
    Entry("Lines", "/lines", operators=True),
    Entry("Workers", "/workers", operators=True),
    Entry("Dead letters", "/dead", operators=True),
    Entry("Statistics", "/statistics", operators=True),
    Entry("Accounts", "/accounts", operators=True),
)
"""The navigation, in its order. Entries of pages that come later join here."""


class PageModule(Protocol):
    """What a page module gives."""

    def pages(self) -> list[Page]:
        """Name what it serves."""


def wanted(config: Config, listen: str) -> bool:
    """Whether `api` serves pages where it listens."""
    enabled = config.web.enabled
    return enabled == "always" or (enabled == "loopback" and is_loopback(listen))


@contextlib.asynccontextmanager
async def open_pages(backing: Backing) -> AsyncIterator[Opened]:
    """Open all pages for the `with` block."""
    public, stores = backing.config.web.public_proof, backing.operations.stored.stores
    visitors, services = Visitors(backing.config, stores), Services(backing.config, stores)
    entrance, board = Entrance(visitors), Board(backing)
    of_all: list[PageModule] = [
        *(Overview(board), entrance, Settings(visitors), UserPages(visitors), KeyPages(visitors)),
        *(LinkPages(visitors, backing), LinePages(board), WorkerPages(board), DeadPages(board)),
        *(StatisticsPages(board), AccountPages(board), ProofPages(board, public=public)),
        *(Parcels(backing, board), Imports(backing), OneParcel(visitors, backing)),
        *(ServiceEdits(services, backing), ServicePages(services)),
        *(DeliveryLists(services, DELIVERIES), DeliveryLists(services, INBOX)),
        *(OneDelivery(services), OneRelayed(services)),
    ]
    frame = Frame(visitors, (*ENTRIES, Entry("Proof", "/proof", operators=not public)))
    pages = [page for each in of_all for page in each.pages()]
    await entrance.announce()
    try:
        yield Opened([*assets.routes(), *frame.routes(pages)], frame.missing)
    finally:
        await entrance.close()
