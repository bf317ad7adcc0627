"""Many open pages cost what one costs, counted by MongoDB itself."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest
from crawl import walk
from pages_ground import ACME, Person, Service, serving_pages

from service.http.backend.keyring import APP_NAME
from service.web.frame import LIVE_SECONDS

pytestmark = pytest.mark.prove

PAGES, AT_ONCE = 400, 8


class Profile:
    """What MongoDB noted of each operation in the database."""

    def __init__(self, service: Service) -> None:
        self._database = service.stores.tracking.database

    def __enter__(self) -> Self:
        self._database.command("profile", 2)
        return self

    def __exit__(self, *_: object) -> None:
        self._database.command("profile", 0)

    def reads(self) -> int:
        """How often pages read something since the last look, but for sessions and the profile.

        A session is looked up with its user, and with the accounts that are suspended.
        """
        kept: dict[str, object] = {"appName": {"$ne": APP_NAME}}
        kept |= {"command.projection": {"$ne": {"suspended": 1}}}
        kept |= {"op": {"$in": ["query", "command"]}, "ns": {"$not": {"$regex": "profile|session"}}}
        found = self._database["system.profile"].count_documents(
            kept | {"command.find": {"$ne": "users"}, "command.profile": {"$exists": False}}
        )
        self._database.command("profile", 0)
        self._database["system.profile"].drop()
        self._database.command("profile", 2)
        return found


def fragments(person: Person) -> list[str]:
    """The parts that a page asks for again and again."""
    pages = walk(person).pages.values()
    return sorted({each for page in pages for each in page.tree.xpath("//*[@data-live]/@hx-get")})


def test_open_pages_of_an_account_cost_one_look_in_two_seconds(
    service: Service, settings: dict[str, str], disk: Path
) -> None:
    counted = {}
    for address in fragments(service.person()):
        # An `api` that has kept nothing yet: its first look reads all that a look ever reads.
        with serving_pages(disk, settings) as fresh, Profile(fresh) as profile:
            counted[address] = reads_of_one(address, fresh, profile)

    assert sum(counted.values()) > len(counted) > 2


def reads_of_one(address: str, service: Service, profile: Profile) -> int:
    """Count what one look at a fragment reads, and assert that many pages look no more often."""
    anna, ben, eve = service.person(), service.person(), service.person("owner", ACME)
    pages = [(person, address) for person in (anna, ben, eve)] * (PAGES // 3)
    profile.reads()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(ask, pages[:3]))
        of_one, began = profile.reads(), time.monotonic()
        list(pool.map(ask, pages))
    looks = math.ceil((time.monotonic() - began) / (LIVE_SECONDS * 0.9)) + 1
    assert profile.reads() <= of_one * looks, address
    return of_one


def ask(page: tuple[Person, str]) -> None:
    person, address = page
    assert person.get(address).status in {200, 404}
