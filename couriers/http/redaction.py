"""Taking secrets out of text that will be stored, logged or shown: the one place that knows how."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Iterable
from html import escape
from urllib.parse import quote, quote_plus

EXCERPT_BYTES = 1024
KEPT_BYTES = 64 * 1024
MASK = "***"

_SHORTEST_SECRET = 4
"""Shorter values would blank out ordinary words, and protect nothing."""

_APOSTROPHES = ("&#x27;", "&#39;", "&apos;")
"""As serialisers of XML write one."""

_TELLTALES = (
    r"(?P<userinfo>://[^/?#\s:@]*:)[^/?#\s]*(?=@)",
    r"(?P<header>\b(?:authorization|cookie|[a-z-]{0,30}api[-_]?key)['\"]?\s*[:=]\s*['\"]?)[^'\",;<>\n]+",
    r"(?P<scheme>\b(?:bearer|basic)\s+(?=\S*[\d=]))[A-Za-z0-9._~+/=-]{6,}",
    r"(?P<parameter>\b[a-z_-]{0,30}(?:key|token|secret|password|passwd|signature)=)[^&\s'\"<>]+",
    r"(?P<member>\b(?:access_token|client_secret|password)['\"]?\s*[:=]\s*['\"]?)[^\s\"'&,;<>]{4,}",
    r"(?P<webhook>\bwhsec_)\S+",
)
"""What looks like a secret although nobody knows it. What stands in the group is kept."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def redact(text: str, secrets: Iterable[str]) -> str:
    """Blank out every secret in each form it may be echoed in, and whatever looks like a token."""
    return _pattern(frozenset(secrets)).sub(_masked, text)


def excerpt(body: bytes, secrets: Iterable[str]) -> str:
    """Return the beginning of a body as clean text of at most 1 KiB, without secrets.

    Redacted before it is cut, because half a secret at the edge would no longer be recognised.
    """
    plain = _CONTROL.sub(" ", body.decode("utf-8", "replace"))
    return redact(plain, secrets).strip().encode()[:EXCERPT_BYTES].decode("utf-8", "ignore")


def without_secrets(body: bytes, secrets: Iterable[str]) -> bytes:
    """Return a whole body as it came, but for its secrets, cut to KEPT_BYTES."""
    # Every byte that is no UTF-8 comes back as it was: the body may have another encoding.
    plain = body.decode("utf-8", "surrogateescape")
    return redact(plain, secrets).encode("utf-8", "surrogateescape")[:KEPT_BYTES]


@functools.lru_cache(maxsize=64)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str]:
    # The longest first: one secret may begin like another.
    forms = sorted(_forms(secrets), key=len, reverse=True)
    return re.compile("|".join([*map(re.escape, forms), *_TELLTALES]), re.IGNORECASE)


def _forms(secrets: Iterable[str]) -> set[str]:
    forms: set[str] = set()
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            encoded = base64.b64encode(secret.encode()).decode()
            forms |= {secret, quote(secret, safe=""), quote_plus(secret), encoded}
            forms |= {json.dumps(secret)[1:-1], secret.replace("/", "\\/")}
            forms |= {escape(secret).replace("&#x27;", each) for each in _APOSTROPHES}
            forms |= {escape(secret, quote=False)}
    return forms


def _masked(found: re.Match[str]) -> str:
    return f"{found[found.lastgroup]}{MASK}" if found.lastgroup else MASK
