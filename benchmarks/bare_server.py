"""A bare aiohttp.web server: it answers every request with a constant, and reads nothing of it.

Run as a program: `python -m benchmarks.bare_server PORT`.
"""

from __future__ import annotations

import sys

from aiohttp import web

HOST = "127.0.0.1"
SAID = b'{"id":"0f9d2a4e-6f0e-4d3c-9a56-3f6f0d4e8b11","slug":"acme","number":"N000000000"}'


async def answer(_: web.Request) -> web.Response:
    """Answer with the constant."""
    return web.Response(status=202, body=SAID, content_type="application/json")


if __name__ == "__main__":
    app = web.Application()
    app.router.add_post("/v1/requests", answer)
    app.router.add_get("/v1/operations/{id}", answer)
    web.run_app(app, host=HOST, port=int(sys.argv[1]), access_log=None, print=None)
