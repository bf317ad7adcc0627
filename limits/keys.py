"""Every Redis key: its type, its content and what ends it.

A script of a slug gets `wait_list:<slug>` and names the slug's other keys from it, in
`lua/lib/context.lua`; survey.lua and inspect.lua name the few that they read. A test compares them
with this file. Documented keys have the names and expiries of the original system; they are either
the truth (leases, starts, lists, hashes) or projections that scripts rewrite (calls_number,
sec_calls, wait_list_activated), by which nothing decides.

============================= ====== ================================== ===========================
key                           type   content                            what ends it
============================= ====== ================================== ===========================
calls_number:<slug>           string calls running now                  60 s after the newest call
sec_calls:<slug>              string starts in the last second          1 s after the last start
calls_leases:<slug>           zset   call id → end of its lease, µs     60 s after the newest call
call_starts:<slug>            zset   start id → its lane is free, µs    its last lane is free
wait_list:<slug>              list   numbers, oldest first              empty
wait_list_automatic:<slug>    list   the same, AUTOMATIC requests       empty
wait_later:<slug>             zset   number → due, ms                   empty
wait_requests:<slug>          hash   number → record; #id → operation   empty
wait_inflight:<slug>          hash   call id → record; =number → call   empty
wait_drainer:<slug>           string who asks next, and when (µs)       that instant + 3 s
wait_list_activated:<slug>    string "1"                                when the last one is due
calls_paused:<slug>           string why nobody calls                   the end of the pause
calls_breaker:<slug>          string pauses in a row                    the next answer, or 24 h
calls_hour:<slug>             zset   start id → start, µs               1 h after the last start
calls_day:<slug>              string starts since the daily reset       the daily reset
tracking:counts:<slug>        hash   what happened so far               never
wait_slugs                    set    slugs the sweeper looks at         empty
tracking:workers              zset   worker process, JSON → until, ms   20 s after the last look
tracking:epoch                string "<name> <quiet until, µs>"         never
tracking:status:<id>          string the operation, JSON                24 h after its end
tracking:answer:<slug>:<no>   string the last answer, JSON              30 s, or the default max_age
tracking:forgotten:<slug>:<n> string when it was forgotten, µs          1 h
tracking:secret               string names jobs that carry no id        never
============================= ====== ================================== ===========================
"""

from __future__ import annotations

from typing import NamedTuple

from tracking.request import Slug

EPOCH = "tracking:epoch"
SECRET = "tracking:secret"  # noqa: S105 - the name of a key
SLUGS = "wait_slugs"
WORKERS = "tracking:workers"
STATUS = "tracking:status:"
FORGOTTEN = "tracking:forgotten:"


class SlugKeys(NamedTuple):
    """All keys of one slug; the last three are prefixes."""

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
    calls_breaker: str
    calls_hour: str
    calls_day: str
    counts: str
    slugs: str
    epoch: str
    status: str
    forgotten: str
    answer: str


def wait_list(slug: Slug) -> str:
    """The key by which a script knows the slug, and names its others."""
    return f"wait_list:{slug}"


def of_slug(slug: Slug) -> SlugKeys:
    """The keys of one slug."""
    return SlugKeys(
        calls_number=f"calls_number:{slug}",
        sec_calls=f"sec_calls:{slug}",
        calls_leases=f"calls_leases:{slug}",
        call_starts=f"call_starts:{slug}",
        wait_list=wait_list(slug),
        wait_list_automatic=f"wait_list_automatic:{slug}",
        wait_later=f"wait_later:{slug}",
        wait_requests=f"wait_requests:{slug}",
        wait_inflight=f"wait_inflight:{slug}",
        wait_drainer=f"wait_drainer:{slug}",
        wait_list_activated=f"wait_list_activated:{slug}",
        calls_paused=f"calls_paused:{slug}",
        calls_breaker=f"calls_breaker:{slug}",
        calls_hour=f"calls_hour:{slug}",
        calls_day=f"calls_day:{slug}",
        counts=f"tracking:counts:{slug}",
        slugs=SLUGS,
        epoch=EPOCH,
        status=STATUS,
        forgotten=FORGOTTEN,
        answer=f"tracking:answer:{slug}:",
    )


def status(operation: str) -> str:
    """What became of one operation."""
    return f"{STATUS}{operation}"
