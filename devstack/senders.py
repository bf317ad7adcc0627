"""Systems that send webhooks: how each signs a request, and how a receiver verifies that.

Written from their documentation, as a receiver would have it:

======= ============================================ ===========================================
system  signs                                        documentation
======= ============================================ ===========================================
GitHub  the body: HMAC-SHA256 in hexadecimal digits, docs.github.com, "Validating webhook
        behind `sha256=`                             deliveries"
Shopify the body: HMAC-SHA256 in Base64              shopify.dev, "Verify the webhook"
Stripe  `t.body`: HMAC-SHA256 in hexadecimal digits; docs.stripe.com, "Webhook signatures"
        its libraries refuse a `t` of over 300 s
Twilio  the address as it asked for it, then names   twilio.com, "Webhooks security"
        and values of the form sorted by name:
        HMAC-SHA1 in Base64
======= ============================================ ===========================================
"""

from __future__ import annotations

import base64
import hmac
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

TOLERANCE_SECONDS = 300
"""By so much the time in a signature of Stripe may differ from the receiver's clock."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request on its way. Texts hold a byte in each character (Latin-1)."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def value(self, name: str) -> str:
        """Find the first value of a header, "" for none; upper and lower case are the same."""
        wanted = name.lower()
        return next((value for each, value in self.headers if each.lower() == wanted), "")


def github(secret: bytes, body: bytes) -> str:
    """Sign a body as GitHub does, for X-Hub-Signature-256."""
    return f"sha256={hmac.digest(secret, body, 'sha256').hex()}"


def shopify(secret: bytes, body: bytes) -> str:
    """Sign a body as Shopify does, for X-Shopify-Hmac-Sha256."""
    return base64.b64encode(hmac.digest(secret, body, "sha256")).decode()


def stripe(secret: bytes, body: bytes, at: int) -> str:
    """Sign a body at an instant, in seconds of Unix, as Stripe does, for Stripe-Signature."""
    return f"t={at},v1={_stripe_digest(secret, body, str(at))}"


def twilio(secret: bytes, url: str, form: bytes) -> str:
    """Sign a form that is sent to an address as Twilio does, for X-Twilio-Signature.

    A value that is there twice under one name is signed once.
    """
    pairs = set(parse_qsl(form.decode(), keep_blank_values=True))
    text = url.encode("latin-1") + "".join(itertools.chain(*sorted(pairs))).encode()
    return base64.b64encode(hmac.digest(secret, text, "sha1")).decode()


def _stripe_digest(secret: bytes, body: bytes, at: str) -> str:
    return hmac.digest(secret, f"{at}.".encode() + body, "sha256").hex()


def _is_github(secret: bytes, arrived: Message, _: int) -> bool:
    given = arrived.value("X-Hub-Signature-256")
    return hmac.compare_digest(given, github(secret, arrived.body))


def _is_shopify(secret: bytes, arrived: Message, _: int) -> bool:
    given = arrived.value("X-Shopify-Hmac-Sha256")
    return hmac.compare_digest(given, shopify(secret, arrived.body))


def _is_stripe(secret: bytes, arrived: Message, now: int) -> bool:
    parts = [each.partition("=") for each in arrived.value("Stripe-Signature").split(",")]
    at = next((value for name, _, value in parts if name == "t"), "")
    if not at.isdecimal() or abs(now - int(at)) > TOLERANCE_SECONDS:
        return False
    expected = _stripe_digest(secret, arrived.body, at)
    given = [value for name, _, value in parts if name == "v1"]
    return any(hmac.compare_digest(expected, each) for each in given)


def _is_twilio(secret: bytes, arrived: Message, _: int) -> bool:
    """Verify with the address that the relay names: at the receiver the address is another."""
    expected = twilio(secret, arrived.value("relay-original-url"), arrived.body)
    return hmac.compare_digest(arrived.value("X-Twilio-Signature"), expected)


VERIFIES: Mapping[str, Callable[[bytes, Message, int], bool]] = {
    "github": _is_github,
    "shopify": _is_shopify,
    "stripe": _is_stripe,
    "twilio": _is_twilio,
}
"""By system: whether it sent a request, by the secret, what arrived, and the receiver's clock."""
