"""Attempts: how one ended, whom that is held against, and when the next one is due.

================================ ================ =================================================
what came                        held against     what follows
================================ ================ =================================================
2xx                              nobody           delivered
410                              the service      it is switched off: nobody listens there any more
429, 502, 503, 504 with          the service      its line rests as long as was asked, at most an
Retry-After                                       hour; no attempt is charged to the delivery
429, 5xx, no connection, no      the service      the next attempt
answer in time
3xx, other 4xx, another answer   the delivery     the next attempt: this very body was refused, and
                                                  others may be taken
a name that leads inside         the delivery     the next attempt: it may lead elsewhere by then
================================ ================ =================================================

The status line alone decides: a body that breaks off behind a 2xx was taken all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from couriers.http.refusals import retry_after

REST_MOST_SECONDS = 3_600.0
"""How long a receiver's Retry-After may make its line rest."""

DELAYS_SECONDS = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""From each attempt to the next one: ten attempts in some 75 hours."""

DAYS_SECONDS = 7 * 86_400.0
"""No delivery goes on for longer. What makes a line rest is not charged, nor does it count here."""

STATUS_MOST = 599

JITTER = 0.1
"""The share by which a delay is longer or shorter, so that what failed together does not return
together."""


class Failure(StrEnum):
    """Why an attempt failed; the account sees this word, and no address."""

    CONNECTION = "connection"
    TIMEOUT = "timeout"
    TLS = "tls"
    FORBIDDEN_ADDRESS = "forbidden_address"
    REDIRECT = "redirect"
    REFUSED = "refused"
    GONE = "gone"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    NOT_HTTP = "not_http"


OF_THE_SERVICE = frozenset(
    {
        Failure.CONNECTION,
        Failure.TIMEOUT,
        Failure.TLS,
        Failure.GONE,
        Failure.OVERLOADED,
        Failure.SERVER_ERROR,
        Failure.NOT_HTTP,
    }
)
"""Failures that are the destination's as a whole, whatever was delivered."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended. `failure` None: delivered. `rest_seconds`: what the receiver asks."""

    failure: Failure | None = None
    status: int | None = None
    rest_seconds: float | None = None

    @property
    def is_of_the_service(self) -> bool:
        """Whether it tells something of the destination, rather than of this delivery."""
        return self.failure is None or self.failure in OF_THE_SERVICE


_RESTING = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


def ending_of(status: int, headers: Mapping[str, str]) -> Ending:
    """Judge an answer by its status line; names of `headers` in lower case."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Ending(status=status)
    rest = retry_after(headers) if status in _RESTING else None
    if rest is not None:
        rest = min(rest, REST_MOST_SECONDS)
    return Ending(_failure_of(status), status, rest)


def _failure_of(status: int) -> Failure:
    if status == HTTPStatus.GONE:
        return Failure.GONE
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Failure.OVERLOADED
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return Failure.REDIRECT
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return Failure.REFUSED
    if HTTPStatus.INTERNAL_SERVER_ERROR <= status <= STATUS_MOST:
        return Failure.SERVER_ERROR
    return Failure.NOT_HTTP


def next_delay_seconds(
    made: int, attempts: int, spread: Callable[[float, float], float] = random.uniform
) -> float | None:
    """Say how long after its attempt number `made` a delivery is due again; None: it was the last.

    More attempts than there are delays follow each other as the last two do, for seven days.
    """
    last = DELAYS_SECONDS[-1]
    beyond = max(0, made - len(DELAYS_SECONDS))
    if made >= attempts or sum(DELAYS_SECONDS[:made]) + beyond * last > DAYS_SECONDS:
        return None
    delay = last if beyond else DELAYS_SECONDS[made - 1]
    return delay * spread(1 - JITTER, 1 + JITTER)
