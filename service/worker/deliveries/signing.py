"""Signatures of deliveries, in the two formats that receivers know.

Standard Webhooks (https://www.standardwebhooks.com, spec/standard-webhooks.md, version 1.0.0): the
signed text is `id.timestamp.body` over the exact bytes that are sent, HMAC-SHA256, in base64. The
header holds one signature for each secret that is live, so that a receiver may change its secret
while both are. `id` is that of the delivery and the same at each attempt; `timestamp` is the
attempt's. AfterShip signs the body alone (their documentation, "Webhook signature").
"""

from __future__ import annotations

import base64
import binascii
import functools
import hmac
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

from service.worker.deliveries.secret_box import SecretBox, Unreadable
from service.worker.deliveries.service import Format, Service

PREFIX = "whsec_"
SECRET_BYTES = 32
FEWEST_BYTES, MOST_BYTES = 24, 64
"""Bytes of a secret, by the standard."""

OPENED_MOST = 1_000
"""Secrets that a process keeps decrypted: it has the key to them in its memory anyway."""


class BadSecret(ValueError):
    """A text that is no secret of Standard Webhooks."""


def new_secret() -> str:
    """Make a secret as receivers' libraries take it."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """Read the key in a secret. Raises BadSecret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise BadSecret("write whsec_ and base64") from None
    if not secret.startswith(PREFIX) or not FEWEST_BYTES <= len(key) <= MOST_BYTES:
        raise BadSecret(f"write whsec_ and {FEWEST_BYTES} to {MOST_BYTES} bytes in base64")
    return key


def standard(live: Sequence[str], name: str, sent_at: int, body: bytes) -> Mapping[str, str]:
    """Sign an attempt by all `live` secrets, the newest first; `sent_at`: Unix seconds.

    Raises BadSecret. Without a secret nothing may be sent, so that is an error too.
    """
    if not live:
        raise BadSecret("a delivery without a secret would go unsigned")
    text = f"{name}.{sent_at}.".encode() + body
    signatures = (base64.b64encode(hmac.digest(key_of(each), text, "sha256")) for each in live)
    return {
        "webhook-id": name,
        "webhook-timestamp": str(sent_at),
        "webhook-signature": " ".join(f"v1,{each.decode()}" for each in signatures),
    }


def aftership(secret: str, body: bytes) -> Mapping[str, str]:
    """Sign a body as AfterShip does: by the text of the secret, in base64."""
    if not secret:
        raise BadSecret("a delivery without a secret would go unsigned")
    signature = base64.b64encode(hmac.digest(secret.encode(), body, "sha256")).decode()
    return {"aftership-hmac-sha256": signature}


class Signer:
    """Signs attempts by the secrets of their service, which the keys of this process open."""

    def __init__(self, box: SecretBox | None) -> None:
        """Take the box of `[webhooks] keys`; None where no key is set: then nothing is signed."""
        self._box = box
        self._opened = functools.lru_cache(OPENED_MOST)(self._open)

    def __call__(self, service: Service, name: str, at: datetime, body: bytes) -> Mapping[str, str]:
        """Write the headers that sign the attempt of `at`. Raises Unreadable: do not send it."""
        live = [self._opened(text, service.id) for text in service.live_secrets(at)]
        if service.format is Format.AFTERSHIP and live:
            return aftership(live[0], body)
        return standard(live, name, int(at.timestamp()), body)

    def _open(self, text: str, owner: str) -> str:
        if self._box is None:
            raise Unreadable(text.partition(":")[0])
        return self._box.opened(text, owner)
