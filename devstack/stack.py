"""The three servers together, each in its own process, on free loopback ports."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from devstack.folder import private_folder
from devstack.kinds import BEANSTALKD, MONGODB, REDIS, Durability
from devstack.nursery import Nursery
from devstack.servers import Server, start_server


@dataclass(frozen=True, slots=True)
class Stack:
    """beanstalkd, Redis and MongoDB; a context manager that stops them and removes their data."""

    beanstalkd: Server
    redis: Server
    mongodb: Server
    _closing: ExitStack = field(repr=False)

    @classmethod
    def start(cls, folder: Path | None = None, durability: Durability = Durability.FULL) -> Stack:
        """Start all three at once and return when all serve.

        The data lives in `folder`, by default a private one that is removed at the end.
        Raises ServerMissing, ServerFailed.
        """
        with ExitStack() as closing:
            folder = folder or closing.enter_context(private_folder())
            nursery = closing.enter_context(Nursery())
            servers = []
            for kind in (MONGODB, BEANSTALKD, REDIS):  # the slowest first
                server = start_server(kind, folder, nursery, durability)
                if server.ours:
                    closing.callback(server.stop)
                servers.append(server)
            for server in servers:
                server.wait_ready()
            mongodb, beanstalkd, redis = servers
            return cls(beanstalkd, redis, mongodb, closing.pop_all())

    @property
    def servers(self) -> tuple[Server, ...]:
        """All three."""
        return (self.beanstalkd, self.redis, self.mongodb)

    def stop(self) -> None:
        """Stop the servers that were started here and remove their data."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def environment(stack: Stack) -> dict[str, str]:
    """Build the settings that point a worker at `stack`, as environment variables."""
    return {
        "TRACKER_BEANSTALKD__SERVERS": json.dumps([stack.beanstalkd.url]),
        "TRACKER_REDIS__URL": stack.redis.url,
        "TRACKER_MONGODB__URI": stack.mongodb.url,
    }
