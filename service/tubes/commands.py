"""beanstalkd's commands as they are written, and what its answers to them mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import greenstalk


class Verb(StrEnum):
    """What a worker asks a beanstalkd from which it takes jobs."""

    DELETE = "delete"
    BURY = "bury"
    RELEASE = "release"
    TOUCH = "touch"
    RESERVE = "reserve-with-timeout"
    STATS_JOB = "stats-job"
    STATS = "stats"
    WATCH = "watch"
    IGNORE = "ignore"


class Reply(StrEnum):
    """How beanstalkd answered.

    ======= ========================================================================================
    DONE    as asked
    MISSING there is no such job: we do not hold it any more, or none was ready to be reserved
    STUCK   beanstalkd had no room; it now counts the job as reserved, by nobody, until it restarts
    ======= ========================================================================================
    """

    DONE = "done"
    MISSING = "missing"
    STUCK = "stuck"


_OF_A_JOB = {
    b"NOT_FOUND": Reply.MISSING,
    b"OUT_OF_MEMORY": Reply.STUCK,
    b"INTERNAL_ERROR": Reply.STUCK,
}

REPLIES: dict[Verb, dict[bytes, Reply]] = {
    Verb.DELETE: {b"DELETED": Reply.DONE, **_OF_A_JOB},
    Verb.BURY: {b"BURIED": Reply.DONE, **_OF_A_JOB},
    Verb.RELEASE: {b"RELEASED": Reply.DONE, b"BURIED": Reply.STUCK, **_OF_A_JOB},
    Verb.TOUCH: {b"TOUCHED": Reply.DONE, **_OF_A_JOB},
    Verb.RESERVE: {
        b"RESERVED": Reply.DONE,
        b"TIMED_OUT": Reply.MISSING,
        b"DEADLINE_SOON": Reply.MISSING,
    },
    Verb.STATS_JOB: {b"OK": Reply.DONE, b"NOT_FOUND": Reply.MISSING},
    Verb.STATS: {b"OK": Reply.DONE},
    Verb.WATCH: {b"WATCHING": Reply.DONE},
    Verb.IGNORE: {b"WATCHING": Reply.DONE, b"NOT_IGNORED": Reply.DONE},
}
"""The first word of every answer that the protocol foresees; any other ends the connection."""

_WITH_BODY = frozenset({b"RESERVED", b"OK"})
"""Answers whose last value is the length of a body that follows."""

_LINE_MOST = 1024
"""Bytes of the line of an answer; beanstalkd writes less than a tenth of that."""

_FACT = re.compile(rb"^(ttr|pri|age): (\d+)", re.MULTILINE)

USUAL = {
    Verb.DELETE: b"DELETED\r\n",
    Verb.BURY: b"BURIED\r\n",
    Verb.RELEASE: b"RELEASED\r\n",
    Verb.TOUCH: b"TOUCHED\r\n",
}
"""What is written when a job was dealt with as asked."""


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


def next_reply(data: bytes, at: int) -> tuple[bytes, list[bytes], bytes, int] | None:
    """Read the reply that begins at `at`: word, values, body, where it ends; None: not all there.

    Raises ValueError, IndexError for what no beanstalkd says.
    """
    end = data.find(b"\r\n", at)
    if end < 0:
        if len(data) - at > _LINE_MOST:
            raise ValueError("a line does not end")
        return None
    word, *values = data[at:end].split(b" ")
    begin = end + 2
    if word not in _WITH_BODY:
        return word, values, b"", begin
    after = begin + int(values[-1])
    if data[after : after + 2] not in {b"\r\n", b"\r", b""} or int(values[-1]) < 0:
        raise ValueError("a body is longer than was said")
    if len(data) < after + 2:
        return None
    return word, values, data[begin:after], after + 2


def read_stats(body: bytes) -> dict[str, str]:
    """Read what `stats` answers."""
    stats = dict(line.split(": ", 1) for line in body.decode().splitlines() if ": " in line)
    # As greenstalk reads them: an id of digits alone is a number.
    return {name: str(int(text)) if text.isdecimal() else text for name, text in stats.items()}


def read_facts(body: bytes) -> tuple[int, int, int]:
    """Read TTR, priority and age out of what `stats-job` answers. Raises LookupError."""
    facts = dict(_FACT.findall(body))
    return int(facts[b"ttr"]), int(facts[b"pri"]), int(facts[b"age"])
