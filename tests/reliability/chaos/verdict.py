"""The judge: which promises of docs/reliability.md did a run break? Pure.

========= ========================================================================================
invariant judged by
========= ========================================================================================
I1        the producer's log, after quiet: everything acknowledged came to an end that can be read
I2, I3    what the courier site saw arrive, on its own clock; a call for several numbers is one
I4        how long any lease was seen, and that none is left; how soon dead processes' were free
I5        every look at Redis while the faults went on
I7        that quiet came in time, without new requests; and how soon everything went on after a
          `kill -9` or a server's return (recovery.py)
I8        one document for each number, with the right answer; operations counted once, in Redis, in
          statistics of each grain and in the archive; no number called twice at once, unless a
          worker or Redis stood still shortly before
I9        that every record in `dead` has its reason, and every malformed job a record; that a
          courier that was away cost few calls and no request (outage.py)
I12       that every kind of fault came, and every repair was needed
========= ========================================================================================
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from chaos import deliveries, outage, recovery
from chaos.evidence import Document, Evidence
from chaos.producer import Outcome, Put
from chaos.scale import LEASE, MAX_AGE, REFUSED_ANSWERS, STEP_SECONDS
from chaos.tallies import TOTALS
from chaos.wishes import Kind, Wish
from devstack import judge
from devstack.judge import SECOND_NS
from devstack.site.shapes import parcel
from tracking.errors import UnstorableAnswer

ENDS = ("SUCCESS", "ERROR", "CANCELLED")
CLOCK_SLACK = 2.0
"""Seconds: between the producer's log and the grant, and for times written in whole seconds."""

LEASE_SLACK = 1.0
SHOWN = 12
TWICE_SECONDS = 0.25
"""Two calls of one number at once count from here on: the courier site sees the end of a killed
worker's call a little late."""

STOOD_STILL_SECONDS = 30.0
"""After it a worker that lives may have been taken for dead: its lease is over, or it was not heard
of for too long."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One broken promise. `is_late`: of a time, which depends on the machine; else of safety."""

    invariant: str
    what: str
    is_late: bool = False

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


def breaches(found: Evidence) -> list[Breach]:
    """Everything that is wrong; empty for a good run."""
    emptied, stepped = found.scale.forget_redis, found.scale.step_clock
    judged = [*_lost(found), *_records(found), *_unexpected(found), *_defects(found)]
    judged += [Breach(*each) for each in deliveries.breaches(found)]
    if not stepped:
        judged += [*_lives(found)]
    if not emptied:
        judged += [*_limits(found)]
    if not emptied and not stepped:
        judged += [*_counts(found), *_twice(found)]
        judged += [*_tallies(found), *_archive(found)]
        judged += [*_outages(found)]
    if not (emptied or stepped or found.scale.poison):
        # Poison makes lines stand for moments, which are nobody's return.
        judged += [*_recoveries(found)]
    judged += [Breach("I7", f"not quiet: {what}") for what in found.left]
    judged += [Breach("I7", f"late: {what}", is_late=True) for what in found.late]
    return judged


def _limits(found: Evidence) -> Iterator[Breach]:
    for courier in found.scale.couriers:
        calls = [each.call for each in found.calls if each.call.slug == courier.slug]
        if (most := judge.most_in_flight(calls)) > courier.concurrent:
            yield Breach("I2", f"{most} calls of {courier.slug} at once, not {courier.concurrent}")
        if (most := judge.most_starts_in_any_second(calls)) > courier.per_second:
            text = f"{most} starts of {courier.slug} in a second, not {courier.per_second}"
            yield Breach("I3", text)
        if (most := judge.most_numbers_in_a_call(calls)) > courier.together:
            text = f"a call of {courier.slug} for {most} numbers, not {courier.together}"
            yield Breach("I2", text)


def _twice(found: Evidence) -> Iterator[Breach]:
    """Numbers that were called while a call of theirs ran."""
    running: dict[tuple[str, str], int] = {}
    calls = sorted((each.call for each in found.calls), key=lambda each: each.arrived_ns)
    asked = ((call, number) for call in calls for number in call.numbers)
    for call, number in asked:
        name, arrived = (call.slug, number), call.arrived_ns
        seconds = (min(running.get(name, 0), call.ended_ns or arrived) - arrived) / SECOND_NS
        if seconds > TWICE_SECONDS and not _stood_still(found, arrived / SECOND_NS):
            text = f"{call.slug}:{number} was called twice at once, for {seconds:.2f} s"
            yield Breach("I8", text)
        running[name] = max(running.get(name, 0), call.ended_ns or arrived)


def _stood_still(found: Evidence, at: float) -> bool:
    """Whether a worker or Redis may have missed something by then."""
    return any(
        done.began <= at <= done.ended + STOOD_STILL_SECONDS
        for done in found.meanwhile.done
        if "frozen" in done.kind or any("redis" in need for need in done.needs)
    )


def _lost(found: Evidence) -> Iterator[Breach]:
    ends = _Ends(found)
    lost = [
        put
        for put in found.puts
        if put.outcome is Outcome.ACKNOWLEDGED and not ends.reached_by(put)
    ]
    for put in lost[:SHOWN]:
        wish = put.wish
        name = wish.malformed or f"{wish.slug}:{wish.number} {wish.id or 'without id'}"
        state = found.states.get(wish.id or "", "no status")
        asked = f"{wish.kind} {name!r}, put at {put.began:.3f} in {put.tries} tries"
        logged = found.meanwhile.logged.get(wish.id or "", ["nothing was logged of it"])
        yield Breach("I1", f"lost: {asked}: {state}; {'; '.join(logged)}")
    if len(lost) > SHOWN:
        yield Breach("I1", f"… and {len(lost) - SHOWN} more were lost")


class _Ends:
    """Whether a put came to an end that can be read."""

    def __init__(self, found: Evidence) -> None:
        self._states = found.states
        wishes = (put.wish for put in found.puts)
        self._automatic = {each.id for each in wishes if each.kind is Kind.AUTOMATIC}
        self._forgotten = found.forgotten
        self._cancelled = found.cancelled
        self._forgets = found.scale.forget_redis
        self._poison, self._waiting = found.scale.poison, found.waiting
        # Observations are dated by Redis' clock.
        self._old = MAX_AGE + CLOCK_SLACK + (STEP_SECONDS if found.scale.step_clock else 0.0)
        self._asked = {
            each["_id"]: each["last_checked_at"].timestamp()
            for each in found.documents
            if each.get("last_checked_at")
        }
        self._dead: dict[str, float] = {}
        for each in found.dead:
            at = each["at"].timestamp()
            names = [_body(each), *each["operations"]]
            # What a buried job calls a parcel is no answer to those who asked for it.
            if each.get("job") is None:
                names.append(f"{each['slug']}:{each['number']}")
            for name in names:
                self._dead[name] = max(at, self._dead.get(name, 0.0))

    def reached_by(self, put: Put) -> bool:
        wish = put.wish
        name = f"{wish.slug}:{wish.number}"
        if wish.malformed:
            return wish.malformed.decode(errors="replace") in self._dead
        if self._poison and wish.is_hopeless and name in self._waiting:
            return True
        if wish.kind is Kind.BORROWED:
            # Refused, unless the first request with this id had not been taken either: then its own
            # number was asked about, or died.
            ended = {name, wish.id} & (self._forgotten | self._cancelled)
            died = {name, wish.body.decode()} & self._dead.keys()
            return name in self._asked or bool(died or ended)
        if wish.id is None or self._forgets or self._is_over(wish):
            return (
                self._asked.get(name, 0.0) >= put.began - self._old
                or self._dead.get(name, 0.0) >= put.began - CLOCK_SLACK
                or bool({name, wish.id or name} & self._forgotten)
                or (wish.id is not None and self._states.get(wish.id) in ENDS)
            )
        return self._state_is_right(put, name)

    def _state_is_right(self, put: Put, name: str) -> bool:
        wish = put.wish
        match self._states.get(wish.id or ""):
            case "SUCCESS":
                # Or a borrower's job came first, and this one was refused in its place.
                return name in self._asked or wish.body.decode() in self._dead
            case "ERROR":
                # A record names the first hundred of a crowd.
                return wish.id in self._dead or (wish.kind is Kind.CROWD and name in self._dead)
            case "CANCELLED":
                # Put twice an AUTOMATIC one is the one operation that found no room.
                may_end = wish.kind is Kind.EXPIRING or wish.id in self._automatic
                return may_end or wish.id in self._cancelled
        # Too many waited: nothing was begun, and the record says so.
        return self._dead.get(wish.id or "", 0.0) >= put.began - CLOCK_SLACK

    def _is_over(self, wish: Wish) -> bool:
        """Whether its end is not known any more, as that of an AUTOMATIC one is for minutes.

        Put twice it is one operation.
        """
        return wish.id in self._automatic and wish.id not in self._states


def _body(letter: Document) -> str:
    body = letter["body"]
    return body if isinstance(body, str) else bytes(body).decode(errors="replace")


def _records(found: Evidence) -> Iterator[Breach]:
    numbers = Counter((each["slug"], each["tracking_number"]) for each in found.documents)
    for (slug, number), count in numbers.items():
        if count > 1:
            yield Breach("I8", f"{slug}:{number} is stored {count} times")
    for each in found.documents:
        number = each["tracking_number"]
        if each.get("last_checked_at") is None or each["error"] is not None:
            continue
        told = parcel.scans(number)[-1].stage if parcel.known(number) else "Pending"
        if each["tag"] != told:
            yield Breach("I8", f"{each['_id']} is stored as {each['tag']}, and is {told}")
    for each in found.dead:
        if not each["reason"]:
            yield Breach("I9", f"{each['_id']} is dead without a reason")
        if each["reason"] == UnstorableAnswer.code and not re.search(
            REFUSED_ANSWERS, each["number"]
        ):
            yield Breach("I9", f"{each['_id']} is dead of what others' documents were refused for")


def _unexpected(found: Evidence) -> Iterator[Breach]:
    asked = {f"{put.wish.slug}:{put.wish.number}" for put in found.puts if not put.wish.malformed}
    for each in found.documents:
        if each["_id"] not in asked:
            yield Breach("I8", f"{each['_id']} is stored, and nobody asked for it")


def _counts(found: Evidence) -> Iterator[Breach]:
    for courier in found.scale.couriers:
        counts = found.counts.get(courier.slug, {})
        ended = sum(counts.get(end, 0) for end in ENDS)
        wishes = [put.wish for put in found.puts if put.wish.slug == courier.slug]
        known = sum(found.states.get(name or "") in ENDS for name in {each.id for each in wishes})
        over = sum(each.kind is Kind.AUTOMATIC and each.id not in found.states for each in wishes)
        if courier.ids_only and not known <= ended <= known + over:
            yield Breach("I8", f"{courier.slug}: {ended} operations counted, {known} ended")
        elif ended < known:
            yield Breach("I8", f"{courier.slug}: only {ended} operations counted, {known} ended")
        for name, count in counts.items():
            if count < 0:
                yield Breach("I5", f"statistics of {courier.slug}: {name} is {count}")


def _tallies(found: Evidence) -> Iterator[Breach]:
    """What statistics tell is what was counted, to the last operation."""
    for (place, slug), tallied in found.tallies.items():
        ended = _ended(found, slug)
        for end in ENDS:
            if tallied.get(end, 0) != ended[end] and (place, end) != (TOTALS, "CANCELLED"):
                text = f"{tallied.get(end, 0)} {end} in statistics, {ended[end]} ended"
                yield Breach("I8", f"{slug or 'all'}, {place}: {text}")


def _archive(found: Evidence) -> Iterator[Breach]:
    """Each operation that ended is archived, once, as it ended."""
    if found.archived is None:
        return
    archived = Counter[tuple[str, str]](chain.from_iterable(found.archived.values()))
    for courier in found.scale.couriers:
        ended = _ended(found, courier.slug)
        for end in ENDS:
            if (count := archived[courier.slug, end]) != ended[end]:
                yield Breach("I8", f"{courier.slug}: {count} {end} archived, {ended[end]} ended")
    twice = [name for name, ends in found.archived.items() if len(ends) > 1]
    for name in twice[:SHOWN]:
        yield Breach("I8", f"{name} is archived {len(found.archived[name])} times")
    for name, state in found.states.items():
        told = [end for _, end in found.archived.get(name, ())]
        if state in ENDS and told[:1] != [state]:
            yield Breach("I8", f"{name} ended in {state}, and is archived as {told}")


def _ended(found: Evidence, slug: str) -> Counter[str]:
    """Count what ended of one courier, or ("") of all."""
    named = [found.counts.get(slug, {})] if slug else list(found.counts.values())
    return Counter({end: sum(counts.get(end, 0) for counts in named) for end in ENDS})


def _lives(found: Evidence) -> Iterator[Breach]:
    for (slug, call), lease in found.meanwhile.leases.items():
        if lease.last - lease.first > LEASE + LEASE_SLACK:
            text = f"{slug} call {call} held {lease.last - lease.first:.1f} s"
            yield Breach("I4", text, is_late=True)
    for what, times in Counter(found.meanwhile.breaches).most_common(SHOWN):
        yield Breach("I5", f"{what} ({times} times)")


def _recoveries(found: Evidence) -> Iterator[Breach]:
    for _, invariant, recovered, within in recovery.promised(found):
        late = [each for each in recovered if each.clear > within]
        for each in late[:SHOWN]:
            text = f"{each.what}: {each.clear:.1f} s, not {within:g}"
            yield Breach(invariant, text, is_late=True)


def _outages(found: Evidence) -> Iterator[Breach]:
    for each in outage.outages(found):
        for what, is_late in each.breaches():
            yield Breach("I9", what, is_late=is_late)


def _defects(found: Evidence) -> Iterator[Breach]:
    for line in found.meanwhile.defects[:SHOWN]:
        yield Breach("log", line)


def missed(found: Evidence, kinds: frozenset[str], wanted: frozenset[str]) -> list[Breach]:
    """What should have happened at least once and did not: such a run proves too little."""
    did = {each.kind for each in found.meanwhile.done}
    repairs = Counter[str]()
    for counts in found.counts.values():
        repairs.update(counts)
    seen = {name for name, count in repairs.items() if count}
    seen |= set(found.meanwhile.marks) | set(found.meanwhile.events)
    return [Breach("I12", f"never came: {kind}") for kind in sorted(kinds - did)] + [
        Breach("I12", f"never needed: {what}") for what in sorted(wanted - seen)
    ]
