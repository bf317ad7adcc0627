"""Credentials of a courier: what the configuration says, how a login travels, and access tokens."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

from couriers.http.refusals import refuse
from couriers.reading.answer import Answer, decode, read_xml
from tracking.errors import AuthFailed, NoCredentials, RequestRefused, UnreadableAnswer
from tracking.request import Slug

LIFETIME_MOST = 86_400.0
"""However long a courier says its token lives: after a day a new one costs nothing."""

AccountKey = tuple[str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class CourierSettings:
    """The settings of one courier: `[couriers.<slug>]` of the configuration.

    `base_url` and `token_url` are "" for the module's own defaults. `module` names another courier
    module than the slug's own ("json_feed"), "" for its own. `credentials` holds every further key
    of the section ("client_id", "api_key", …); they are secrets and never appear in a log, an error
    or a stored body.
    """

    slug: Slug
    base_url: str = ""
    token_url: str = ""
    keep: str = ""
    module: str = ""
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


class OtherWay(NamedTuple):
    """A second address of a courier, for those who give it the credentials of that one.

    A module that has one calls it OTHER_WAY; its BASE_URL and CREDENTIALS are those of the first.
    """

    base_url: str
    credentials: tuple[str, ...]

    def is_chosen(self, given: Mapping[str, str]) -> bool:
        """Whether any of its credentials is there; one alone is a slip that must not be hidden."""
        return any(given.get(key) for key in self.credentials)


@dataclass(frozen=True, slots=True)
class Grant:
    """The grant of tokens by one courier: the body that is posted, and the token in the answer.

    Exactly one of `json`, `form` and `xml` is posted; the answer to `xml` is XML. `member` is the
    token's name in the answer.
    `lifetime` (seconds) is used when the answer names none. `header` and `scheme` say how the token
    travels: `Authorization: Bearer <token>`. Where `in_place_of` is set, it travels in the XML of
    the call instead, in place of that text. `refusals` stand in the body of an answer by which the
    courier does not accept the login or the token, if that is not a 401.
    """

    url: str
    json: Mapping[str, str] | None = field(default=None, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    xml: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    member: str = "access_token"
    lifetime: float = 300.0
    header: str = "Authorization"
    scheme: str = "Bearer "
    in_place_of: str = ""
    refusals: tuple[bytes, ...] = ()

    def is_refused_by(self, answer: Answer) -> bool:
        """Whether an answer says that the courier does not accept the login or the token."""
        told = any(each in answer.body for each in self.refusals)
        return told or answer.status == HTTPStatus.UNAUTHORIZED


def environment_name(slug: str, key: str) -> str:
    """Name the environment variable that sets `[couriers.<slug>] <key>` (docs/interface.md)."""
    return f"TRACKER_COURIERS__{slug}__{key}".upper().replace("-", "_")


def credentials(settings: CourierSettings, keys: Sequence[str], come_from: str) -> list[str]:
    """Return the values of `keys`, in their order.

    Raises NoCredentials that names every missing setting, its environment variable and where to
    get the value: the request waits until somebody fills it in.
    """
    missing = [key for key in keys if not settings.credentials.get(key)]
    if missing:
        wanted = ", ".join(
            f"[couriers.{settings.slug}] {key} ({environment_name(settings.slug, key)})"
            for key in missing
        )
        raise NoCredentials(f"not set: {wanted}; get it from {come_from}")
    return [settings.credentials[key] for key in keys]


def basic_auth(login: str, password: str) -> str:
    """Write the value of `Authorization`. Raises ValueError for a login with a colon in it."""
    if ":" in login:
        raise ValueError("RFC 7617 allows no colon in a login")
    return "Basic " + base64.b64encode(f"{login}:{password}".encode()).decode()


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
