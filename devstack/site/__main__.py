"""Run the courier site: `python -m devstack.site --port 0` prints its port and serves."""

from __future__ import annotations

import argparse
import asyncio
import sys

from aiohttp import web

from devstack.kinds import HOST
from devstack.site.attention import Attention
from devstack.site.server import Site, StampingServer

BACKLOG = 4096
"""Connections that wait to be accepted: a thousand slugs may call in the same instant."""


async def serve(port: int, attention: Attention) -> None:
    """Serve until cancelled; port 0 takes a free one."""
    server = StampingServer(Site(), attention)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.TCPSite(runner, HOST, port, backlog=BACKLOG).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m devstack.site", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 (default) takes a free one")
    attention = Attention()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(attention)) as runner:
        runner.run(serve(parser.parse_args().port, attention))


if __name__ == "__main__":
    main()
