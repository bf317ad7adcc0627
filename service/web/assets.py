"""The files that pages load, and the policy that lets browsers load nothing else.

They are our style and script, and htmx as its packages have it: no other host is asked for any.
What stands in `static/vendor` is of the npm packages that `versions.json` names, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from aiohttp import web

from service.http.exchange import Route

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers of each page."""

STATIC = Path(__file__).parent / "static"

FILES = MappingProxyType(
    {
        "style.css": "text/css",
        "pages.js": "text/javascript",
        "vendor/htmx.min.js": "text/javascript",
        "vendor/htmx-ext-sse.min.js": "text/javascript",
    }
)
"""Their paths, and their types."""


@cache
def content(name: str) -> bytes:
    """Read a file."""
    return (STATIC / name).read_bytes()


@cache
def address(name: str) -> str:
    """Name the path of a file, which changes with its content: so browsers may keep it."""
    return f"/static/{sha256(content(name)).hexdigest()[:12]}/{name}"


def routes() -> list[Route]:
    """Name the routes of all files; an old page may ask for one that has changed since."""
    return [Route("GET", "/static/{hash}/{name:.+}", _give, None)]


async def _give(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in FILES:
        raise web.HTTPNotFound
    kept = {"Cache-Control": "public, max-age=31536000, immutable"}
    if address(name) != request.path:
        kept = {"Cache-Control": "no-store"}
    return web.Response(body=content(name), content_type=FILES[name], charset="utf-8", headers=kept)
