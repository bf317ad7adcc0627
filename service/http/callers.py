"""Callers, known by their keys: what a key is good for, and how often it may be used."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import web

from service.http.backend.keyring import Keyring
from service.http.exchange import Problem
from service.http.reading import body_of
from service.operator.audit import Operator, Via
from service.operator.keys import PREFIX_CHARACTERS, Key, Scope, needed
from service.operator.quotas import Quota, QuotaUsedUp, Use
from service.operator.signatures import IDEMPOTENCY_KEY, Sent, covers, flaw
from tracking.request import MAIN, Account

BURST_SECONDS = 2.0
"""What a key did not use is kept for so long."""

MINUTE_SECONDS = 60.0
"""It begins with an account's first request, and the next one with the first behind its end."""

FLAW = web.RequestKey("FLAW", str)
"""What is wrong with the signature of a request whose key demands one, "" if nothing is."""

COVERED = web.RequestKey("COVERED", bool)
"""Whether that signature was made of the header Idempotency-Key too."""

_UNSEEN = "this key was not known yet when the request came: send it again"
_HOW = "send a key in the header as-api-key, or as Authorization: Bearer KEY"


class Left(NamedTuple):
    """What is left of a policy: `quota` uses in so many `seconds`; all are back in `resets`."""

    policy: str
    quota: int
    seconds: float
    room: int
    resets: float


def rate_headers(every: Sequence[Left]) -> dict[str, str]:
    """Write what is left, as draft 11 of the IETF's `RateLimit` fields has it."""
    policies = (f'"{each.policy}";q={each.quota};w={math.ceil(each.seconds)}' for each in every)
    left = (f'"{each.policy}";r={each.room};t={math.ceil(each.resets)}' for each in every)
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(left)}


class Allowance:
    """Room for uses of one key: it fills evenly, up to what BURST_SECONDS bring."""

    def __init__(self, per_second: float, now: float) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second * BURST_SECONDS)
        self._room = self._most
        self._at = now

    def wait(self, now: float, uses: int = 1) -> float:
        """Take some uses; 0.0, or in how many seconds there will be so many.

        More than there ever are at once are taken when there are most; what follows waits longer.
        """
        self._room = min(self._most, self._room + (now - self._at) * self._per_second)
        self._at = now
        wanted = min(uses, self._most)
        if self._room < wanted:
            return (wanted - self._room) / self._per_second
        self._room -= uses
        return 0.0

    def left(self, now: float) -> Left:
        """Give what is left of what may be used at once."""
        room = min(self._most, self._room + (now - self._at) * self._per_second)
        seconds = self._most / self._per_second, (self._most - room) / self._per_second
        return Left("key", int(self._most), seconds[0], int(max(0.0, room)), seconds[1])

    def rate_limit_status(self, now: float) -> tuple[int, int, float]:
        """Give how many uses a second brings, how many of these are left, and when all are."""
        room = self._room + (now - self._at) * self._per_second
        limit = max(1, int(self._per_second))
        return limit, min(limit, max(0, int(room))), max(0.0, (limit - room) / self._per_second)


class Minutes:
    """Counts the requests of a minute, of accounts that have such a quota, at this process."""

    def __init__(self, keyring: Keyring, clock: Callable[[], float]) -> None:
        self._keyring = keyring
        self._clock = clock
        self._counts: dict[Account, tuple[float, int]] = {}
        """When the minute of an account ends, and its requests until now."""

    def use(self, account: Account) -> Use:
        """Say what an account may have, and what is used."""
        most = self._keyring.keys.quotas.get(account, {}).get(Quota.REQUESTS)
        if most is None:
            return Use(None)
        left, used = self._left(account)
        return Use(most, used, dt.datetime.now(dt.UTC) + dt.timedelta(seconds=left))

    def count(self, account: Account) -> None:
        """Count a request. Raises QuotaUsedUp."""
        use = self.use(account)
        if use.allowed is None:
            return
        left, used = self._left(account)
        if used >= use.allowed:
            raise QuotaUsedUp(Quota.REQUESTS, account, use)
        self._counts[account] = self._clock() + left, used + 1

    def left(self, account: Account) -> Iterator[Left]:
        """Give what is left of an account's minute, where it has such a quota."""
        allowed, used, _ = self.use(account)
        if allowed is not None:
            left, used = self._left(account)
            yield Left("account", allowed, MINUTE_SECONDS, max(0, allowed - used), left)

    def _left(self, account: Account) -> tuple[float, int]:
        ends, used = self._counts.get(account, (0.0, 0))
        left = ends - self._clock()
        return (left, used) if left > 0 else (MINUTE_SECONDS, 0)


class Callers:
    """Authenticates requests by their keys. `always`: nobody is served without a key."""

    def __init__(
        self,
        keyring: Keyring,
        per_second: float,
        *,
        always: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keyring = keyring
        self._per_second = per_second
        self._always = always
        self._clock = clock
        self._allowances: dict[str, Allowance] = {}
        self.minutes = Minutes(keyring, clock)
        self._unlimited = Allowance(per_second, clock())

    @property
    def need_keys(self) -> bool:
        """Whether a key is asked for: always, or since one was made, also if all have ended."""
        return self._always or bool(self._keyring.keys.known)

    async def check_signature(self, request: web.Request) -> None:
        """Note whether a request is signed as its key demands; `account` and the others refuse it.

        Raises Problem where its body cannot be read.
        """
        if not self._keyring.keys.known:
            return
        text = _text_of(request)
        known = self._keyring.keys.known.get(text[:PREFIX_CHARACTERS])
        # Nobody without the whole key has a body read for nothing.
        if known is None or known.signing is None or self._keyring.find(text) is None:
            return
        body = await body_of(request)
        sent = Sent(request.method, request.raw_path, request.headers.items(), body)
        request[FLAW] = why = flaw(known.signing, sent, dt.datetime.now(dt.UTC))
        request[COVERED] = not why and covers(known.signing, sent)

    def account(self, request: web.Request, scope: Scope) -> Account:
        """Give the account of a key that has this scope. Raises Problem."""
        if not self.need_keys:
            return MAIN
        key = self._key(request)
        if lacking := [each.value for each in needed(scope) if each not in key.scopes]:
            why = f"the key {key.prefix} is not good for this: it lacks the scope "
            raise Problem(HTTPStatus.FORBIDDEN, why + " and ".join(lacking))
        self._use(key)
        return key.account

    def insist_on_idempotency_key(self, request: web.Request) -> None:
        """Raises Problem where a signature is demanded, and not made of `Idempotency-Key` too."""
        if not request.get(COVERED, True):
            value = request.headers["Idempotency-Key"].strip()
            why = "of Idempotency-Key the signature says nothing: sign the line"
            raise _nobody(f"{why} {IDEMPOTENCY_KEY}:{value} behind those of `as-` headers")

    def rate_limit_status(self, request: web.Request) -> tuple[int, int, float] | None:
        """Give the rate limit status of the key that asks; None without a known key."""
        if not self.need_keys:
            return self._unlimited.rate_limit_status(self._clock())
        try:
            allowance = self._allowances.get(self._key(request).prefix)
        except Problem:
            return None
        return None if allowance is None else allowance.rate_limit_status(self._clock())

    async def tell_rates(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add what is left for the key that asks to the head of an answer below `/v1/`."""
        key = self._keyring.find(_text_of(request)) if request.path.startswith("/v1/") else None
        allowance = key and self._allowances.get(key.prefix)
        if key and allowance:
            every = [allowance.left(self._clock()), *self.minutes.left(key.account)]
            response.headers.update(rate_headers(every))

    def operator(self, request: web.Request) -> Operator:
        """Give the operator that asks. Raises Problem; for all others the path does not exist."""
        if not self.need_keys:
            return Operator(via=Via.HTTP)
        try:
            key = self._key(request)
        except Problem as error:
            raise web.HTTPNotFound from error
        if key.account != MAIN or Scope.ADMIN not in key.scopes:
            raise web.HTTPNotFound
        self._use(key)
        return Operator(key.prefix, via=Via.HTTP)

    def key_of(self, request: web.Request) -> str | None:
        """Give the prefix of the key that asks; None where no key is needed. Raises Problem."""
        return self._key(request).prefix if self.need_keys else None

    def knows(self, request: web.Request) -> bool:
        """Whether somebody asks who may see how the service does."""
        try:
            self.key_of(request)
        except Problem:
            return False
        return True

    def _use(self, key: Key) -> None:
        """Raises Problem, QuotaUsedUp where it, or its account, is used too often."""
        now = self._clock()
        self.minutes.count(key.account)
        per_second = key.per_second or self._per_second
        allowance = self._allowances.get(key.prefix)
        if allowance is None:
            allowance = self._allowances[key.prefix] = Allowance(per_second, now)
        if wait := allowance.wait(now):
            why = f"more than {per_second:g} requests a second with the key {key.prefix}"
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, why, {"Retry-After": str(math.ceil(wait))})

    def _key(self, request: web.Request) -> Key:
        text = _text_of(request)
        found = self._keyring.find(text)
        if found is None:
            # Only to those who have the whole key.
            if ended := self._keyring.keys.recognize(text):
                at = dt.datetime.fromtimestamp(ended.ends_at or 0.0, dt.UTC)
                raise _nobody(f"the key {ended.prefix} ended at {at:%Y-%m-%dT%H:%M:%SZ}: {_HOW}")
            raise _nobody(f"this key is not known: {_HOW}" if text else f"no key: {_HOW}")
        if (why := self._keyring.keys.suspended.get(found.account)) is not None:
            raise Problem(HTTPStatus.FORBIDDEN, suspension(found.account, why))
        if found.signing and (why := request.get(FLAW, _UNSEEN)):
            raise _nobody(why)
        return found


def owner_of(callers: Callers, request: web.Request, scope: Scope) -> Operator:
    """Give who asks with a key that has this scope, for the record of an act. Raises Problem."""
    account = callers.account(request, scope)
    return Operator(callers.key_of(request), account, Via.HTTP)


def suspension(account: Account, why: str) -> str:
    """Say that an account is suspended."""
    return f"the account {account} is suspended{why and f': {why}'}; nothing of it is lost"


def _text_of(request: web.Request) -> str:
    """Take the key out of a request; "" where there is none."""
    text = request.headers.get("as-api-key")
    if text is None:
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            text = ""
    return text.strip()


def _nobody(why: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, why, {"WWW-Authenticate": "Bearer"})
