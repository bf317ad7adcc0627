"""Every link between those who ask and the servers, each through a proxy of its own.

The proxies live in one event loop on a thread; the methods here are for any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from chaos.proxy import FINE, Condition, Proxy, Release
from devstack.servers import Server, free_port

PATIENCE = 10.0


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """Who asks (`worker-1`, `producer`), and which server."""

    client: str
    server: str


class Network:
    """The links, by who asks and whom."""

    def __init__(self, loop: asyncio.AbstractEventLoop, proxies: Mapping[Link, Proxy]) -> None:
        self._loop = loop
        self._proxies = proxies

    @property
    def links(self) -> list[Link]:
        """All links, in a fixed order."""
        return sorted(self._proxies)

    @property
    def replies_dropped(self) -> int:
        """How many answers never arrived although what was asked had been done."""
        return sum(proxy.replies_dropped for proxy in self._proxies.values())

    def heard(self, server: str, clients: Collection[str]) -> list[float]:
        """When answers of a server passed to these clients: `Proxy.heard` of all their links."""
        links = (Link(client, server) for client in clients)
        return sorted(at for link in links for at in self._proxies[link].heard)

    def releases(self, client: str, server: str) -> list[Release]:
        """Which connections the client left, and when the server let go of them."""
        return list(self._proxies[Link(client, server)].releases)

    def port(self, client: str, server: str) -> int:
        """Where `client` reaches `server`."""
        return self._proxies[Link(client, server)].port

    def become(self, links: Iterable[Link], condition: Condition) -> None:
        """Change what links are like."""
        for link in links:
            self._run(self._proxies[link].become(condition))

    def reset(self, links: Iterable[Link]) -> None:
        """Cut all connections over these links, once."""
        for link in links:
            self._loop.call_soon_threadsafe(self._proxies[link].reset)

    def heal(self) -> None:
        """Make all links fine."""
        self.become(self.links, FINE)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)


@contextmanager
def network(clients: Iterable[str], servers: Mapping[str, Server]) -> Iterator[Network]:
    """Run a proxy for each client and server for the length of a `with` block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="network", daemon=True)
    thread.start()
    proxies = {
        Link(client, name): Proxy(free_port(), (server.host, server.port))
        for client in clients
        for name, server in servers.items()
    }
    try:
        for proxy in proxies.values():
            asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(PATIENCE)
        yield Network(loop, proxies)
    finally:
        asyncio.run_coroutine_threadsafe(_stop(proxies.values()), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


async def _stop(proxies: Iterable[Proxy]) -> None:
    for proxy in proxies:
        await proxy.stop()
    ours = asyncio.current_task()
    left = [task for task in asyncio.all_tasks() if task is not ours]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
