"""Foreign requests, drawn: what other systems send to a relay, the same for the same seed.

Of twenty, thirteen are signed as one of `devstack.senders` does it, over JSON, over a form, and
over texts that are not ASCII; others have binary bodies, none at all, odd methods. One in a hundred
has a body of 1 MiB, and two of 100 KiB. Each has a target of its own choice, percent-encoded or
raw, and every second one headers as only few senders write them. Each has its number in the header
`X-Number`.

`wrong_arrivals` judges what arrived behind the relay: byte for byte, by a hash, each once or more,
and by the receiver's check of its sender's signature.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlencode

from devstack.senders import VERIFIES, Message, github, shopify, stripe, twilio

MEBIBYTE = 1 << 20
SECRET = b"a secret that a sender and a receiver share"
NUMBER = "X-Number"

_SIZES = {33: 100 << 10, 66: 100 << 10, 99: MEBIBYTE}
"""Bytes of the bodies of some in each hundred."""

_KINDS = (
    *("github",) * 4,
    *("shopify",) * 3,
    *("stripe",) * 3,
    *("twilio",) * 3,
    *("binary",) * 3,
    *("empty",) * 2,
    *("odd_method",) * 2,
)
_ADDED = frozenset(
    {
        *("host", "content-length", "cdn-loop", "relay-id", "relay-attempt", "relay-received-at"),
        *("relay-original-url", "relay-timestamp", "relay-signature"),
    }
)
_METHODS = (
    "GET",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "HEAD",
    "REPORT",
    "M-SEARCH",
    "FOO",
    "purge",
)
_TARGETS = (
    "/",
    "/?",
    "/orders/create",
    "/a%2Fb?x=%C3%A9",
    "/caf%C3%A9/%e2%82%ac?Q=%c3%bc",
    "/caf\xc3\xa9/\xe2\x82\xac?q=\xc3\xbc&n=\xe9",  # UTF-8, then one byte of Latin-1
    "//a///b//?a=1&&a=2&=&b",
    "/a;v=1,2:3@4/*'(!)~$?a?b/c=:@",
    "/zz%zz?%&100%",
    "/+%20+?a+b=%2B+%2b",
    "/[1]?x=[1]&y={2}|3",
    "/" + "long/" * 400 + "?" + "q=1&" * 200,
)
_ODD_HEADERS = (
    ("X-Repeated", "first"),
    ("x-repeated", "second, and third"),
    ("X-REPEATED", "first"),
    ("x-WeIRd-CaSE", "As It Is"),
    ("X-Latin", "caf\xe9 \xa3 \xff"),
    ("X-Utf-8", "\xc3\xa9\xe2\x82\xac"),
    ("X-Empty", ""),
    ("X-Empty", ""),
    ("Content-Type", "text/of-the-second"),
    ("User-Agent", "of the second"),
    ("X-Quoted", "\"a, b\"; c='d'\t\te  f"),
    ("X_Under_Score", "1"),
    ("!#$%&'*+-.^_`|~9", "every sign that a name may have"),
    ("X-Long", "0123456789abcdef" * 480),
    ("X-Encoded", "%0d%0aX-Injected: =?utf-8?q?=C3=A9?="),
    ("Cookie", 'a=1; b="2"'),
    ("cookie", "c=3"),
    ("Authorization", "Bearer of.the-sender"),
    ("Referer", ""),
    ("Accept", "text/html, */*;q=0.1"),
    ("Accept-Encoding", "gzip, br"),
    ("Content-Encoding", "identity"),
    ("X-Forwarded-For", "192.0.2.1"),
    ("Via", "1.1 elsewhere"),
    ("webhook-id", "of another Standard Webhooks sender"),
    ("webhook-signature", "v1,AAAA"),
    ("Date", "Thu, 26 Nov 2026 10:00:00 GMT"),
)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A request that a system sends. `system`: one of `devstack.senders`, or its kind."""

    system: str
    number: int
    message: Message


def foreign_requests(seed: int, count: int, address: str, now: int) -> Iterator[Foreign]:
    """Draw requests to an address, which ends before the target; `now`: the senders' clock."""
    draw = random.Random(seed)
    for number in range(count):
        kind = "big" if number % 100 in _SIZES else _KINDS[number % len(_KINDS)]
        target = draw.choice(_TARGETS)
        yield Foreign(kind, number, _message(draw, kind, number, (address + target, target, now)))


def as_sent(arrived: Message) -> Message:
    """Leave out of what arrived what belongs to the connection, and what the relay added."""
    kept = (each for each in arrived.headers if each[0].lower() not in _ADDED)
    return Message(arrived.method, arrived.target, tuple(kept), arrived.body)


def wrong_arrival(request: Foreign, arrived: Message, now: int) -> str:
    """Say what is wrong with a request that arrived, "" where it is right; `now`: its clock."""
    if _digest(kept := as_sent(arrived)) != _digest(request.message):
        own = asdict(request.message)
        changed = [name for name, value in asdict(kept).items() if value != own[name]]
        return f"{request.system} {request.number} arrived with another {', '.join(changed)}"
    verifies = VERIFIES.get(request.system)
    if verifies and not verifies(SECRET, arrived, now):
        return f"{request.system} {request.number} has a signature that is not right"
    return ""


def wrong_arrivals(sent: Sequence[Foreign], arrived: Iterable[Message], now: int) -> Iterator[str]:
    """Say what did not arrive, or not as it was sent; `now`: the receivers' clock."""
    requests = {each.number: each for each in sent}
    times = Counter[int]()
    for each in arrived:
        number = int(each.value(NUMBER) or -1)
        times[number] += 1
        if (request := requests.get(number)) is None:
            yield f"nobody sent {each.method} {each.target[:80]}"
        elif said := wrong_arrival(request, each, now):
            yield said
    yield from (
        f"{each.system} {each.number} did not arrive" for each in sent if not times[each.number]
    )


def _digest(message: Message) -> bytes:
    head = json.dumps([message.method, message.target, message.headers]).encode()
    return hashlib.sha256(head + b"\n" + message.body).digest()


def _message(draw: random.Random, kind: str, number: int, sent: tuple[str, str, int]) -> Message:
    url, target, now = sent
    method, body, signed = _WRITES[kind](draw, url, now)
    body += draw.randbytes(_SIZES[number % 100]) if kind == "big" else b""
    headers = [(NUMBER, str(number)), *signed.items()]
    if number % 2:
        # Anywhere between the others, also what HTTP has once.
        for each in draw.sample(_ODD_HEADERS, draw.randint(1, len(_ODD_HEADERS))):
            headers.insert(draw.randint(0, len(headers)), each)
    return Message(method, target, tuple(headers), body)


_Written = tuple[str, bytes, Mapping[str, str]]


def _github(draw: random.Random, _: str, __: int) -> _Written:
    body = _json(draw, indent=draw.choice([None, 1]))
    headers = {
        "User-Agent": "GitHub-Hookshot/044aadd",
        "Accept": "*/*",
        "X-GitHub-Delivery": f"{draw.getrandbits(128):032x}",
        "X-GitHub-Event": "push",
        "X-Hub-Signature-256": github(SECRET, body),
        "content-type": "application/json",
    }
    return "POST", body, headers


def _shopify(draw: random.Random, _: str, __: int) -> _Written:
    body = _json(draw)
    headers = {
        "X-Shopify-Topic": "orders/create",
        "X-Shopify-Shop-Domain": "shop.myshopify.example",
        "X-Shopify-Hmac-Sha256": shopify(SECRET, body),
        "Content-Type": "application/json",
    }
    return "POST", body, headers


def _stripe(draw: random.Random, _: str, now: int) -> _Written:
    body = _json(draw, indent=2)
    old = stripe(b"the secret before", body, now).partition(",")[2]
    test = "v0=6ffbb59b2300aae63f272406069a9788"
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Stripe-Signature": f"{stripe(SECRET, body, now)},{old},{test}",
        "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
    }
    return "POST", body, headers


def _twilio(draw: random.Random, url: str, _: int) -> _Written:
    form = [("CallSid", f"CA{draw.getrandbits(128):032x}"), ("Digits", "5678"), ("Digits", "1234")]
    form += [("Body", "h\xe4 & +\u20ac"), ("Empty", ""), ("From", "+14158675309")]
    draw.shuffle(form)
    body = urlencode(form).encode()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded; charset=UTF-8",
        "I-Twilio-Idempotency-Token": f"{draw.getrandbits(128):032x}",
        "X-Twilio-Signature": twilio(SECRET, url, body),
    }
    return "POST", body, headers


def _binary(draw: random.Random, _: str, __: int) -> _Written:
    body = draw.randbytes(draw.randint(1, 5_000)) + b"\r\n\r\n\x00\n"
    return "POST", body, {"Content-Type": "application/octet-stream"}


def _big(_: random.Random, __: str, ___: int) -> _Written:
    return "POST", b"", {"content-TYPE": "application/zip"}


def _empty(draw: random.Random, _: str, __: int) -> _Written:
    return draw.choice(["POST", "GET"]), b"", {}


def _odd_method(draw: random.Random, _: str, __: int) -> _Written:
    method = draw.choice(_METHODS)
    body = b"" if method == "HEAD" else draw.choice([b"", b"<a/>", b"0\r\n\r\n"])
    return method, body, {"Content-Type": "text/xml"}


_WRITES: Mapping[str, Callable[[random.Random, str, int], _Written]] = {
    "github": _github,
    "shopify": _shopify,
    "stripe": _stripe,
    "twilio": _twilio,
    "binary": _binary,
    "big": _big,
    "empty": _empty,
    "odd_method": _odd_method,
}


def _json(draw: random.Random, indent: int | None = None) -> bytes:
    said = {
        "id": draw.getrandbits(53),
        "title": draw.choice(["plain", "B\xfccher \u20ac", "\U0001f4e6", "a\\u0062\n"]),
        "lines": [draw.random() for _ in range(draw.randint(0, 40))],
    }
    return json.dumps(said, indent=indent, ensure_ascii=draw.random() < 0.5).encode()  # noqa: PLR2004
