"""Translates redis-py's errors into LimitsDown and LimitsBroken, with words and a fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ExecAbortError,
    InvalidResponse,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from limits.server import MEMORY_FIX
from tracking.errors import LimitsBroken, LimitsDown
from tracking.network import network_reason


class Unconfirmed(RedisError):
    """A primary did what was asked, and no replica has it: a failover would lose it."""


_ASKS = ("HELLO must be called", "Authentication required", "NOAUTH")
"""How Redis tells that it got no password, to the command that redis-py greets it with."""

_TOO_FEW_REPLICAS = "NOREPLICAS"
"""How a primary tells that min-replicas-to-write asks for more replicas than it has."""

_PASSING = ("MISCONF", "MASTERDOWN", "BUSY ", "LOADING", "TRYAGAIN", "CLUSTERDOWN", "UNKILLABLE")
"""How Redis begins to tell what it refuses to all, until it, or a person, has done something."""

BROKEN_FIX = "`check` of the command line names the key or the record, and what to do."

_SENTINEL_LOGIN = "Correct redis.sentinel_username and redis.sentinel_password."
_LOGIN = "redis.url (USER:PASSWORD@ before the host, signs like @ written as %40)"
_FAILURES: tuple[tuple[type[Exception], str, str], ...] = (
    (AuthenticationError, "refuses the user name or the password", f"Correct them in {_LOGIN}."),
    (
        NoPermissionError,
        "forbids a command ({text})",
        "Give the user in redis.url +@all, ~* and &*.",
    ),
    (
        ReadOnlyError,
        "is a replica and takes no writes",
        "Set redis.url to the primary's address, or use Sentinels (redis.sentinels).",
    ),
    (
        Unconfirmed,
        "has too few replicas that confirm what it does",
        "Look at its replicas and at the link to them.",
    ),
    (OutOfMemoryError, "is full", MEMORY_FIX),
    (BusyLoadingError, "is still loading its data", ""),
    (
        MasterNotFoundError,
        "has no primary that a Sentinel knows",
        "Start the Sentinels, or correct redis.sentinels and redis.service.",
    ),
    (InvalidResponse, "is not what answers there, but something else", "Correct redis.url."),
    (NoScriptError, "forgot a script", ""),
    (ExecAbortError, "refuses a command ({text})", ""),
)
"""The first that fits holds; `text` is Redis' own."""


def takes_no_writes(error: Exception) -> bool:
    """Whether this Redis is not, or not any more, the one whose writes last."""
    if isinstance(error, ReadOnlyError | Unconfirmed):
        return True
    return str(error).startswith(_TOO_FEW_REPLICAS)


def redis_down(error: Exception) -> LimitsDown | LimitsBroken:
    """Word an error of redis-py or of the network; raise it `from error`.

    What any other command would be refused for as well is LimitsDown: that list is closed. Any
    other refusal is about the keys that were asked for.
    """
    if isinstance(error, LimitsDown | LimitsBroken):
        return type(error)(error.message, error.fix)
    if isinstance(error.__cause__, MasterNotFoundError):
        error = error.__cause__  # a connection wraps whatever goes wrong before it is open
    text = str(error).rstrip(".")
    if told := _told(error, text):
        return told
    return _refused(text) if isinstance(error, ResponseError) else _silent(error, text)


def _told(error: Exception, text: str) -> LimitsDown | None:
    if isinstance(error, MasterNotFoundError) and AuthenticationError.__name__ in text:
        return LimitsDown("the Sentinels refuse user name or password", _SENTINEL_LOGIN)
    if isinstance(error, AuthenticationError) and text.startswith(_ASKS):
        return LimitsDown("Redis asks for a password", f"Set it in {_LOGIN}.")
    if text.startswith(_TOO_FEW_REPLICAS):
        fix = "Start its replicas: its min-replicas-to-write asks for them."
        return LimitsDown("Redis has too few replicas and takes no writes", fix)
    for kind, what, fix in _FAILURES:
        if isinstance(error, kind):
            return LimitsDown(f"Redis {what.format(text=text)}", fix)
    return None


def _refused(text: str) -> LimitsDown | LimitsBroken:
    if text.startswith(_PASSING):
        return LimitsDown(f"Redis refuses a command ({text})")
    return LimitsBroken(f"what Redis holds cannot be worked with ({text})", BROKEN_FIX)


def _silent(error: Exception, text: str) -> LimitsDown:
    reason = network_reason(error) or text or type(error).__name__
    return LimitsDown(f"Redis does not answer ({reason})", "Start it, or correct redis.url.")


def is_broken(error: Exception) -> bool:
    """Whether what Redis holds is at fault: a key of another type, a text of another form."""
    if isinstance(error, RedisError | OSError):
        error = redis_down(error)
    return isinstance(error, LimitsBroken | ValueError | LookupError | TypeError)


@contextmanager
def redis_asked() -> Iterator[None]:
    """Raise LimitsDown for what redis-py or the network raises in the `with` block."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise redis_down(error) from error
