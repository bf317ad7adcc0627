"""What the scripts answer, read into the nouns; and what they are asked, written for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from limits.rules import AHEAD_SECONDS, LATE_SECONDS, Rules, answer_keep_seconds
from tracking.account import Account, number_and_account, own_number
from tracking.call import Attempt, Call, Full, IdConflict, NotAdmitted, Setback, TooLate, Verdict
from tracking.line import Line, slug_of
from tracking.operation import anonymous_id
from tracking.permit import Permit
from tracking.request import NO_FIELDS, Number, Origin, TrackingRequest, account_of


class Anonymous(msgspec.Struct):
    """Requests without an id, joined into one operation."""

    id: str
    count: int = 1
    at: int = 0


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
    dying: bool | GivenUp = False

    @property
    def given_up(self) -> str:
        """Why it is given up, "" where it is not."""
        return self.dying.why if isinstance(self.dying, GivenUp) else ""

    def spares(self, anonymous: Anonymous) -> bool:
        """Whether those came too late to be given up with the others."""
        return isinstance(self.dying, GivenUp) and anonymous.at > self.dying.before


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


def read_call(line: Line, rules: Rules, grant: list[Any], permit: Permit) -> Call:
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
    return Call(
        id=call_id,
        line=line,
        request=request,
        permit=permit,
        granted_us=int(granted_us),
        waiting_since=record.since / 1000,
        attempts=record.attempts,
        deaths=record.deaths,
        requests=requests,
        operations=operations,
        tries=record.tries,
        failing_since=record.failing and record.failing / 1000,
        given_up=record.given_up,
        account=account,
    )


def write_request(request: TrackingRequest, job_key: str, *, full: bool = False) -> bytes:
    """Write a request for admit.lua; what is absent or plain is left out."""
    number = own_number(request.number, account_of(request))
    body: dict[str, object] = {"number": number, "job": job_key}
    texts = (("id", request.id), ("trace", request.traceparent), ("resend_of", request.resend_of))
    body.update({name: text for name, text in texts if text is not None})
    times = (("age", request.max_age), ("till", request.expires_at), ("put", request.put_at))
    body.update({name: round(seconds * 1000) for name, seconds in times if seconds is not None})
    if request.given != request.number:
        body["given"] = request.given
    if request.origin is Origin.AUTOMATIC:
        body["auto"] = True
    if request.fields:
        body["fields"] = dict(request.fields)
    if full:
        body["full"] = True
    return _encode(body)


def write_verdict(
    verdict: Verdict, observed_ms: int, fields: Mapping[str, str] = NO_FIELDS
) -> bytes:
    """Write a verdict for finish.lua, or a stored answer for admit.lua.

    `fields` are what was asked with.
    """
    body: dict[str, object] = {
        "state": str(verdict.state),
        "output": _encode(verdict.output).decode(),
        "observed": observed_ms,
        "answered": verdict.answered,
    }
    if fields:
        body["fields"] = dict(fields)
    if verdict.setback is not None:
        body["setback"] = _setback(verdict.setback)
    return _encode(body | _told(verdict.attempt))


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
    return body


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
    if rules.per_hour is not None:
        body["per_hour"] = rules.per_hour
    if rules.per_day is not None:
        body["per_day"] = rules.per_day
    return _encode(body)
