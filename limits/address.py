"""The address of Redis, which is known before any driver is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where Redis is: `url`, or the addresses of Sentinels and the name of their service.

    With Sentinels, `url` still gives scheme, login, database and options; `sentinel_login` is user
    name and password, each may be "". TLS and its options are for the Sentinels too.
    """

    url: str = "redis://127.0.0.1:6379/0"
    sentinels: Sequence[tuple[str, int]] = ()
    service: str = "mymaster"
    sentinel_login: tuple[str, str] = ("", "")
