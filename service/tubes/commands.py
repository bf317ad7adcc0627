"""The commands that go out ahead of greenstalk, which reads the replies, and what these mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import greenstalk

RESERVE_NOW = b"reserve-with-timeout 0\r\n"


class Verb(StrEnum):
    """What may be done to a held job."""

    DELETE = "delete"
    BURY = "bury"
    RELEASE = "release"
    TOUCH = "touch"


class Reply(StrEnum):
    """How beanstalkd answered.

    ======= ========================================================================================
    DONE    as asked
    MISSING we do not hold the job any more (its TTR ran out), or nobody has it
    STUCK   beanstalkd had no room; it now counts the job as reserved, by nobody, until it restarts
    ======= ========================================================================================
    """

    DONE = "done"
    MISSING = "missing"
    STUCK = "stuck"


DONE = {
    Verb.DELETE: b"DELETED\r\n",
    Verb.BURY: b"BURIED\r\n",
    Verb.RELEASE: b"RELEASED\r\n",
    Verb.TOUCH: b"TOUCHED\r\n",
}
"""What is written when a thing was done as asked."""


@dataclass(frozen=True, slots=True)
class Placing:
    """How a job is put. `delay` and `ttr` are seconds; a lower `priority` comes first."""

    priority: int = greenstalk.DEFAULT_PRIORITY
    delay: int = greenstalk.DEFAULT_DELAY
    ttr: int = greenstalk.DEFAULT_TTR


def put_command(body: bytes, placing: Placing) -> bytes:
    """Write what greenstalk writes for a put."""
    head = b"put %d %d %d %d" % (placing.priority, placing.delay, placing.ttr, len(body))
    return b"%b\r\n%b\r\n" % (head, body)


def command(verb: Verb, job: int, priority: int | None) -> bytes:
    """Write the line that greenstalk writes for `verb`."""
    match verb:
        case Verb.DELETE:
            return b"delete %d\r\n" % job
        case Verb.BURY:
            return b"bury %d %d\r\n" % (job, priority or 0)
        case Verb.RELEASE:
            return b"release %d %d 0\r\n" % (job, priority or 0)
        case Verb.TOUCH:
            return b"touch %d\r\n" % job
        case _:
            assert_never(verb)
