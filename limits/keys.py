"""Every Redis key: its type, its content and what ends it; and the texts of scripts.

What scripts answer is read into the nouns here, and what they are asked is written for them.

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
                                     (call id, where numbers count)
calls_day:<line>              string starts since the daily reset       the daily reset
tracking:counts:<line>        hash   open operations, calls, their time never
wait_slugs                    set    lines the sweeper looks at         empty
tracking:workers              zset   worker process, JSON → until, ms   20 s after the last look
tracking:accounts             set    accounts but main that ever asked  never
tracking:form                 string how records are written            never
tracking:couriers             zset   line → until, ms: some worker knows up to 20 s after a look
                                     it
tracking:measured             stream sends and ends of calls, measured  never; it holds 15 s
tracking:epoch                string "<name> <quiet until, µs>"         never
tracking:leap                 string "<where the clock leapt to, µs>     1 h after the last leap
                                     <by how much in all, µs>"
tracking:rules                string the newest revision of the rules   never
tracking:account_quotas       hash   account → calls a day; ! → the     the last quota
                                     revision of the rules
tracking:account_calls        hash   account → calls of the day, where  midnight UTC
                                     it has a quota
tracking:server               string which Redis wrote here last, and    never
                                     how often it was asked
tracking:status:<id>          string the operation, JSON                24 h (15 min) after its end,
                                                                        once that is archived
tracking:to_archive           zset   id → its end, ms                   archived
tracking:archive_lock1        string who archives                       15 s after it last asked
tracking:archive_lock2        string who may report what it archived    30 s after it last asked
tracking:planner:<slug>       string who plans the courier's re-checks   45 s after it last asked
tracking:events               stream state → id, one for each end       1 h after the newest end
tracking:operations:<slug>:<> zset   id → its call or end, ms           24 h after its last entry
tracking:answer:<slug>:<no>   string the last answer: output, tab, rest default max_age, 30 s to 1 h
tracking:forgotten:<sha1>     string when a parcel was forgotten, µs     1 h
tracking:defects:<job>        string defects that came up over a job     24 h after the first
tracking:secret               string names jobs without id, seals ids   never
tracking:stats:successes      string operations that ended in SUCCESS   never
tracking:stats:errors         string operations that ended in ERROR     never
tracking:stats:operations     hash   admitted, ended by state, refused   never
tracking:stats:slugs          set    slugs of which something is below  never
tracking:stats:made           string until when longer spans are made   never
tracking:stats1:<t>           hash   field → times: 10 s, all slugs     1 h after its last new field
tracking:stats2:<slug>:<t>    hash   10 min; without <slug> all slugs   1 week after the same
tracking:stats3:<slug>:<t>    hash   1 day; without <slug> all slugs    8 days after the last sum
tracking:worst:<t>            hash   line → what was measured, worst,    26 h after its last change
                                     in the hour; # → of the judge
============================= ====== ================================== ===========================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from limits.rules import AHEAD_SECONDS, LATE_SECONDS, Rules, answer_keep_seconds
from tracking.call import (
    Attempt,
    Call,
    Full,
    IdConflict,
    NotAdmitted,
    Permit,
    Setback,
    TooLate,
    Verdict,
)
from tracking.line import Line, slug_of
from tracking.request import (
    Account,
    Number,
    Origin,
    TrackingRequest,
    account_of,
    anonymous_id,
    number_and_account,
    own_number,
)

EPOCH = "tracking:epoch"
SERVER = "tracking:server"
LEAP = "tracking:leap"
REVISION = "tracking:rules"
ACCOUNT_QUOTAS = "tracking:account_quotas"
ACCOUNT_CALLS = "tracking:account_calls"
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

SUCCESSES, ERRORS = "tracking:stats:successes", "tracking:stats:errors"
OPERATIONS = "tracking:stats:operations"
TALLIED_SLUGS, SPANS_MADE = "tracking:stats:slugs", "tracking:stats:made"


class LineKeys(NamedTuple):
    """All keys of one line, two prefixes of its keys, and five of all lines."""

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
    wait_order: str
    wait_unreadable: str
    counts: str
    operations: str
    answer: str
    lines: str
    epoch: str
    status: str
    forgotten: str
    history: str


def wait_list(line: Line) -> str:
    """The key by which a script knows the line, and names its others."""
    return f"wait_list:{line}"


def calls_brake(line: Line) -> str:
    """Name only this key of a line: of a thousand lines all keys take milliseconds."""
    return f"calls_brake:{line}"


def of_line(line: Line) -> LineKeys:
    """The keys of one line."""
    own = [f"{name}:{line}" for name in LineKeys._fields[:18]]
    own += (
        f"tracking:counts:{line}",
        f"wait_operations:{line}:",
        f"tracking:answer:{slug_of(line)}:",
    )
    return LineKeys._make((*own, LINES, EPOCH, STATUS, FORGOTTEN, HISTORY))


def status(operation: str) -> str:
    """What became of one operation."""
    return f"{STATUS}{operation}"


def worst(at: int) -> str:
    """Name the hash of what was measured of calls in the hour from then (Unix seconds)."""
    return f"tracking:worst:{at}"


def planner(line: str) -> str:
    """Who plans the re-checks of a courier, or fills the line of a service."""
    return f"tracking:planner:{line}"


def ten_seconds(at: int) -> str:
    """What happened in the 10 s from `at`, Unix seconds."""
    return f"tracking:stats1:{at}"


def ten_minutes(at: int, slug: str = "") -> str:
    """What happened in the 10 minutes from `at`, to one slug or to all."""
    return f"tracking:stats2:{slug and f'{slug}:'}{at}"


def day(at: int, slug: str = "") -> str:
    """What happened in the day from `at`, to one slug or to all."""
    return f"tracking:stats3:{slug and f'{slug}:'}{at}"


class Anonymous(msgspec.Struct):
    """Requests without an id, joined into one operation; `at` None: as long as the record."""

    id: str
    count: int = 1
    at: int | None = None


class GivenUp(msgspec.Struct):
    """Why nobody will answer those who came until `before`, ms (lua/sweep.lua)."""

    why: str
    before: int = 0


class Record(msgspec.Struct):
    """Everybody who waits for one number (lua/lib/record.lua); times in ms."""

    n: str
    since: int
    anon: Anonymous | None = None
    ids: int = 0
    given: str | None = None
    fields: dict[str, str] = {}
    auto: bool = False
    trace: str | None = None
    attempts: int = 0
    deaths: int = 0
    tries: int = 0
    failing: int | None = None
    alone: bool = False
    dying: bool | GivenUp = False

    @property
    def given_up(self) -> str:
        """Why it is given up, "" where it is not."""
        return self.dying.why if isinstance(self.dying, GivenUp) else ""

    def spares(self, anonymous: Anonymous) -> bool:
        """Whether those came too late to be given up with the others."""
        at = self.since if anonymous.at is None else anonymous.at
        return isinstance(self.dying, GivenUp) and at > self.dying.before


class Ids(msgspec.Struct):
    """The ids of at most 100 operations."""

    ids: list[str] | dict[str, str] = []


_read_record = msgspec.json.Decoder(Record).decode
_read_ids = msgspec.json.Decoder(Ids).decode
_encode = msgspec.json.Encoder().encode


def read_refusal(told: list[Any]) -> NotAdmitted | None:
    """Read why admit.lua did not take a request; None where it says something else."""
    match told:
        case ["reused", parcel]:
            return IdConflict(parcel)
        case ["full", waiting]:
            return Full(int(waiting))
        case ["too_late", starts_us]:
            return TooLate(int(starts_us) / 1_000_000)
    return None


def request_of(line: Line, record: Record) -> tuple[TrackingRequest, Account]:
    """The merged request of everybody who waits, and the account that they belong to."""
    number, account = number_and_account(record.n)
    request = TrackingRequest(
        slug=slug_of(line),
        number=Number(number),
        given=record.given or number,
        origin=Origin.AUTOMATIC if record.auto else Origin.MANUAL,
        fields=record.fields,
        traceparent=record.trace,
    )
    return request, account


def rides(grant: list[Any]) -> bool:
    """Whether a grant is for a number that rides with the call before it."""
    return "~" in grant[0]


def read_call(line: Line, rules: Rules, grant: list[Any], permit: Permit, nth: int) -> Call:
    """Read the call of one grant of lua/lib/flight.lua, with the permit for it."""
    call_id, _, granted_us, text, ids = grant
    record = _read_record(text)
    operations = tuple(_read_ids(ids).ids)  # an empty Lua table is an object: no ids either way
    requests, anonymous = record.ids, record.anon
    request, account = request_of(line, record)
    if anonymous is not None:
        requests += anonymous.count
        if rules.kind.operations and not record.spares(anonymous):
            operations += (anonymous_id(slug_of(line), record.n, anonymous.id),)
    return Call(  # by place: names cost as much again
        call_id,
        line,
        request,
        permit,
        int(granted_us),
        record.since / 1000,
        record.attempts,
        record.deaths,
        requests,
        operations,
        record.tries,
        record.failing and record.failing / 1000,
        record.given_up,
        account,
        record.alone,
        nth,
    )


def write_request(request: TrackingRequest, job_key: str, *, full: bool = False) -> bytes:
    """Write a request for admit.lua; what is absent or plain is left out."""
    number = own_number(request.number, account_of(request))
    body: dict[str, object] = {"number": number, "job": job_key}
    texts = (request.id, request.traceparent, request.resend_of, request.webhook)
    for name, text in zip(("id", "trace", "resend_of", "webhook"), texts, strict=True):
        if text is not None:
            body[name] = text  # noqa: PERF403 - that makes one more
    times = (("age", request.max_age), ("till", request.expires_at), ("put", request.put_at))
    for name, seconds in times:
        if seconds is not None:
            body[name] = round(seconds * 1000)
    if request.given != request.number:
        body["given"] = request.given
    if request.origin is Origin.AUTOMATIC:
        body["auto"] = True
    if request.fields:
        body["fields"] = dict(request.fields)
    flags = (("alone", request.alone), ("cancels", request.cancel_on_reply), ("full", full))
    for name, is_so in flags:
        if is_so:
            body[name] = True
    return _encode(body)


def write_answer(answer: Verdict) -> bytes:
    """Write a stored answer for admit.lua."""
    output = _encode(answer.output).decode()
    return _encode(_said(answer, answer.observed_ms or 0) | {"output": output})


def write_verdict(verdict: Verdict, observed_ms: int, fields: Mapping[str, str]) -> bytes:
    """Write a verdict for finish.lua. `fields` are what was asked with."""
    said = _said(verdict, observed_ms) | ({"fields": dict(fields)} if fields else {})
    return _encode(verdict.output) + b"\t" + _encode(said)


def _said(verdict: Verdict, observed_ms: int) -> dict[str, object]:
    state, answered = str(verdict.state), verdict.answered
    body: dict[str, object] = {"state": state, "observed": observed_ms, "answered": answered}
    if verdict.setback is not None:
        body["setback"] = _setback(verdict.setback)
    if verdict.unsent:
        body["unsent"] = True
    return body | _told(verdict.attempt)


def write_setback(setback: Setback, mark: str = "", *, unsent: bool) -> bytes:
    """Write a setback for retry.lua, with the mark of what was refused; `unsent`: nothing left."""
    more: dict[str, object] = {"unsent": True} if unsent else {}
    more |= _told(setback.attempt)
    return _encode(_setback(setback) | more | ({"mark": mark} if mark else {}))


def _told(attempt: Attempt | None) -> dict[str, object]:
    """Tell of a call that was made; Redis knows when it was granted."""
    return {"attempt": (attempt.outcome, attempt.http_status, attempt.ms)} if attempt else {}


def _setback(setback: Setback) -> dict[str, object]:
    body: dict[str, object] = {"why": setback.why, "delay": round(setback.delay * 1000)}
    if setback.charged:
        body["charged"] = True
        if setback.spares:
            body["spares"] = True
        if setback.attempts is not None:
            body["most"] = setback.attempts
    if setback.brake is not None:
        body["after"] = setback.brake.after
        body["first"] = round(setback.brake.first_seconds * 1000)
        body["cap"] = round(setback.brake.cap_seconds * 1000)
        if setback.brake.early_seconds is not None:
            body["early"] = round(setback.brake.early_seconds * 1000)
    if setback.named is not None:
        body["named"] = max(1, round(setback.named * 1000))
    if setback.patience is not None:
        body["patience"] = round(setback.patience * 1000)
    if setback.firm:
        body["firm"] = True
    return body | ({"fields": dict(setback.fields)} if setback.fields else {})


def write_rules(rules: Rules, common: Mapping[str, object]) -> bytes:
    """Write the rules of a line as lua/lib/context.lua reads them.

    `common` holds what is the same for all lines: epoch, token, deaths, max_age_ms.
    """
    keep_seconds = answer_keep_seconds(int(str(common["max_age_ms"])) / 1000)
    body: dict[str, object] = {
        "concurrent": rules.concurrent,
        "per_second": rules.per_second,
        "together": rules.together,
        "window_us": rules.window_us,
        "lane_us": rules.reach_us[1],
        "late_us": round(LATE_SECONDS * 1_000_000),
        "ahead_us": round(AHEAD_SECONDS * 1_000_000),
        "lease_us": round(rules.lease_seconds * 1_000_000),
        "max_waiting": rules.max_waiting,
        "answer_ms": round(keep_seconds * 1000),
        "day_resets_at_us": rules.day_resets_at_seconds * 1_000_000,
        "merges": rules.kind.merges,
        "remembers": rules.kind.remembers,
        "takes_over": rules.kind.takes_over,
        "operations": rules.kind.operations,
        "counted": rules.kind.counted,
        **common,
    }
    if rules.together > 1:
        body["fill_us"] = rules.fill_us
        body["quotas_count_numbers"] = rules.quotas_count_numbers
    if rules.per_hour is not None:
        body["per_hour"] = rules.per_hour
    if rules.per_day is not None:
        body["per_day"] = rules.per_day
    return _encode(body)
