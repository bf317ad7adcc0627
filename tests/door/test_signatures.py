"""Signatures of requests: how they are made and checked, and what is refused without."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import io
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aftership_ground import refusal_of
from aiohttp import ClientResponse
from aiohttp.test_utils import make_mocked_request
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from door_ground import DATE, NOWHERE, SECRET, Client, FixedKeys, refused, serving, signed_by
from hypothesis import given
from hypothesis import strategies as st
from operations_ground import serving_all

from service.http.callers import Callers
from service.http.exchange import Problem
from service.operator.keys import Scope
from service.operator.signatures import (
    DATE_SECONDS,
    HmacSecret,
    NoPublicKey,
    RsaKey,
    Sent,
    flaw,
    make_secret,
    read_public_key,
)

NOW = dt.datetime(1994, 11, 6, 8, 49, 37, tzinfo=dt.UTC)


PAIR = rsa.generate_private_key(65537, 2048)


PATH = "/tracking/2026-07/trackings"


SHORT = b"""\
-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDFDC4reKUl2kadkJOOfR0XrMno
ZS2wXL5mG2OFb3AOker0WBgv3aAGm907klMGYmH5xDQSmcKA1tSbWUl9nO86jbJz
oiVr+P/ljITKLkKAxJDKmReVGusrUQPV/H2VPUkQt5LeE6egEFyAFTLVB5qMSU9p
6RBz9eTL3G8BLKftvQIDAQAB
-----END PUBLIC KEY-----
"""


def signed_by_pair(text: str, salt: int) -> str:
    how = padding.PSS(padding.MGF1(SHA256()), salt)
    return base64.b64encode(PAIR.sign(text.encode(), how, SHA256())).decode()


def pem_of(pair: Any) -> bytes:
    made: bytes = pair.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return made


def flaw_of(
    text: str, method: str = "GET", target: str = PATH, body: bytes = b"", **headers: str
) -> str:
    """What is wrong with a request whose signature is that of a text."""
    sent = {"as-api-key": "tk_1", "Date": DATE, "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    sent.setdefault("as-signature-hmac-sha256", signed_by(SECRET, text))
    return flaw(SECRET, Sent(method, target, sent.items(), body), NOW)


def test_a_request_without_a_body_signs_neither_a_digest_nor_a_type() -> None:
    assert flaw_of(f"GET\n\n\n{DATE}\nas-api-key:tk_1\n{PATH}") == ""


def test_a_body_is_signed_by_its_md5_and_its_type() -> None:
    body = b'{"tracking_number":"1"}'
    digest = hashlib.md5(body).hexdigest().upper()  # noqa: S324 - AfterShip's choice
    text = f"POST\n{digest}\napplication/json\n{DATE}\nas-api-key:tk_1\n{PATH}"

    assert flaw_of(text, "POST", body=body) == ""
    assert "is not the signature" in flaw_of(text, "POST", body=body + b" ")
    assert "is not the signature" in flaw_of(text, "PUT", body=body)
    assert "is not the signature" in flaw_of(text, "POST", f"{PATH}/1", body)
    assert "is not" in flaw_of(text, "POST", body=body, Content_Type="application/x-ndjson")


def test_all_headers_of_aftership_are_signed_in_the_order_of_their_names() -> None:
    named = "as-a:2\nas-a-b:This Is\nas-api-key:tk_1"
    text = f"GET\n\n\n{DATE}\n{named}\n{PATH}"

    assert flaw_of(text, AS_A_B="  This Is ", as_a="2") == ""
    assert "is not the signature" in flaw_of(text, as_a="2")


def test_a_key_that_comes_as_a_bearer_leaves_that_line_empty() -> None:
    sent = {"date": DATE, "as-signature-hmac-sha256": signed_by(SECRET, f"GET\n\n\n{DATE}\n\n/x")}

    assert flaw(SECRET, Sent("GET", "/x", sent.items(), b""), NOW) == ""


@pytest.mark.parametrize(
    ("signed", "asked"),
    [
        ("keyword=order%207&limit=10", "limit=10&keyword=order%207"),  # as documented
        ("keyword=order+7&limit=10", "limit=10&keyword=order%207"),  # Python 10, Go
        ("limit=10&keyword=order%207", "limit=10&keyword=order%207"),  # Python 8 and 9
        ("cursor=&at=1%3A2", "cursor=&at=1%3A2"),
        ("at=1%3A2&cursor=", "cursor=&at=1:2"),
    ],
)
def test_a_query_is_signed_in_any_of_the_ways_of_the_sdks(signed: str, asked: str) -> None:
    text = f"GET\n\n\n{DATE}\nas-api-key:tk_1\n{PATH}?{signed}"

    assert flaw_of(text, target=f"{PATH}?{asked}") == ""


@pytest.mark.parametrize("asked", ["limit=1&limit=2", "limit=2", "limit=1&fields=id", ""])
def test_another_query_than_the_signed_one_is_refused(asked: str) -> None:
    text = f"GET\n\n\n{DATE}\nas-api-key:tk_1\n{PATH}?limit=1"

    assert "is not the signature" in flaw_of(text, target=f"{PATH}?{asked}")


@pytest.mark.parametrize(
    "date", ["", "soon", "1994-11-06", f"Sun, 06 Nov {'9' * 30} 08:49:37 GMT", "6 Nov 0 0:0 GMT"]
)
def test_a_date_that_is_none_is_refused(date: str) -> None:
    assert f"{DATE_SECONDS:g} s of now, which is {DATE}" in flaw_of("", Date=date)


@pytest.mark.parametrize("away", [-1, 1])
def test_a_signature_is_good_for_three_minutes_around_its_date(away: int) -> None:
    late, too_late = (
        format_datetime(NOW + away * dt.timedelta(seconds=DATE_SECONDS + more), usegmt=True)
        for more in (0, 1)
    )

    text = f"GET\n\n\n{late}\nas-api-key:tk_1\n{PATH}"
    assert flaw_of(text, Date=late) == ""
    assert "Date must be within" in flaw_of(text.replace(late, too_late), Date=too_late)
    assert "is not the signature" in flaw_of(text, Date=DATE)


@pytest.mark.parametrize(
    ("signature", "says"),
    [
        ("", "must be signed"),
        ("é", "in Base64"),
        ("=", "in Base64"),
        ("AAAA", "is not the signature"),
        (signed_by(HmacSecret("another"), f"GET\n\n\n{DATE}\nas-api-key:tk_1\n{PATH}"), "is not"),
    ],
)
def test_what_is_no_signature_is_named(signature: str, says: str) -> None:
    assert says in flaw_of("", as_signature_hmac_sha256=signature)


@pytest.mark.parametrize("salt", [32, 0, padding.PSS.MAX_LENGTH])
def test_an_rsa_signature_is_checked_with_the_public_key_whatever_its_salt(salt: int) -> None:
    text = f"GET\n\n\n{DATE}\nas-api-key:tk_1\n{PATH}"
    sent = {"as-api-key": "tk_1", "date": DATE}
    sent["as-signature-rsa-sha256"] = signed_by_pair(text, salt)
    key = read_public_key(pem_of(PAIR))

    assert flaw(key, Sent("GET", PATH, sent.items(), b""), NOW) == ""
    assert "is not the signature" in flaw(key, Sent("GET", "/", sent.items(), b""), NOW)
    assert "as-signature-hmac-sha256" in flaw(SECRET, Sent("GET", PATH, sent.items(), b""), NOW)


AS_IT_CAME = st.binary().map(lambda sent: sent.decode("utf-8", "surrogateescape"))


@given(AS_IT_CAME, st.dictionaries(AS_IT_CAME, AS_IT_CAME), st.binary(), AS_IT_CAME)
def test_nothing_that_is_sent_breaks_the_check(
    target: str, headers: dict[str, str], body: bytes, signature: str
) -> None:
    sent = {"date": DATE, **headers, "as-signature-hmac-sha256": signature}

    assert flaw(SECRET, Sent("GET", target, sent.items(), body), NOW)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "no public key"),
        (b"\xff", "no public key"),
        (pem_of(ec.generate_private_key(ec.SECP256R1())), "no RSA key"),
        (SHORT, "2,048 bits"),
        (
            PAIR.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            "stays where it signs",
        ),
    ],
)
def test_what_is_no_rsa_public_key_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(NoPublicKey, match=says):
        read_public_key(text)


def test_a_secret_has_192_random_bits_and_is_shown_in_no_text() -> None:
    made = make_secret()

    assert len({make_secret().secret for _ in range(100)}) == 100
    assert (len(made.secret), made.secret[:3]) == (51, "ts_")
    assert made.secret not in f"{made!r} {made}"


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
