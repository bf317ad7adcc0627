"""What is signed, and with what that is checked."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from email.utils import format_datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st
from signing_ground import DATE, SECRET, signed_by

from service.client.signatures import (
    DATE_SECONDS,
    HmacSecret,
    NoPublicKey,
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
