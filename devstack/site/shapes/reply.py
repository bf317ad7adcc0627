"""What a shape is given and what it gives back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

TOKEN_SECONDS = 14_399


class Kind(StrEnum):
    """What a request was for; only a CALL counts against the limits."""

    CALL = "call"
    TOKEN = "token"  # noqa: S105 - not a secret


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as shapes care. `parts` is the path behind the shape's name."""

    method: str
    parts: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def each(self, name: str) -> list[str]:
        """List the values of a parameter that may be there several times."""
        found = getattr(self.query, "getall", None)
        if found is None:
            return [self.query[name]] if name in self.query else []
        return list(found(name, ()))

    @property
    def json(self) -> object:
        """The body read as JSON, None when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Reply:
    """What the courier answers when all is well; `unknown` if it did not know the parcel.

    `riders` are the other numbers of a call for several. `keeps`: the site keeps what was sent.
    """

    slug: str
    number: str
    status: int
    body: bytes
    unknown: tuple[int, bytes] = (404, b"{}")
    kind: Kind = Kind.CALL
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    riders: tuple[str, ...] = ()
    keeps: bool = False

    @property
    def numbers(self) -> tuple[str, ...]:
        """Every number that was asked for."""
        return (self.number, *self.riders)


def encode(value: object) -> bytes:
    """Write an answer's body."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def give_token(slug: str) -> Reply:
    """Give the made-up courier's one token to everybody, as OAuth 2 has it."""
    body = {"access_token": _token(slug), "token_type": "Bearer", "expires_in": TOKEN_SECONDS}
    return Reply(slug, "", 200, encode(body), kind=Kind.TOKEN)


def needs_token(slug: str, asked: Asked, number: str) -> Reply | None:
    """Refuse a request without the token; None when it has it."""
    if asked.headers.get("Authorization") == f"Bearer {_token(slug)}":
        return None
    return Reply(slug, number, 401, encode({"errors": [{"code": "401", "message": "no token"}]}))


def _token(slug: str) -> str:
    return f"courier-site-{slug}"
