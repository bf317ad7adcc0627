"""A Redis server with its replicas, mostly one, and three Sentinels that promote one of them.

Their periods are a tenth of what they ship with: a failover takes about a second.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import redis

from devstack.errors import ServerFailed
from devstack.folder import private_folder
from devstack.kinds import HOST, REDIS, Durability, Kind
from devstack.nursery import Nursery
from devstack.servers import Server, start_server

SERVICE = "watched"
PASSWORD = "of-the-sentinels"  # noqa: S105 - of servers that live for one test
"""The Sentinels ask for it; the servers that they watch ask for none."""

PATIENCE = 8.0
STEP = 0.02
ANSWER_PATIENCE = 1.0

DOWN_AFTER_MS, FAILOVER_TIMEOUT_MS = 800, 1_000
PERIODS_MS = {
    "info-period": 100,
    # Five of these must be longer than a second, or no replica is found good enough.
    "ping-period": 250,
    "ask-period": 50,
    # After four of these a Sentinel takes back a promotion that another one has not told it of.
    "publish-period": 300,
    "election-timeout": 500,
    "min-link-reconnect-period": 100,
    # A Sentinel that was not scheduled for so long does nothing for 30 s.
    "tilt-trigger": 10_000,
}
LOGIN = "of-one-another"
"""Each Sentinel, and each replica, logs in at the servers under a name of its own: `cut_off`."""

_SERVER = (
    'save ""',
    f"user sentinel on >{LOGIN} ~* &* +@all",
    *(f"user replica-{n} on >{LOGIN} ~* &* +@all" for n in range(3)),
    f"masterauth {LOGIN}",
    "appendonly yes",
    "appendfsync always",
    "maxmemory-policy noeviction",
    "min-replicas-to-write 1",
    "min-replicas-max-lag 2",
    "repl-ping-replica-period 1",
    "repl-diskless-sync-delay 0",
)
_SENTINEL = (
    f"requirepass {PASSWORD}",
    f"sentinel sentinel-pass {PASSWORD}",
    f"sentinel auth-user {SERVICE} sentinel",
    f"sentinel auth-pass {SERVICE} {LOGIN}",
    f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
    f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}",
)


@dataclass(frozen=True, slots=True)
class Watched:
    """The servers and their Sentinels. Which server is the primary changes with each failover."""

    servers: Sequence[Server]
    sentinels: Sequence[Server]

    @property
    def addresses(self) -> list[str]:
        """The Sentinels, each as "host:port"."""
        return [f"{each.host}:{each.port}" for each in self.sentinels]

    def primary(self) -> Server:
        """The server that most Sentinels name."""
        named = Counter(self._named_by(sentinel) for sentinel in self.sentinels)
        ((port, _),) = named.most_common(1)
        return next(server for server in self.servers if server.port == port)

    def other(self, server: Server) -> Server:
        """The first one that is not `server`."""
        return next(each for each in self.servers if each is not server)

    def fail_over(self) -> None:
        """Have the replica promoted while all are well; nothing is lost by that."""
        server = self.other(self.primary())

        def promoted() -> bool:
            if self.primary() is not server:
                with _client(self.sentinels[0], PASSWORD) as client:
                    # Refused while one is under way, or while the replica is not well.
                    client.execute_command("SENTINEL", "FAILOVER", SERVICE)
            return self.primary() is server

        _until(promoted, f"the promotion of {server.url}")
        self.await_promotion(server)

    def await_promotion(self, server: Server) -> None:
        """Return when all Sentinels name `server`, and it takes itself for the primary."""
        ports = {server.port}
        _until(
            lambda: set(map(self._named_by, self.sentinels)) == ports,
            f"the promotion of {server.url}",
        )
        _until(lambda: _told(server)["role"] == "master", f"{server.url} as a primary")

    def ask_for_replicas(self, least: int) -> None:
        """Let a primary take writes only with so many replicas, which both servers do with one."""
        for server in self.servers:
            with _client(server) as client:
                client.config_set("min-replicas-to-write", least)

    def cut_replication(self) -> Server:
        """Let nothing more reach the replica, which is frozen; returns it."""
        primary = self.primary()
        replica = self.other(primary)
        replica.pause()
        with _client(primary) as client:
            client.client_kill_filter(_type="replica")
        return replica

    def promote_no_more(self) -> None:
        """Take no server for down from now on, however long a busy machine keeps it waiting."""
        for sentinel in self.sentinels:
            with _client(sentinel, PASSWORD) as client:
                client.sentinel_set(SERVICE, "down-after-milliseconds", 600_000)

    def mend(self) -> None:
        """Run everything as it was; returns when the primary has its replica."""
        for server in (*self.servers, *self.sentinels):
            server.resume()
            server.start()
        _until(self._is_whole, "a primary with its replica")
        self.ask_for_replicas(1)

    def _is_whole(self) -> bool:
        primary = self.primary()
        replica = self.other(primary)
        if _told(replica)["role"] == "master":
            with _client(replica) as client:  # a Sentinel would do it too, some seconds later
                client.replicaof(primary.host, primary.port)
        told = _told(primary)
        replicas = len(self.servers) - 1
        is_whole = told["role"] == "master" and told["connected_slaves"] == replicas
        return is_whole and _knows(self.sentinels, replicas)

    def _named_by(self, sentinel: Server) -> int:
        with _client(sentinel, PASSWORD) as client:
            return int(client.sentinel_get_master_addr_by_name(SERVICE)[1])


@contextmanager
def watched(replicas: int = 1) -> Iterator[Watched]:
    """Run them all for the length of a `with` block."""
    with ExitStack() as closing:
        folder = closing.enter_context(private_folder())
        nursery = closing.enter_context(Nursery())

        def started(name: str, arguments: Callable[[int, Path, Durability], list[str]]) -> Server:
            (folder / name).mkdir()
            kind = _kind(arguments)
            server = start_server(kind, folder / name, nursery)
            closing.callback(server.kill)
            server.wait_ready()
            return server

        first = started("server-0", _configured((*_SERVER, "masteruser replica-0")))
        others = [
            started(
                f"server-{n}",
                _configured(
                    (*_SERVER, f"masteruser replica-{n}", f"replicaof {HOST} {first.port}")
                ),
            )
            for n in range(1, replicas + 1)
        ]
        monitor = f"sentinel monitor {SERVICE} {HOST} {first.port} 2"
        sentinels = [
            started(f"sentinel-{n}", _configured((monitor, *_SENTINEL), "--sentinel"))
            for n in range(3)
        ]
        for sentinel in sentinels:
            with _client(sentinel, PASSWORD) as client:
                words = [str(word) for period in PERIODS_MS.items() for word in period]
                client.execute_command("SENTINEL", "DEBUG", *words)
        found = Watched((first, *others), sentinels)
        found.mend()
        yield found


def cut_off(found: Watched, side: Sequence[Server]) -> None:
    """Let no Sentinel, no other server and no new connection reach the servers of one side."""
    for server in side:
        others = [n for n, each in enumerate(found.servers) if each not in side]
        with _client(server) as client:
            # Who is here stays; who comes later without a login gets nothing.
            client.execute_command("ACL", "SETUSER", "default", "off")
            for user in ("sentinel", *(f"replica-{n}" for n in others)):
                client.execute_command("ACL", "SETUSER", user, "off")
                client.execute_command("CLIENT", "KILL", "USER", user)


def _kind(arguments: Callable[[int, Path, Durability], list[str]]) -> Kind:
    """A Redis of our own, whatever address is configured."""
    return replace(REDIS, variable="", arguments=arguments)


def _configured(
    lines: Sequence[str], *options: str
) -> Callable[[int, Path, Durability], list[str]]:
    """Arguments with a file: a failover writes into it what each one is from then on."""

    def arguments(port: int, folder: Path, _: Durability) -> list[str]:
        file = folder / "redis.conf"
        file.write_text("\n".join((f"bind {HOST}", f"port {port}", f'dir "{folder}"', *lines, "")))
        return [str(file), *options]

    return arguments


def _client(server: Server, password: str | None = None) -> redis.Redis:
    return redis.Redis(
        server.host,
        server.port,
        password=password,
        decode_responses=True,
        socket_timeout=ANSWER_PATIENCE,
    )


def _told(server: Server) -> dict[str, object]:
    with _client(server) as client:
        return dict(client.info("replication"))


def _knows(sentinels: Sequence[Server], count: int) -> bool:
    """Whether each Sentinel knows the others and so many replicas that are well."""
    for sentinel in sentinels:
        with _client(sentinel, PASSWORD) as client:
            state = client.sentinel_master(SERVICE)
            replicas = client.sentinel_slaves(SERVICE)
        well = [each for each in replicas if not each["is_disconnected"] and not each["is_sdown"]]
        if state["num-other-sentinels"] != len(sentinels) - 1 or state["flags"] != "master":
            return False
        if len(well) != count or any(each["master-link-status"] != "ok" for each in well):
            return False
    return True


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        with suppress(redis.RedisError, ValueError):
            if condition():
                return
        if time.monotonic() > deadline:
            raise ServerFailed("redis", f"{what}: not within {PATIENCE:g} s", None)
        time.sleep(STEP)
