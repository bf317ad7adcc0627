"""A key that demands signatures opens nothing without."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
from email.utils import format_datetime
from pathlib import Path

import msgspec
import pytest
from aftership_answers import refusal_of
from aiohttp import ClientResponse
from aiohttp.test_utils import make_mocked_request
from door_ground import NOWHERE, Client, FixedKeys, refused, serving
from operations_ground import serving_all
from signing_ground import DATE, SECRET, signed_by

from service.api.callers import Callers
from service.api.exchange import Problem
from service.client.keys import Scope
from service.client.signatures import RsaKey


@pytest.fixture
def keys() -> FixedKeys:
    return FixedKeys()


def headers_for(
    key: str, method: str, target: str, body: bytes = b"", covered: str = ""
) -> dict[str, str]:
    """What an SDK sends with a request; `covered` is what it signs of `Idempotency-Key`."""
    date = format_datetime(dt.datetime.now(dt.UTC), usegmt=True)
    about = f"{hashlib.md5(body).hexdigest().upper()}\napplication/json" if body else "\n"  # noqa: S324 - as above
    text = f"{method}\n{about}\n{date}\nas-api-key:{key}\n{covered}{target}"
    signature = signed_by(SECRET, text)
    sent = {"as-api-key": key, "date": date, "as-signature-hmac-sha256": signature}
    return sent | ({"Content-Type": "application/json"} if body else {})


async def post(client: Client, body: bytes, headers: dict[str, str]) -> ClientResponse:
    return await client.post("/v1/requests", data=io.BytesIO(body), headers=headers)


async def test_a_key_that_demands_a_signature_takes_no_request_without(
    keys: FixedKeys, disk: Path
) -> None:
    key = keys.make("main", Scope.INGEST, signing=SECRET)
    plain = keys.make("main", Scope.INGEST)
    body = b'{"slug":"usps","number":"9405903699300184125060"}'
    other = body.replace(b"060", b"061")
    async with serving(disk / "spool", NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        json = {"Content-Type": "application/json"}
        unsigned = await post(client, body, json | {"as-api-key": key})
        assert "must be signed" in (await refused(unsigned, 401))["detail"]
        bearer = await post(client, body, json | {"Authorization": f"Bearer {key}"})
        await refused(bearer, 401)
        headers = headers_for(key, "POST", "/v1/requests", body)
        await refused(await post(client, other, headers), 401)

        assert (await post(client, body, headers)).status == 202
        assert (await post(client, body, headers)).status == 202  # an SDK repeats its request
        assert (await post(client, body, json | {"as-api-key": plain})).status == 202


async def test_a_signature_covers_the_idempotency_key(keys: FixedKeys, disk: Path) -> None:
    key = keys.make("main", Scope.INGEST, signing=SECRET)
    body = b'{"slug":"usps","number":"9405903699300184125060"}'
    covered = "idempotency-key:order-1\n"
    signed = headers_for(key, "POST", "/v1/requests", body, covered)
    async with serving(disk / "spool", NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        for wrong in ({"Idempotency-Key": "order-2"}, {}):  # replayed with another one, or none
            await refused(await post(client, body, signed | wrong), 401)
        taken = await post(client, body, signed | {"Idempotency-Key": " order-1"})

        assert (taken.status, (await taken.json())["id"]) == (202, "order-1")


async def test_an_idempotency_key_that_no_signature_covers_says_no_more_than_the_body(
    keys: FixedKeys, disk: Path
) -> None:
    key = keys.make("main", Scope.INGEST, signing=SECRET)
    anonymous = b'{"slug":"usps","number":"9405903699300184125060"}'
    named = b'{"slug":"usps","number":"9405903699300184125060","id":"order-1"}'
    given = {"Idempotency-Key": "order-1"}
    async with serving(disk / "spool", NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        headers = headers_for(key, "POST", "/v1/requests", anonymous)
        problem = await refused(await post(client, anonymous, headers | given), 401)
        assert "idempotency-key:order-1" in problem["detail"]

        headers = headers_for(key, "POST", "/v1/requests", named)
        assert (await post(client, named, headers | given)).status == 202
        assert (await client.get("/livez", headers=given)).status == 200


async def test_it_counts_nowhere_without(keys: FixedKeys, disk: Path) -> None:
    key = keys.make("main", Scope.READ, Scope.ADMIN, signing=SECRET)
    async with serving(disk / "spool", NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        unsigned = await client.get("/readyz", headers={"as-api-key": key})
        signed = await client.get("/readyz", headers=headers_for(key, "GET", "/readyz"))
        assert "tubes" not in await unsigned.json()
        assert "tubes" in await signed.json()
        operators = await client.get("/metrics", headers={"as-api-key": key})
        await refused(operators, 404)
        signed = await client.get("/metrics", headers=headers_for(key, "GET", "/metrics"))
        assert signed.status == 200


def test_a_key_that_was_made_while_a_request_came_does_not_count_unseen(keys: FixedKeys) -> None:
    key = keys.make("main", Scope.READ, signing=SECRET)
    request = make_mocked_request("GET", "/", headers={"as-api-key": key})

    with pytest.raises(Problem, match="send it again"):
        Callers(keys, 1_000.0).account(request, Scope.READ)


async def test_aftership_answers_in_its_envelope(
    keys: FixedKeys, disk: Path, settings: dict[str, str]
) -> None:
    key = keys.make("shop", Scope.READ, signing=SECRET)
    target = "/tracking/2026-07/couriers?slug=usps"
    callers = Callers(keys, 1_000.0)
    async with serving_all(disk / "spool", settings, callers=callers) as api:
        meta = await refusal_of(await api.get(target, headers={"as-api-key": key}), 401)
        assert (meta["code"], meta["type"]) == (401, "Unauthorized")
        wrong = headers_for(key, "GET", target) | {"date": DATE}
        assert "Date" in (await refusal_of(await api.get(target, headers=wrong), 401))["message"]

        assert (await api.get(target, headers=headers_for(key, "GET", target))).status == 200


async def test_nobody_without_the_whole_key_has_a_body_read(keys: FixedKeys, disk: Path) -> None:
    key = keys.make("main", Scope.INGEST, signing=SECRET)
    large = b" " * (2 << 20)
    async with serving(disk / "spool", NOWHERE, callers=Callers(keys, 1_000.0)) as client:
        json = {"Content-Type": "application/json"}
        await refused(await post(client, large, json | {"as-api-key": key[:-1] + "x"}), 401)
        await refused(await post(client, large, json | {"as-api-key": key}), 413)


def test_what_checks_signatures_survives_the_file_of_keys(keys: FixedKeys) -> None:
    keys.make("main", Scope.READ, signing=SECRET)
    keys.make("main", Scope.READ, signing=RsaKey("-----BEGIN PUBLIC KEY-----"))

    assert msgspec.json.decode(msgspec.json.encode(keys.keys), type=type(keys.keys)) == keys.keys
