"""The one HTTP session of a process."""

from __future__ import annotations

import sys

import aiohttp

from couriers.http.send_gate import GatedRequest

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 30.0
"""Shorter than the minute after which many couriers' front ends drop an idle connection."""

DNS_CACHE_SECONDS = 60
USER_AGENT = "courier-tracking-worker"


def open_session(kept_below: int = sys.maxsize) -> aiohttp.ClientSession:
    """Open the session that every `Fetch` of this process uses; close it when the worker stops.

    Call it inside the running loop. No limit on connections: Redis decides how many calls run, and
    a second limit here would hold a granted call back unseen. Those whose descriptor is below
    `kept_below` are kept for a while after their answer: so few that calls find files to open.
    No cookies, no proxy or credentials from the environment. The deadline of a call is its
    permit's, so only connecting has a time-out of its own.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0,
            limit_per_host=0,
            keepalive_timeout=KEEPALIVE_SECONDS,
            ttl_dns_cache=DNS_CACHE_SECONDS,
        ),
        request_class=type("Request", (GatedRequest,), {"kept_below": kept_below}),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
    )
