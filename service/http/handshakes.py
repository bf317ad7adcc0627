"""Handshakes: what senders ask before they send, answered by the door where a service says so.

========= ============================================= ===========================================
sender    asks                                          is answered
========= ============================================= ===========================================
meta      GET, `hub.mode=subscribe`, `hub.challenge`,   the challenge
          `hub.verify_token`
slack     POST of JSON, `type` `url_verification`,      the `challenge`
          `challenge`, `token`
graph     POST, `validationToken` in the query          the token
okta      GET, header X-Okta-Verification-Challenge;    {"verification": the header's value}
          Authorization is the token
========= ============================================= ===========================================

What is answered is a stranger's text, so it is given back only where it has the form that such a
sender's has; all else is a request like others. With another token than the service's it is 403.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from service.http.exchange import Problem
from service.worker.deliveries.foreign_request import ForeignRequest
from service.worker.deliveries.service import Handshake, Ingest

_PLAIN = re.compile(r"[A-Za-z0-9._~+/=-]{1,256}")
_WORDS = re.compile(r"[A-Za-z0-9._~+/=:, -]{1,512}")
"""Microsoft's are sentences, with the id of their request."""

_ASKED_MOST = 4_096
"""Bytes of a body that may ask."""

_QUERY_MOST = 32
"""Members of a query that may ask."""


class Asked(NamedTuple):
    """A handshake: the text to give back, and the token that came with it, None where none does."""

    text: str
    token: str | None = None


def answer_of(ingest: Ingest, request: ForeignRequest) -> bytes | None:
    """Write the answer to a handshake, None for all other requests. Raises Problem."""
    if ingest.handshake is Handshake.NONE:
        return None
    asked = _READERS[ingest.handshake](request)
    if asked is None:
        return None
    if asked.token is not None and ingest.token_sha256:
        digest = hashlib.sha256(asked.token.encode("latin-1", "replace")).hexdigest()
        if not hmac.compare_digest(digest, ingest.token_sha256):
            raise Problem(HTTPStatus.FORBIDDEN, "this is not the token that the service expects")
    if ingest.handshake is Handshake.OKTA:
        return msgspec.json.encode({"verification": asked.text})
    return asked.text.encode()


def _meta(request: ForeignRequest) -> Asked | None:
    query = _query(request)
    challenge = query.get("hub.challenge", "")
    if request.method != "GET" or query.get("hub.mode") != "subscribe":
        return None
    return Asked(challenge, query.get("hub.verify_token", "")) if _is(_PLAIN, challenge) else None


def _slack(request: ForeignRequest) -> Asked | None:
    if request.method != "POST" or b"url_verification" not in request.body[:_ASKED_MOST]:
        return None
    try:
        read: Any = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(read, dict) or read.get("type") != "url_verification":
        return None
    challenge, token = read.get("challenge"), read.get("token")
    if not isinstance(challenge, str) or not _is(_PLAIN, challenge):
        return None
    return Asked(challenge, token if isinstance(token, str) else "")


def _graph(request: ForeignRequest) -> Asked | None:
    token = _query(request).get("validationToken", "")
    return Asked(token) if request.method == "POST" and _is(_WORDS, token) else None


def _okta(request: ForeignRequest) -> Asked | None:
    challenge = "".join(request.values("X-Okta-Verification-Challenge"))
    if request.method != "GET" or not _is(_PLAIN, challenge):
        return None
    return Asked(challenge, "".join(request.values("Authorization")))


def _query(request: ForeignRequest) -> Mapping[str, str]:
    _, _, text = request.target.partition("?")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_QUERY_MOST))
    except ValueError:
        return {}


def _is(form: re.Pattern[str], text: str) -> bool:
    return form.fullmatch(text) is not None


_READERS: Mapping[Handshake, Callable[[ForeignRequest], Asked | None]] = {
    Handshake.META: _meta,
    Handshake.SLACK: _slack,
    Handshake.GRAPH: _graph,
    Handshake.OKTA: _okta,
}
