"""A beanstalkd whose disk can be made to fail while it runs, by any user and on any machine."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path

from devstack.find import Program, beanstalkd
from devstack.kinds import BEANSTALKD, Durability, Kind
from devstack.servers import Server

IGNORES_THE_SIGNAL = 'trap "" XFSZ; exec "$0" "$@"'
"""So that a write beyond the limit of a file gets EFBIG, as a bad disk gives EIO."""


def failing_beanstalkd() -> Kind:
    """Make the kind of server; `end_binlog` has its disk fail."""
    program = beanstalkd()

    def arguments(port: int, folder: Path, durability: Durability) -> list[str]:
        given = BEANSTALKD.arguments(port, folder, durability)
        return ["-c", IGNORES_THE_SIGNAL, str(program.path), *given]

    def shell() -> Program:
        return replace(program, path=Path("/bin/sh"))

    return replace(BEANSTALKD, find=shell, arguments=arguments)


def end_binlog(server: Server) -> None:
    """Let every write fail from now on, until the server is started again.

    The first job that is put then is answered BURIED. Later ones are acknowledged, and kept in
    memory only.
    """
    if server.pid is not None:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
