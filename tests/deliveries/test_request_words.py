"""The words of a relayed request, and the upkeep that writes them down."""

from __future__ import annotations

import asyncio
import datetime as dt
import gzip
import json
import zlib
from typing import Any
from urllib.parse import urlencode

import pytest
from redis.asyncio import Redis
from webhook_ground import foreign, store_relay, store_relayed

from service.config.schema import Config
from service.observe.background import Background
from service.worker.deliveries import words as words_module
from service.worker.deliveries.service import Service
from service.worker.deliveries.standing import DAY, beginning, days_of
from service.worker.deliveries.subscriptions import Subscriptions
from service.worker.deliveries.totals import keep_cursor
from service.worker.deliveries.words import (
    LONGEST,
    READ_MOST,
    WORDS_MOST,
    Words,
    words_in,
    words_of,
)
from service.worker.results.connection import Store
from service.worker.wiring.alerting import Asked, start_looking_after
from tracking.request import MAIN

RELAY = Service("a" * 16, MAIN, "shopify", "https://shop.example", (), dt.datetime.now(dt.UTC))


def words(body: bytes = b"", kind: str = "", target: str = "/", **headers: str) -> list[str]:
    """The words of a request but for those of its media type."""
    given = [("Content-Type", kind)] if kind else []
    given += [(name.replace("_", "-"), value) for name, value in headers.items()]
    found = words_of(foreign(RELAY, target=target, headers=tuple(given), body=body))
    return [each for each in found if each not in words_in(kind)]


def test_a_path_is_read_without_its_escapes_and_without_its_query() -> None:
    told = words(target="/Orders/cr%C3%A9ate/42?token=secret")

    assert told == ["orders", "créate", "42"]


def test_of_headers_those_are_read_that_say_what_happened() -> None:
    told = words(
        User_Agent="Shopify-Captain-Hook",
        X_GitHub_Event="pull_request",
        X_Shopify_Topic="orders/paid",
        X_Shop_Domain="a-shop.example",
        Webhook_Id="msg_2b",
        Authorization="Bearer geheim",
        Stripe_Signature="v1=0badcafe",
        Cookie="session=1",
    )

    wanted = ["shopify", "captain", "hook", "pull", "request", "orders", "paid", "shop", "example"]
    assert told == [*wanted, "msg", "2b"]


@pytest.mark.parametrize(
    ("body", "kind", "found"),
    [
        (b'{"id":4711,"name":"Gr\\u00fcn\\nBlau"}', "application/json", "id 4711 name grün blau"),
        (
            json.dumps({"a": "日本語"}, ensure_ascii=True).encode(),
            "application/cloudevents+json",
            "日本語",
        ),
        (
            urlencode({"From": "+49 30", "Body": "Grün & Co"}).encode(),
            "application/x-www-form-urlencoded",
            "from 49 30 body grün co",
        ),
        ("ÜBER straße".encode(), "text/plain; charset=utf-8", "über straße"),
        ("\uff26\uff55\uff4c\uff4c \ufb01ne".encode(), "text/plain", "full fine"),
        ("Grün".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grün"),
        ("हिन्दी में".encode(), "text/plain", "हिन्दी में"),
        (b"<order><id>77</id></order>", "", "order id 77"),
    ],
)
def test_a_body_that_is_text_is_read_as_people_read_it(body: bytes, kind: str, found: str) -> None:
    assert words(body, kind) == found.split()


@pytest.mark.parametrize(
    "body",
    [
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"\xff\xfe\xfd words",
        b"words\x00words",
        "wörds".encode("utf-16"),
        bytes(range(256)),
    ],
)
def test_a_body_that_is_no_text_has_no_words(body: bytes) -> None:
    assert words(body, "application/octet-stream") == []


def test_of_a_body_the_first_kib_is_read_also_where_it_cuts_a_letter_in_two() -> None:
    body = b"x" * (READ_MOST - 1) + "ü beyond".encode()

    assert words(body) == ["x" * LONGEST]


def test_a_compressed_body_is_read_and_a_bomb_no_further_than_its_first_kib() -> None:
    bomb = gzip.compress(b"begin " + b"0" * (1 << 24) + b" beyond")

    assert words(gzip.compress(b"order 42"), Content_Encoding="gzip") == ["order", "42"]
    assert words(zlib.compress(b"order 42"), Content_Encoding="Deflate") == ["order", "42"]
    assert words(bomb, Content_Encoding="gzip") == ["begin", "0" * LONGEST]
    for broken in (b"\x1f\x8b broken", gzip.compress(b"order 42")[:12], b""):
        assert words(broken, Content_Encoding="gzip") == []
    assert words(b"order", Content_Encoding="br") == []


def test_words_are_few_and_short_and_each_is_there_once() -> None:
    many = " ".join(f"w{number} w{number}" for number in range(1_000)).encode()

    told = words(many, target="/first")

    assert (len(told), told[:2]) == (WORDS_MOST, ["first", "w0"])
    assert words_in("a I b") == []
    assert words_in("a" * 500) == ["a" * LONGEST]


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud83d\\u0000\\uffff"',
        "\ufdfa" * 300,
        "a\u0301\u0300" * 500,
        "%" * 2_000,
        "%00%ff%fe%zz",
        '{"a":' * 300,
        "\\u" * 500,
    ],
)
def test_what_is_hostile_has_words_that_mongodb_takes_or_none(text: str) -> None:
    body = text.encode("utf-8", "surrogatepass")
    for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
        for each in words(body, kind, target="/" + text.encode("utf-8").decode("latin-1")):
            assert 2 <= len(each) <= LONGEST
            assert each.encode()


async def test_the_upkeep_writes_the_words_of_each_request_once(store: Store) -> None:
    relay = store_relay(store)
    made = [store_relayed(store, relay, foreign(relay, target=f"/o{n}")) for n in range(3)]
    gone = store_relayed(store, relay)
    store.events.delete_one({"_id": gone.event})
    store.deliveries.update_one({"_id": made[0].id}, {"$set": {"words": ["kept"]}})

    await Words(store).look()

    found = {each["_id"]: each["words"] for each in store.deliveries.find()}
    assert found[made[0].id] == ["kept"]
    assert found[made[1].id] == [
        *("o1", "application", "json", "orders", "paid", "id", "4711", "name", "grün"),
    ]
    assert found[gone.id] == []


async def test_what_waits_is_done_in_batches_the_oldest_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words_module, "BATCH", 2)
    relay, now = store_relay(store), dt.datetime.now(dt.UTC).replace(microsecond=0)
    times = [now - dt.timedelta(seconds=seconds) for seconds in (1, 3, 2, 5, 4)]
    for at in times:
        store_relayed(store, relay, foreign(relay, received_at=at))

    assert words_module.write_some(store) == [times[3], times[4]]
    await Words(store).look()

    assert store.deliveries.count_documents({"words": None}) == 0


async def test_an_event_that_somebody_else_wrote_holds_nothing_up(store: Store) -> None:
    relay = store_relay(store)
    broken, good = store_relayed(store, relay), store_relayed(store, relay)
    store.events.update_one({"_id": broken.event}, {"$unset": {"request": ""}})

    await Words(store).look()

    found: dict[str, Any] = {each["_id"]: each["words"] for each in store.deliveries.find()}
    assert (found[broken.id], "4711" in found[good.id]) == ([], True)


async def test_a_request_that_comes_hours_late_is_counted_on_its_day(store: Store) -> None:
    relay, now = store_relay(store), dt.datetime.now(dt.UTC)
    keep_cursor(store.alerts, {"until": now})
    at = now - dt.timedelta(hours=5)
    store_relayed(store, relay, foreign(relay, received_at=at))

    for _ in "12":
        await Words(store).look()

    [(_, _, figures)] = days_of(store.statistics, [relay.id], [beginning(at, DAY)])
    assert figures["requests"] == 1


async def test_the_process_that_archives_writes_them_well_within_half_a_minute(
    config: Config, redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert words_module.PERIOD_SECONDS * 2 < 30
    monkeypatch.setattr(words_module, "PERIOD_SECONDS", 0.05)
    made, known = store_relayed(store, store_relay(store)), Subscriptions(store, 15.0)
    background = Background()

    start_looking_after(background, config, Asked(store, redis, known, lambda: True))
    async with asyncio.timeout(10):
        while not store.deliveries.count_documents({"_id": made.id, "words": "4711"}):  # noqa: ASYNC110 - only MongoDB knows
            await asyncio.sleep(0.02)

    await background.stop()
