"""Secrets of destinations, encrypted as they are stored: AES-256-GCM, the key's id in front.

The keys come from the environment or a file, each as `ID:BASE64` of 32 bytes, with blanks or line
ends between: the first one encrypts, all of them decrypt, so that keys are changed by putting a new
one in front. A text is `ID:BASE64`, of 12 random bytes and what AES-GCM made. It is bound to the
`owner` for which it was made: moved to another destination's document it cannot be read.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping

from service.config.webhooks_checks import KEY_BYTES, key_in

_NONCE_BYTES = 12


class BadKeys(ValueError):
    """Keys that cannot be used; the text says how to write them, and shows none."""


class Unreadable(Exception):
    """A text that none of the keys of this process opens; `key`: the id of the key that would."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no key {key!r} opens it: set the key with which it was written")
        self.key = key


def new_key(name: str) -> str:
    """Make a key, as it is set."""
    return f"{name}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


class SecretBox:
    """Encrypts and decrypts by the keys of one process."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        """Take the keys by their ids, the one that encrypts first. Raises BadKeys."""
        # 6 MB, and nothing to a process whose configuration has no keys.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

        if not keys:
            raise BadKeys("no key is set: write ID:BASE64 of 32 random bytes")
        self._current = next(iter(keys))
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}

    @classmethod
    def of(cls, text: str) -> SecretBox:
        """Read keys as they are set. Raises BadKeys."""
        keys: dict[str, bytes] = {}
        for position, word in enumerate(text.split(), start=1):
            found = key_in(word)
            if found is None:
                raise BadKeys(f"key {position} is not ID:BASE64 of {KEY_BYTES} bytes")
            name, key = found
            if name in keys:
                raise BadKeys(f"two keys are called {name!r}")
            keys[name] = key
        return cls(keys)

    def closed(self, secret: str, owner: str) -> str:
        """Encrypt a secret for its owner."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[self._current].encrypt(nonce, secret.encode(), owner.encode())
        return f"{self._current}:{base64.b64encode(nonce + sealed).decode()}"

    def opened(self, text: str, owner: str) -> str:
        """Decrypt what `closed` made for this owner. Raises Unreadable."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        name, _, packed = text.partition(":")
        try:
            cipher, data = self._ciphers[name], base64.b64decode(packed, validate=True)
            plain = cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], owner.encode())
        except (KeyError, ValueError, InvalidTag):
            raise Unreadable(name) from None
        return plain.decode()

    def is_current(self, text: str) -> bool:
        """Whether a text was made by the key that encrypts now: else it is to be made again."""
        return text.startswith(f"{self._current}:")
