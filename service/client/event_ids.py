"""Ids of events as clients get them: sealed, and another text each time.

A plain id is the time at which an operation of any account ended, and the id of a heartbeat moves
with each of them. Sealed, two ids of one event are as different as those of two, so a client reads
nothing out of them. All doors of one Redis open what any of them sealed, as they share its secret.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from limits.events import EventId

LOST = EventId(0, 1)
"""An id that no event has: nobody knows what ended since."""

_FORM = struct.Struct(">QQ")
_NONCE_BYTES = 12


class EventIds:
    """Seals ids and opens them; `secret` is that of a Redis, which loses it with its state."""

    def __init__(self, secret: str) -> None:
        self._cipher = AESGCM(hashlib.sha256(f"events {secret}".encode()).digest())

    def sealed(self, at: EventId) -> str:
        """Write an id."""
        nonce = os.urandom(_NONCE_BYTES)
        return base64.urlsafe_b64encode(
            nonce + self._cipher.encrypt(nonce, _FORM.pack(*at), None)
        ).decode()

    def opened(self, text: str) -> EventId:
        """Read an id; LOST where it is none of this Redis."""
        try:
            read = base64.urlsafe_b64decode(text)
            plain = self._cipher.decrypt(read[:_NONCE_BYTES], read[_NONCE_BYTES:], None)
            return EventId(*_FORM.unpack(plain))
        except (ValueError, InvalidTag, struct.error):
            return LOST
