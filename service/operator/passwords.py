"""Passwords of users: argon2id with the defaults of argon2-cffi, 64 MiB for each look.

Each function that hashes takes some 50 ms of a core and 64 MiB: callers run few at once.
"""

from __future__ import annotations

import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from service.operator.accounts import NotDone

LEAST_CHARACTERS = 10
MOST_CHARACTERS = 200
"""So that nobody has a novel hashed."""

NOBODYS = (
    "$argon2id$v=19$m=65536,t=3,p=4$BrXljRmGbeNqLkcROFXsOw"
    "$PBtj/hyfHm+oxstIuuvbwSfXZ4teqYz6Cznfa+KR9Rg"
)
"""The hash of no password: who is not known takes as long as who is. It costs what ours cost."""


def insist_on_strength(password: str, email: str) -> None:
    """Raises NotDone where a password is too short, too long, or the e-mail itself."""
    if not LEAST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise NotDone(f"a password has {LEAST_CHARACTERS} to {MOST_CHARACTERS} characters")
    if password.lower() == email:
        raise NotDone("the e-mail is no password")


def hash_password(password: str) -> str:
    """Make what is kept of a password."""
    return PasswordHasher().hash(_normal(password))


def is_password(password: str, kept: str | None) -> bool:
    """Whether it is the password of what is kept; None: of nobody, which takes as long."""
    try:
        PasswordHasher().verify(kept or NOBODYS, _normal(password[:MOST_CHARACTERS]))
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None


def _normal(password: str) -> bytes:
    """The same characters, however a keyboard composes them."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
