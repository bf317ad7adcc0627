"""Passwords of users: argon2id with the defaults of argon2-cffi, 64 MiB for each look.

A look takes some 0.2 s of a core. `Looks` lets few run at once, so that logins exhaust neither
memory nor the threads of a process.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from typing import Any, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from service.worker.results.database import in_thread
from tracking.errors import NotDone, NotNow

T = TypeVar("T")

LEAST_CHARACTERS = 10
MOST_CHARACTERS = 200
"""So that nobody has a novel hashed."""

NOBODYS = (
    "$argon2id$v=19$m=65536,t=3,p=4$BrXljRmGbeNqLkcROFXsOw"
    "$PBtj/hyfHm+oxstIuuvbwSfXZ4teqYz6Cznfa+KR9Rg"
)
"""The hash of no password, as dear as those of users: an unknown one takes as long."""

AT_ONCE = 2
WAIT_MOST = 50
"""Looks that wait for their turn, or run: some five seconds. More are refused."""

SOON_SECONDS = 5.0


class TooManyLooks(NotNow):
    """So many passwords wait to be looked at that nobody should wait for another one."""

    def __init__(self) -> None:
        super().__init__("many people log in just now: try again in a few seconds", SOON_SECONDS)


class Looks:
    """Runs what hashes a password in a thread, few at once; for one event loop."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def run(self, step: Callable[..., T], *args: Any) -> T:
        """Run a step when its turn comes. Raises TooManyLooks, ResultsDown, and what it raises."""
        if self._waiting >= WAIT_MOST:
            raise TooManyLooks
        self._waiting += 1
        try:
            async with self._turns:
                return await in_thread(step, *args)
        finally:
            self._waiting -= 1


def insist_on_strength(password: str, email: str) -> None:
    """Raises NotDone where a password is too short, too long, or the e-mail itself."""
    if not LEAST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise NotDone(f"a password has {LEAST_CHARACTERS} to {MOST_CHARACTERS} characters")
    if password.strip().lower() == email:
        raise NotDone("the e-mail is no password: choose another one")


def hash_password(password: str) -> str:
    """Make what is kept of a password."""
    return PasswordHasher().hash(_normal(password))


def is_password(password: str, kept: str | None) -> bool:
    """Whether it is the password of what is kept; None: of nobody, which takes as long."""
    if len(password) > MOST_CHARACTERS:
        password, kept = "", None
    try:
        PasswordHasher().verify(kept or NOBODYS, _normal(password))
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None


def _normal(password: str) -> bytes:
    """The same characters, however a keyboard composes them."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
