"""Ingest labels: the name under which other systems reach a relay, which nobody can make up.

A label is `<account>-<service>-<random>`: a host below the ingest domain, or the first part of a
path behind `/in/`. `random` is 64 random bits and 40 bits of a MAC over the whole, in base32, so
that a label fits the 63 characters of a name's part. The door needs no list of names: it saves what
comes under a genuine label, and the worker finds out whose it is.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from typing import NamedTuple

from tracking.request import NAME, Account

RANDOM_BYTES, MAC_BYTES = 8, 5
RANDOM_CHARACTERS = 21
_RANDOM = re.compile(rf"[a-z2-7]{{{RANDOM_CHARACTERS - 1}}}[acegikmoqsuwy246]")
"""13 bytes in base32, without padding: one bit of the last character is of none, and 0."""

_DIGITS = str.maketrans("abcdefghijklmnopqrstuvwxyz234567", "0123456789abcdefghijklmnopqrstuv")
"""From base32 to what `int` reads."""

LABEL_MOST = 63
PATH = "/in/"
"""In front of a label in a path."""

KEY_BYTES = 32


class IngestLabel(NamedTuple):
    """A label, taken apart.

    `service` is the name of a service, `random` tells it from its namesakes of before.
    """

    account: Account
    service: str
    random: str

    def __str__(self) -> str:
        return f"{self.account}-{self.service}-{self.random}"


def new_label(account: Account, service: str, key: bytes) -> IngestLabel:
    """Make a label that `is_genuine` under this key; no two are alike."""
    drawn = secrets.token_bytes(RANDOM_BYTES)
    written = base64.b32encode(drawn + _mac(account, service, drawn, key))
    return IngestLabel(account, service, written.decode().rstrip("=").lower())


def parse_label(text: str) -> IngestLabel | None:
    """Take a text apart, in letters of any case; None for what has not the form of a label."""
    parts = text.lower().split("-")
    if len(text) > LABEL_MOST or len(parts) != 3:  # noqa: PLR2004 - account, service, random
        return None
    account, service, drawn = parts
    if not (NAME.fullmatch(account) and NAME.fullmatch(service) and _bytes_of(drawn)):
        return None
    return IngestLabel(Account(account), service, drawn)


def is_genuine(label: IngestLabel, key: bytes) -> bool:
    """Whether a label was made under this key."""
    drawn = _bytes_of(label.random)
    if drawn is None:
        return False
    made = _mac(label.account, label.service, drawn[:RANDOM_BYTES], key)
    return hmac.compare_digest(drawn[RANDOM_BYTES:], made)


def _bytes_of(drawn: str) -> bytes | None:
    """Read the random part; None for what is not exactly what is written for some bytes."""
    if not _RANDOM.fullmatch(drawn):
        return None
    # base64.b32decode takes as long as all else, and of forged ones there may be many.
    return (int(drawn.translate(_DIGITS), 32) >> 1).to_bytes(RANDOM_BYTES + MAC_BYTES, "big")


def _mac(account: str, service: str, drawn: bytes, key: bytes) -> bytes:
    text = f"{account}-{service}-".encode() + drawn
    return hmac.digest(key, text, "sha256")[:MAC_BYTES]
