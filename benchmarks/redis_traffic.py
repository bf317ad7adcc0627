"""What workers ask of Redis, from its own counters.

scripts      EVALSHA calls: all that a working worker sends
round trips  reads from sockets; scripts that travel together count once, or once per 16 KB
commands     what the scripts execute inside Redis
"""

from __future__ import annotations

from dataclasses import dataclass

from redis import Redis


@dataclass(frozen=True, slots=True)
class Traffic:
    """Counts since the server started, or between two readings."""

    scripts: int
    round_trips: int
    commands: int

    def since(self, before: Traffic) -> Traffic:
        """Count what came after an earlier reading."""
        return Traffic(
            self.scripts - before.scripts,
            self.round_trips - before.round_trips,
            self.commands - before.commands,
        )


def traffic(redis: Redis) -> Traffic:
    """Read the counters."""
    scripts = int(redis.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))
    stats = redis.info("stats")
    # Redis counts the commands inside scripts as well.
    inside = int(stats["total_commands_processed"]) - scripts
    return Traffic(scripts, int(stats["total_reads_processed"]), inside)
