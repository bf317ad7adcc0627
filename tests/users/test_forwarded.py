"""Who asks, where proxies stand in front, or say that they do."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from multidict import CIMultiDict

from service.http.proxies import Asking, asking

PROXY, CLIENT, LIAR = "10.0.0.7", "198.51.100.7", "203.0.113.66"
NETWORKS = tuple(map(ipaddress.ip_network, ("10.0.0.0/24", "::1/128")))
FOR, PROTO, USER = "X-Forwarded-For", "X-Forwarded-Proto", "X-Email"
EMAIL = "anna@acme.example"

TABLE: dict[str, tuple[str, list[tuple[str, str]], Asking]] = {
    "nothing is forwarded": (PROXY, [], Asking(PROXY, "http")),
    "a proxy forwards": (
        PROXY,
        [(FOR, CLIENT), (PROTO, "https"), (USER, EMAIL)],
        Asking(CLIENT, "https", EMAIL),
    ),
    "somebody else says that it forwards": (
        LIAR,
        [(FOR, CLIENT), (PROTO, "https"), (USER, EMAIL)],
        Asking(LIAR, "http"),
    ),
    "a client forged what its proxy only adds to": (
        PROXY,
        [(FOR, f"{LIAR}, {CLIENT}")],
        Asking(CLIENT, "http"),
    ),
    "a client forged a header of its own": (
        PROXY,
        [(FOR, LIAR), (FOR, CLIENT)],
        Asking(CLIENT, "http"),
    ),
    "a client says that it is a proxy": (
        PROXY,
        [(FOR, f"10.0.0.9, {CLIENT}")],
        Asking(CLIENT, "http"),
    ),
    "two proxies forward": (PROXY, [(FOR, f"{CLIENT}, 10.0.0.8")], Asking(CLIENT, "http")),
    "all of them are proxies": (PROXY, [(FOR, "10.0.0.9, 10.0.0.8")], Asking("10.0.0.9", "http")),
    "a proxy writes ports": (PROXY, [(FOR, f"{CLIENT}:4711")], Asking(CLIENT, "http")),
    "a proxy speaks IPv6": ("::1", [(FOR, "[2001:db8::1]:4711")], Asking("2001:db8::1", "http")),
    "a proxy is known by its mapped address": (
        f"::ffff:{PROXY}",
        [(FOR, CLIENT)],
        Asking(CLIENT, "http"),
    ),
    "what is forwarded is no address": (PROXY, [(FOR, "unknown")], Asking(PROXY, "http")),
    "a client forged what is no address": (
        PROXY,
        [(FOR, f"<script>, {CLIENT}")],
        Asking(CLIENT, "http"),
    ),
    "a scheme is none": (PROXY, [(PROTO, "gopher")], Asking(PROXY, "http")),
    "a scheme was forged before the proxy's": (
        PROXY,
        [(PROTO, "https, http")],
        Asking(PROXY, "http"),
    ),
    "a proxy names two users": (PROXY, [(USER, EMAIL), (USER, LIAR)], Asking(PROXY, "http")),
    "a user's name is in large letters": (
        PROXY,
        [(USER, f" {EMAIL.upper()}")],
        Asking(PROXY, "http", EMAIL),
    ),
    "a path is the address": ("/run/api.sock", [(FOR, CLIENT)], Asking("/run/api.sock", "http")),
}


@pytest.mark.parametrize("case", TABLE)
def test_forwarded_headers_count_where_a_trusted_proxy_sends_them(case: str) -> None:
    peer, headers, expected = TABLE[case]

    assert asking(Asking(peer, "http"), CIMultiDict(headers), NETWORKS, USER) == expected


def test_without_trusted_proxies_and_without_a_name_no_header_counts() -> None:
    headers = CIMultiDict([(FOR, CLIENT), (PROTO, "https"), (USER, EMAIL), ("", EMAIL)])

    for trusted, name in (((), USER), (NETWORKS, "")):
        plain = Asking("127.0.0.1", "http")
        assert asking(plain, headers, trusted, name) == plain


@pytest.mark.parametrize(
    ("who", "is_private"),
    [
        (Asking("127.0.0.1", "http"), True),
        (Asking("::1", "http"), True),
        (Asking(CLIENT, "https"), True),
        (Asking(CLIENT, "http"), False),
        (Asking("", "http"), False),
    ],
)
def test_what_is_sent_is_private_by_tls_or_within_this_machine(
    who: Any, *, is_private: bool
) -> None:
    assert who.is_private is is_private
