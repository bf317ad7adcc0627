"""Every Redis key: its type, its content and what ends it.

A script of a line gets `wait_list:<line>` and names the line's other keys from it, in
`lua/lib/context.lua`; survey.lua and inspect.lua name the few that they read. A test compares them
with this file. Documented keys have the names and expiries of the original system; they are either
the truth (leases, starts, lists, hashes) or projections that scripts rewrite (calls_number,
sec_calls, wait_list_activated), by which nothing decides. A number of another account than `main`
stands everywhere as NUMBER@account. Of a line that was removed for good no key stays but what ends
by itself (lua/clear.lua).

============================= ====== ================================== ===========================
key                           type   content                            what ends it
============================= ====== ================================== ===========================
calls_number:<line>           string calls running now                  60 s after the newest call
sec_calls:<line>              string starts in the last second          1 s after the last start
calls_leases:<line>           zset   call id → end of its lease, µs     60 s after the newest call
call_starts:<line>            zset   start id → its lane is free, µs    its last lane is free
wait_list:<line>              list   numbers, oldest first              empty
wait_list_automatic:<line>    list   the same, AUTOMATIC requests       empty
wait_order:<line>             hash   where the lists begin, their gaps  both lists are empty
wait_later:<line>             zset   number → due, ms                   empty
wait_requests:<line>          hash   number → record                    empty
wait_operations:<line>:<no>   list   ids of a record with more than 16   empty
wait_inflight:<line>          hash   call id → record; =number → call;  empty
                                     #lead → how many of a group run
wait_unreadable:<line>        hash   record's key and field → its text  a person
wait_drainer:<line>           string who asks next, and when (µs)       that instant + 3 s
wait_list_activated:<line>    string "1"                                when the last one is due
calls_paused:<line>           string why nobody calls                   the end of the pause
calls_held:<line>             string why somebody paused it, JSON       its end, if one was named
calls_brake:<line>            string how its calls fail, JSON           24 h after the last failure
calls_hour:<line>             zset   start id → start, µs               2 h after the last start
calls_day:<line>              string starts since the daily reset       the daily reset
tracking:counts:<line>        hash   what happened so far               never
wait_slugs                    set    lines the sweeper looks at         empty
tracking:workers              zset   worker process, JSON → until, ms   20 s after the last look
tracking:accounts             set    accounts but main that ever asked  never
tracking:form                 string how records are written            never
tracking:couriers             zset   line → until, ms: some worker knows 20 s after the last look
                                     it
tracking:measured             stream sends and ends of calls, measured  never; it holds 3 s
tracking:epoch                string "<name> <quiet until, µs>"         never
tracking:leap                 string "<where the clock leapt to, µs>     1 h after the last leap
                                     <by how much in all, µs>"
tracking:rules                string the newest revision of the rules   never
tracking:server               string which Redis wrote here last, and    never
                                     how often it was asked
tracking:status:<id>          string the operation, JSON                24 h (15 min) after its end,
                                                                        once that is archived
tracking:to_archive           zset   id → its end, ms                   archived
tracking:archive_lock1        string who archives                       15 s after it last asked
tracking:archive_lock2        string who may report what it archived    30 s after it last asked
tracking:events               stream state → id, one for each end       1 h after the newest end
tracking:operations:<slug>:<> zset   id → its call or end, ms           24 h after its last entry
tracking:answer:<slug>:<no>   string the last answer, JSON              default max_age, 30 s to 1 h
tracking:forgotten:<sha1>     string when a parcel was forgotten, µs     1 h
tracking:defects:<job>        string defects that came up over a job     24 h after the first
tracking:secret               string names jobs without id, seals ids   never
tracking:stats:successes      string operations that ended in SUCCESS   never
tracking:stats:errors         string operations that ended in ERROR     never
tracking:stats:slugs          set    slugs of which something is below  never
tracking:stats:made           string until when longer spans are made   never
tracking:stats1:<t>           hash   field → times: 10 s, all slugs     1 h after its last new field
tracking:stats2:<slug>:<t>    hash   10 min; without <slug> all slugs   1 week after the same
tracking:stats3:<slug>:<t>    hash   1 day; without <slug> all slugs    8 days after the last sum
============================= ====== ================================== ===========================
"""

from __future__ import annotations

from typing import NamedTuple

from tracking.line import Line, slug_of

EPOCH = "tracking:epoch"
SERVER = "tracking:server"
LEAP = "tracking:leap"
REVISION = "tracking:rules"
SECRET = "tracking:secret"  # noqa: S105 - the name of a key
LINES = "wait_slugs"
WORKERS = "tracking:workers"
COURIERS = "tracking:couriers"
ACCOUNTS = "tracking:accounts"
FORM = "tracking:form"
TO_ARCHIVE = "tracking:to_archive"
ARCHIVE_LOCKS = ("tracking:archive_lock1", "tracking:archive_lock2")
EVENTS = "tracking:events"
MEASURED = "tracking:measured"
STATUS = "tracking:status:"
FORGOTTEN = "tracking:forgotten:"
HISTORY = "tracking:operations:"
DEFECTS = "tracking:defects:"


SUCCESSES = "tracking:stats:successes"
ERRORS = "tracking:stats:errors"
TALLIED_SLUGS = "tracking:stats:slugs"
SPANS_MADE = "tracking:stats:made"


class LineKeys(NamedTuple):
    """All keys of one line; the last five are prefixes."""

    calls_number: str
    sec_calls: str
    calls_leases: str
    call_starts: str
    wait_list: str
    wait_list_automatic: str
    wait_later: str
    wait_requests: str
    wait_inflight: str
    wait_drainer: str
    wait_list_activated: str
    calls_paused: str
    calls_held: str
    calls_brake: str
    calls_hour: str
    calls_day: str
    counts: str
    wait_order: str
    wait_unreadable: str
    lines: str
    epoch: str
    status: str
    forgotten: str
    history: str
    operations: str
    answer: str


def wait_list(line: Line) -> str:
    """The key by which a script knows the line, and names its others."""
    return f"wait_list:{line}"


def of_line(line: Line) -> LineKeys:
    """The keys of one line."""
    return LineKeys(
        calls_number=f"calls_number:{line}",
        sec_calls=f"sec_calls:{line}",
        calls_leases=f"calls_leases:{line}",
        call_starts=f"call_starts:{line}",
        wait_list=wait_list(line),
        wait_list_automatic=f"wait_list_automatic:{line}",
        wait_later=f"wait_later:{line}",
        wait_requests=f"wait_requests:{line}",
        wait_inflight=f"wait_inflight:{line}",
        wait_drainer=f"wait_drainer:{line}",
        wait_list_activated=f"wait_list_activated:{line}",
        calls_paused=f"calls_paused:{line}",
        calls_held=f"calls_held:{line}",
        calls_brake=f"calls_brake:{line}",
        calls_hour=f"calls_hour:{line}",
        calls_day=f"calls_day:{line}",
        counts=f"tracking:counts:{line}",
        wait_order=f"wait_order:{line}",
        wait_unreadable=f"wait_unreadable:{line}",
        lines=LINES,
        epoch=EPOCH,
        status=STATUS,
        forgotten=FORGOTTEN,
        history=HISTORY,
        operations=f"wait_operations:{line}:",
        answer=f"tracking:answer:{slug_of(line)}:",
    )


def status(operation: str) -> str:
    """What became of one operation."""
    return f"{STATUS}{operation}"


def ten_seconds(at: int) -> str:
    """What happened in the 10 s from `at`, Unix seconds."""
    return f"tracking:stats1:{at}"


def ten_minutes(at: int, slug: str = "") -> str:
    """What happened in the 10 minutes from `at`, to one slug or to all."""
    return f"tracking:stats2:{slug and f'{slug}:'}{at}"


def day(at: int, slug: str = "") -> str:
    """What happened in the day from `at`, to one slug or to all."""
    return f"tracking:stats3:{slug and f'{slug}:'}{at}"
