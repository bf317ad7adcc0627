"""Signatures of requests, as AfterShip documents them and its SDKs make them. Pure.

The text that is signed has a line each:

======== =========================================================================================
method   GET, POST …
body     its MD5 in upper-case hexadecimal digits, empty without a body
type     the header Content-Type, empty without a body
date     the header Date
headers  a line `name:value` for each `as-…` but signatures, by names, which are in lower case
         and for `idempotency-key`, of which AfterShip knows nothing: without it a text is good
         where that says nothing of its own (`covers`)
resource the path, and the query by its names
======== =========================================================================================

It is signed with HMAC-SHA256, or RSASSA-PSS and SHA-256, and sent in Base64. What somebody recorded
is good again for DATE_SECONDS: SDKs repeat a request as it was, so a second one is not refused.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

IDEMPOTENCY_KEY = "idempotency-key"

DATE_SECONDS = 180.0
"""How far the header Date may be from now, as AfterShip documents it."""

BITS_LEAST = 2_048

_PSS = padding.PSS(padding.MGF1(SHA256()), padding.PSS.AUTO)
"""SDKs salt with 32 bytes, that of Go with as many as there is room for."""


class NoPublicKey(Exception):
    """A text holds no RSA public key that will do; says why."""


class HmacSecret(msgspec.Struct, frozen=True, tag_field="kind", tag="hmac"):
    """The secret that makes and checks signatures: who checks them could make them."""

    secret: str

    def __repr__(self) -> str:
        """Keep it out of logs."""
        return "HmacSecret(…)"


class RsaKey(msgspec.Struct, frozen=True, tag_field="kind", tag="rsa"):
    """The public key that checks signatures, as PEM; the private key stays with its owner."""

    public_key: str


Signing = HmacSecret | RsaKey


class Sent(NamedTuple):
    """A request as it came: `target` is its path with the query, `headers` may repeat a name."""

    method: str
    target: str
    headers: Iterable[tuple[str, str]]
    body: bytes


def make_secret() -> HmacSecret:
    """Make a secret of 192 random bits."""
    return HmacSecret(f"ts_{secrets.token_hex(24)}")


def read_public_key(text: bytes) -> RsaKey:
    """Read what `openssl rsa -pubout` writes. Raises NoPublicKey."""
    if b"PRIVATE KEY" in text:
        raise NoPublicKey("it holds a private key: that stays where it signs")
    try:
        read = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise NoPublicKey("it holds no public key in PEM") from error
    if not isinstance(read, RSAPublicKey) or read.key_size < BITS_LEAST:
        raise NoPublicKey(f"it holds no RSA key of {BITS_LEAST:,} bits or more")
    pem = read.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return RsaKey(pem.decode())


def kind_of(signing: Signing | None) -> str | None:
    """Name how requests are signed: `hmac`, `rsa`, or not at all."""
    return None if signing is None else str(signing.__struct_config__.tag)


def flaw(signing: Signing, sent: Sent, now: dt.datetime) -> str:
    """Say what is wrong with the signature of a request, and what to send; "" if nothing is."""
    headers = _by_name(sent)
    name = _header_of(signing)
    signature, date = headers.get(name, ""), headers.get("date", "")
    if not signature:
        return f"requests with this key must be signed: send the headers {name} and Date"
    if not _is_near(date, now):
        clock = format_datetime(now, usegmt=True)
        return f"the header Date must be within {DATE_SECONDS:g} s of now, which is {clock}"
    try:
        given = base64.b64decode(signature, validate=True)
    except ValueError:
        return f"{name} must be written in Base64"
    if _signs(signing, given, sent, headers) or _signs(signing, given, sent, _bare(headers)):
        return ""
    return f"{name} is not the signature of this request: docs/http.md says what is signed"


def covers(signing: Signing, sent: Sent) -> bool:
    """Whether a signature without a flaw covers `Idempotency-Key` too."""
    headers = _by_name(sent)
    given = base64.b64decode(headers[_header_of(signing)])
    return IDEMPOTENCY_KEY in headers and _signs(signing, given, sent, headers)


def signed_texts(sent: Sent, headers: Mapping[str, str]) -> list[str]:
    """Write what may have been signed: SDKs write one and the same query in several ways."""
    digest = hashlib.md5(sent.body, usedforsecurity=False).hexdigest().upper()
    about_body = (digest, headers.get("content-type", "")) if sent.body else ("", "")
    named = "\n".join(
        f"{name}:{value}"
        for name, value in sorted(headers.items())
        if name == IDEMPOTENCY_KEY
        or (name.startswith("as-") and not name.startswith("as-signature-"))
    )
    head = "\n".join([sent.method, *about_body, headers.get("date", ""), named, ""])
    path, _, query = sent.target.partition("?")
    if not query:
        return [head + path]
    by_name = sorted(query.split("&"), key=lambda each: each.partition("=")[0])
    read = sorted(parse_qsl(query, keep_blank_values=True), key=itemgetter(0))
    written = urlencode(read, errors="surrogateescape")
    # As it came, as AfterShip documents it, and as its SDKs of Python and Go write it.
    forms = dict.fromkeys((query, "&".join(by_name), written))
    return [f"{head}{path}?{each}" for each in forms]


def _header_of(signing: Signing) -> str:
    return f"as-signature-{kind_of(signing)}-sha256"


def _by_name(sent: Sent) -> dict[str, str]:
    """Name headers in lower case; of one that is there twice the first counts, as for all."""
    return {name.lower(): value.strip() for name, value in reversed([*sent.headers])}


def _bare(headers: Mapping[str, str]) -> dict[str, str]:
    """Leave out what AfterShip does not sign."""
    return {name: value for name, value in headers.items() if name != IDEMPOTENCY_KEY}


def _signs(signing: Signing, given: bytes, sent: Sent, headers: Mapping[str, str]) -> bool:
    texts = [each.encode("utf-8", "surrogateescape") for each in signed_texts(sent, headers)]
    return any(_is_made_by(signing, given, text) for text in texts)


def _is_made_by(signing: Signing, given: bytes, text: bytes) -> bool:
    if isinstance(signing, HmacSecret):
        return hmac.compare_digest(given, hmac.digest(signing.secret.encode(), text, "sha256"))
    try:
        _public_key(signing).verify(given, text, _PSS, SHA256())
    except InvalidSignature:
        return False
    return True


@lru_cache(256)  # a request may be compared with several texts, and its key sends more of them
def _public_key(signing: RsaKey) -> RSAPublicKey:
    key = load_pem_public_key(signing.public_key.encode())
    assert isinstance(key, RSAPublicKey)  # noqa: S101 - no other was kept
    return key


def _is_near(date: str, now: dt.datetime) -> bool:
    try:
        at = parsedate_to_datetime(date)
        return abs((at.replace(tzinfo=at.tzinfo or dt.UTC) - now).total_seconds()) <= DATE_SECONDS
    except (ValueError, OverflowError):
        return False
