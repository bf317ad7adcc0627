"""Access tokens: how to get one, and one renewal at a time for each account."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from couriers.http.refusals import refuse
from couriers.http.settings import CourierSettings, Grant
from couriers.reading.answer import Answer, decode, read_xml
from tracking.errors import AuthFailed, CourierError, RequestRefused, UnreadableAnswer

EARLY_SECONDS = 60.0
"""A token this close to its end is renewed, so that none runs out on the way."""

LIFETIME_MOST = 86_400.0
"""However long a courier says its token lives: after a day a new one costs nothing."""

AccountKey = tuple[str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Token:
    """A token and the seconds it is good for, counted from now."""

    value: str = field(repr=False)
    lifetime: float


def account_key(settings: CourierSettings, url: str) -> AccountKey:
    """Tell accounts apart: changed credentials never meet the token of the old ones."""
    return (settings.slug, url, tuple(sorted(settings.credentials.items())))


def read_token(answer: Answer, grant: Grant) -> Token:
    """Read a token endpoint's answer.

    400 is a refusal of the credentials here (`invalid_client`, `invalid_grant`): what we post is
    fixed but for them. `expires_in` may be a string. Raises AuthFailed, RateLimited, CourierDown,
    RequestRefused, UnreadableAnswer.
    """
    if grant.is_refused_by(answer):
        raise AuthFailed("the token endpoint does not accept our credentials")
    refuse(answer.status, answer.headers, answer.body)
    if answer.status == HTTPStatus.BAD_REQUEST:
        raise AuthFailed("the token endpoint does not accept our credentials (400)")
    if answer.status > HTTPStatus.BAD_REQUEST:
        raise RequestRefused(f"the token endpoint answered {answer.status}; is token_url right?")
    members = _members(answer, grant)
    value = members.get(grant.member)
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value:
        raise UnreadableAnswer(f"the token endpoint's answer holds no {grant.member}")
    return Token(value, _lifetime(members.get("expires_in"), grant.lifetime))


def _members(answer: Answer, grant: Grant) -> Mapping[str, object]:
    if grant.xml is None:
        return decode(answer.body, dict[str, Any])
    holder = read_xml(answer.body).each(grant.member)
    return {grant.member: next((found.content for found in holder), None)}


def _lifetime(given: object, default: float) -> float:
    try:
        seconds = float(given) if isinstance(given, str | int | float) else default
    except (ValueError, OverflowError):
        return default
    # Not a number, or over before it came: it would be fetched again for every call.
    return min(seconds, LIFETIME_MOST) if seconds >= 0 else default


class TokenCache:
    """Holds each account's token until shortly before it ends. One per process.

    Some couriers revoke the old token when they give a new one, so at most one renewal of an
    account is under way; other calls that need the token wait for it and share its failure.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[AccountKey, tuple[str, float]] = {}
        self._renewals: dict[AccountKey, asyncio.Future[str | CourierError | None]] = {}

    async def get(self, key: AccountKey, renew: Callable[[], Awaitable[Token]]) -> tuple[str, bool]:
        """Return the token, and whether it had been held before this call began.

        Raises what `renew` raises, also to those who only waited for it.
        """
        waited = False
        while True:
            held = self._held.get(key)
            if held is not None and self._clock() < held[1]:
                return held[0], not waited
            under_way = self._renewals.get(key)
            if under_way is None:
                return await self._renew(key, renew), False
            waited = True
            match await asyncio.shield(under_way):
                case CourierError() as failure:
                    raise failure
                case str(value):
                    return value, False
                case None:
                    continue  # the call that renewed was cancelled: this one takes over

    def forget(self, key: AccountKey, value: str) -> None:
        """Drop a token that the courier refused, unless a newer one has taken its place."""
        held = self._held.get(key)
        if held is not None and held[0] == value:
            del self._held[key]

    async def _renew(self, key: AccountKey, renew: Callable[[], Awaitable[Token]]) -> str:
        result: asyncio.Future[str | CourierError | None]
        result = asyncio.get_running_loop().create_future()
        self._renewals[key] = result
        outcome: str | CourierError | None = None
        try:
            token = await renew()
            self._held[key] = (token.value, self._clock() + token.lifetime - EARLY_SECONDS)
            outcome = token.value
        except CourierError as failure:
            outcome = failure
            raise
        finally:
            del self._renewals[key]
            result.set_result(outcome)
        return token.value
