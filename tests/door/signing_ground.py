"""A secret to sign with, and how that is done."""

from __future__ import annotations

import base64
import hashlib
import hmac

from service.client.signatures import HmacSecret

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
SECRET = HmacSecret("ts_secret")


def signed_by(secret: HmacSecret, text: str) -> str:
    digest = hmac.new(secret.secret.encode(), text.encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
