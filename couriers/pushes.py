"""What couriers push: by what a push is known to be a courier's, and which numbers it speaks of.

Only what a courier's documentation shows is built; whatever else couriers push says nothing here
(`not_built`). The numbers are all that is read: what became of a parcel its courier is asked.

- FedEx, Advanced Integrated Visibility: `fdx-signature` is the base64 of HMAC-SHA256 over the body,
  by the webhook's security token ("Validation Process"); the body is that of a tracking answer
  (FedEx' file TestWebhookOutputVO), with several numbers.
  https://developer.fedex.com/api/en-us/catalog/shipment-visibility-webhook/docs.html
- USPS, Subscriptions - Tracking 3.2: `X-HMAC` is the base64 of HMAC-SHA256 over `timestamp` and
  `payload` of the body, one behind the other, by the subscription's secret; `payload` is a text of
  JSON. USPS' own text was not at hand: this is built as two users of it describe it.
  https://developers.usps.com/subscriptions-trackingv3r2, github.com/hookdeck/webhook-skills
- InPost, webhooks of the Group API: `x-inpost-signature` is the base64 of HMAC-SHA256 over the
  body, or over `x-inpost-timestamp`, a dot and the body, as was agreed with InPost.
  https://developers.inpost-group.com/webhook-signature-verification; its example is that of
  https://github.com/InPost/webhooks-java
- UPS, Track Alert: the header `credential` is what the subscription gave.
  https://github.com/UPS-API/api-documentation (UPSTrackAlert.yaml, `webhooks`; version 1)
- DHL, Shipment Tracking - Unified - Push: a header that the subscription names (its
  `hook.authentication`, of the type ApiKeyAuthentication); the body is that of a tracking answer,
  with several shipments, as users of it read it.
  https://developer.dhl.com/api-reference/shipment-tracking-unified-push
- Bring, Event Cast: a header that the webhook's configuration names; both the parcel's number and
  the shipment's. https://developer.bring.com/api/event-cast/
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field

from tracking.errors import MalformedJob
from tracking.request import Number, Slug, parse_number

NUMBERS_MOST = 100
"""Numbers of one push that count: more than any of these couriers is known to send."""

SECRET_HEADER = "x-push-secret"  # noqa: S105 - the name of a header
"""The header that holds the secret, where a customer may choose its name."""

NOT_BUILT = "not_built"
NO_SECRET = "no_secret"  # noqa: S105 - a reason
NOT_VERIFIED = "not_verified"
UNREADABLE = "unreadable"
NO_NUMBER = "no_number"

_T = TypeVar("_T")


class Push(NamedTuple):
    """A push as it came. Header names are in lower case; their values hold a byte a character."""

    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> bytes:
        """Give the bytes of a header, b"" where it is missing."""
        return self.headers.get(name, "").encode("latin-1", "replace")


class Judgement(NamedTuple):
    """What a push is worth: `why` it speaks of no number, "" where it does.

    ============ ===================================================================
    why          means
    ============ ===================================================================
    not_built    nothing shows by what this courier's pushes could be verified
    no_secret    its service has no secret by which to verify it
    not_verified its signature or secret is missing, or is another one
    unreadable   it is the courier's, and not in the form that is documented
    no_number    it is the courier's, and speaks of no parcel (a test, say)
    ============ ===================================================================
    """

    verified: bool
    why: str
    numbers: tuple[Number, ...] = ()


class PushFormat(NamedTuple):
    """A courier's pushes: whether it is from there, and the numbers; None: it cannot be read."""

    is_genuine: Callable[[Push, bytes], bool]
    numbers: Callable[[bytes], Iterable[str | None] | None]


def judge(courier: Slug, push: Push, secret: str) -> Judgement:
    """Verify a push by the secret, and read the numbers of which it speaks. Never raises."""
    known = PUSHES.get(courier)
    if known is None:
        return Judgement(verified=False, why=NOT_BUILT)
    if not secret:  # anybody can sign by none
        return Judgement(verified=False, why=NO_SECRET)
    if not known.is_genuine(push, secret.encode("utf-8", "replace")):
        return Judgement(verified=False, why=NOT_VERIFIED)
    given = known.numbers(push.body)
    if given is None:
        return Judgement(verified=True, why=UNREADABLE)
    numbers = tuple(islice(dict.fromkeys(_possible(given)), NUMBERS_MOST))
    return Judgement(verified=True, why="" if numbers else NO_NUMBER, numbers=numbers)


def _possible(given: Iterable[str | None]) -> Iterator[Number]:
    for text in given:
        with suppress(MalformedJob):
            yield parse_number(text or "")


def _in_header(name: str) -> Callable[[Push, bytes], bool]:
    """The secret itself stands in a header."""

    def is_genuine(push: Push, secret: bytes) -> bool:
        return hmac.compare_digest(push.header(name), secret)

    return is_genuine


def _signed(name: str, texts: Callable[[Push], Iterable[bytes]]) -> Callable[[Push, bytes], bool]:
    """A header holds the HMAC-SHA256 of one of these texts, in base64."""

    def is_genuine(push: Push, secret: bytes) -> bool:
        given = push.header(name)
        made = (base64.b64encode(hmac.digest(secret, text, "sha256")) for text in texts(push))
        return any(hmac.compare_digest(given, each) for each in made)

    return is_genuine


def _read(body: bytes | str, decoder: msgspec.json.Decoder[_T]) -> _T | None:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


class _Parcel(Struct):
    """What InPost and UPS push, FedEx' results, and the payload of USPS."""

    number: str | None = field(name="trackingNumber", default=None)


class _FedexOutput(Struct):
    results: list[_Parcel] = field(name="completeTrackResults")


class _Fedex(Struct):
    output: _FedexOutput


class _UspsEnvelope(Struct):
    timestamp: str
    payload: str


class _Shipment(Struct):
    id: str | None = None


class _Dhl(Struct):
    shipments: list[_Shipment] = []


class _Bring(Struct):
    package: str | None = None
    shipment: str | None = None


_parcel = msgspec.json.Decoder(_Parcel)
_fedex = msgspec.json.Decoder(_Fedex)
_envelope = msgspec.json.Decoder(_UspsEnvelope)
_dhl = msgspec.json.Decoder(_Dhl)
_bring = msgspec.json.Decoder(_Bring)


def _body(push: Push) -> list[bytes]:
    return [push.body]


def _inpost_texts(push: Push) -> list[bytes]:
    return [push.body, push.header("x-inpost-timestamp") + b"." + push.body]


def _usps_texts(push: Push) -> list[bytes]:
    read = _read(push.body, _envelope)
    return [(read.timestamp + read.payload).encode()] if read else []


def _one_number(body: bytes | str) -> list[str | None] | None:
    read = _read(body, _parcel)
    return [read.number] if read else None


def _fedex_numbers(body: bytes) -> list[str | None] | None:
    read = _read(body, _fedex)
    return [each.number for each in read.output.results] if read else None


def _usps_numbers(body: bytes) -> list[str | None] | None:
    read = _read(body, _envelope)
    return _one_number(read.payload) if read else None


def _dhl_numbers(body: bytes) -> list[str | None] | None:
    read = _read(body, _dhl)
    return [each.id for each in read.shipments] if read else None


def _bring_numbers(body: bytes) -> list[str | None] | None:
    read = _read(body, _bring)
    return [read.package, read.shipment] if read else None


_DHL = PushFormat(_in_header(SECRET_HEADER), _dhl_numbers)

PUSHES: Mapping[Slug, PushFormat] = MappingProxyType(
    {
        Slug("bring"): PushFormat(_in_header(SECRET_HEADER), _bring_numbers),
        Slug("dhl"): _DHL,
        Slug("dhl-germany"): _DHL,
        Slug("fedex"): PushFormat(_signed("fdx-signature", _body), _fedex_numbers),
        Slug("inpost-paczkomaty"): PushFormat(
            _signed("x-inpost-signature", _inpost_texts), _one_number
        ),
        Slug("ups"): PushFormat(_in_header("credential"), _one_number),
        Slug("usps"): PushFormat(_signed("x-hmac", _usps_texts), _usps_numbers),
    }
)
"""The couriers that push in a way that is documented."""
