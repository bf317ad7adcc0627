"""Whatever happens in whatever order: the invariants hold after every script, and all ends well.

Every script may be sent twice, workers die between any two of them, and time goes by in leaps.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from limits_bench import KEYS, asked, verdict
from limits_invariants import check, ended, take_snapshot
from redis import Redis

from limits.replies import write_request, write_rules
from limits.rules import Rules
from limits.script import BATCH, load
from tracking.request import Origin

RULES = Rules(concurrent=3, per_second=2, max_waiting=4, per_hour=1000, per_day=1000)
EPOCH = "walk"
AT_ONCE = "AT_ONCE = 100"

NUMBERS = st.sampled_from(["N001", "N002", "N003", "N004", "N005"])
IDS = st.sampled_from([None, "a", "b", "c", "d", "e", "f"])
PICK = st.integers(0, 1_000)
ROOM = st.integers(0, 3)
SENT = st.sampled_from([1, 1, 2])
SOONEST_MS = -60_000
SETTLES_NOTHING = {"admit", "cancel"}
GIVES_DUTIES = {"take", "finish", "retry", "requeue", "abort", "sweep"}
SOONEST_FLAG_SECONDS = 0.9
WALKS = int(os.environ.get("WALKS", "100"))  # of each kind; `make chaos` takes a thousand


class Walk(RuleBasedStateMachine):
    """A few workers in one: it holds the calls that live and knows what it asked for."""

    def __init__(self, url: str, at_once: int) -> None:
        """`at_once`: after how many operations a script wants to be sent again."""
        super().__init__()
        steps = AT_ONCE.replace("100", str(at_once))
        self.text = load()[BATCH].text.replace(AT_ONCE, steps)
        assert steps in self.text
        self.redis = Redis.from_url(url, decode_responses=True)
        self.redis.flushdb()
        self.redis.set(KEYS.epoch, f"{EPOCH} 0")
        self.calls: list[tuple[str, str, int]] = []
        self.jobs: list[tuple[str, bytes]] = []
        self.asked_for: set[str] = set()
        self.by_hand: set[str] = set()
        self.leap: list[tuple[str, str]] = []
        self.drain_jobs = 0
        self.asking: set[str] = set()
        self.made = 0
        self.settled_at = 0.0

    def new(self, what: str) -> str:
        self.made += 1
        return f"{what}{self.made}"

    def run(self, name: str, *args: Any, sent: int = 1, worker: str = "w1") -> list[Any]:
        (reply,) = self.run_all(name, [args], sent=sent, worker=worker)
        return reply

    def run_all(
        self, name: str, requests: list[tuple[Any, ...]], *, sent: int = 1, worker: str = "w1"
    ) -> list[list[Any]]:
        """Several requests of a kind in one script (lua/lib/batch.lua)."""
        for key, member in self.leap:
            self.redis.zadd(key, {member: 1}, xx=True)
        self.leap.clear()
        same = {"epoch": EPOCH, "token": worker, "deaths": 2, "max_age_ms": 30_000}
        rules = write_rules(RULES, same)
        args = [each for request in requests for each in (0, "[]", *request)]
        began = time.monotonic()
        for _ in range(sent):
            kinds = f"{name} {2 + len(requests[0])}"
            replies = self.redis.eval(self.text, 1, KEYS.wait_list, 1, kinds, rules, 1, *args)
        for reply in replies:
            self.hear(name, reply, worker)
        if name not in SETTLES_NOTHING and not (name == "finish" and replies[-1][1] == 1):
            self.settled_at = began
        return list(replies)

    def hear(self, name: str, reply: list[Any], worker: str) -> None:
        if name in GIVES_DUTIES or reply[1] == "parked":
            self.drain_jobs += reply[-1]
        if name in GIVES_DUTIES - {"sweep"} and int(reply[-2]):
            self.asking.add(worker)

    def hold(self, grants: list[list[str]]) -> None:
        for call_id, _, granted_us, record, _ in grants:
            number = json.loads(record)["n"]
            self.calls.append((call_id, number, int(granted_us) // 1000))

    def admit(self, job: str, request: bytes, sent: int) -> None:
        self.admit_all([(job, request)], sent)

    def admit_all(self, jobs: list[tuple[str, bytes]], sent: int) -> None:
        args = [(self.new("c"), request, b"") for _, request in jobs]
        replies = self.run_all("admit", args, sent=sent)
        for job, (_, word, *rest) in zip(jobs, replies, strict=True):
            if word == "granted":
                self.hold([rest[0]])
                self.jobs.append(job)
            if word == "dying":
                self.bury(rest[0])
            operation = json.loads(job[1]).get("id")
            if operation and word != "full":
                self.asked_for.add(operation)

    def bury(self, grant: list[str]) -> None:
        call_id, _, granted_us, record, _ = grant
        dead = verdict(int(granted_us) // 1000, state="ERROR", answered=False)
        number, more = json.loads(record)["n"], 1
        while more:
            more = self.run("finish", call_id, dead, number, self.new("t"), 0)[1]

    @rule(
        number=NUMBERS, operation=IDS, auto=st.booleans(), age=st.sampled_from([None, 0]), sent=SENT
    )
    def somebody_asks(
        self, number: str, operation: str | None, *, auto: bool, age: int | None, sent: int
    ) -> None:
        job = self.new("j")
        origin = Origin.AUTOMATIC if auto else Origin.MANUAL
        request = asked(number, id=operation, origin=origin, max_age=age)
        self.admit(job, write_request(request, job), sent)

    @rule(asks=st.lists(st.tuples(NUMBERS, IDS), min_size=2, max_size=4), sent=SENT)
    def many_ask_at_once(self, asks: list[tuple[str, str | None]], sent: int) -> None:
        jobs = [(self.new("j"), asked(number, id=operation)) for number, operation in asks]
        self.admit_all([(job, write_request(request, job)) for job, request in jobs], sent)

    @rule(number=NUMBERS, operation=IDS, late_ms=st.sampled_from([SOONEST_MS, 2, 60_000]))
    def somebody_asks_for_a_while(self, number: str, operation: str | None, late_ms: int) -> None:
        job = self.new("j")
        seconds, micros = self.redis.time()
        till = seconds + micros / 1_000_000 + late_ms / 1000
        self.admit(job, write_request(asked(number, id=operation, expires_at=till), job), 1)

    @rule(pick=PICK, sent=SENT)
    def a_job_comes_again(self, pick: int, sent: int) -> None:
        if self.jobs:
            self.admit(*self.jobs[pick % len(self.jobs)], sent)

    @rule(number=NUMBERS)
    def somebody_pushes_a_number_by_hand(self, number: str) -> None:
        seen = take_snapshot(self.redis)
        if number not in seen.records and not any(number in each for each in seen.lists.values()):
            self.by_hand.add(number)
            self.redis.rpush(KEYS.wait_list, number)
            self.sweep(1)

    @rule(room=ROOM, claims=st.integers(0, 1), sent=SENT, worker=st.sampled_from(["w1", "w2"]))
    def take(self, room: int, claims: int, sent: int, worker: str) -> None:
        """A process asks: because of a drain job, which it deletes then, or by its own clock."""
        claims = min(claims, self.drain_jobs)
        if not claims:
            self.asking.discard(worker)
        self.hold(self.run("take", self.new("t"), room, claims, sent=sent, worker=worker)[1])
        self.drain_jobs -= claims

    def any_call(self, pick: int) -> tuple[str, str, int]:
        """One of the calls that live, or one that never was: which rules apply must not depend on
        Redis' clock, or a walk could not be repeated."""
        return self.calls.pop(pick % len(self.calls)) if self.calls else ("none", "N001", 1)

    @rule(pick=PICK, room=ROOM, answered=st.booleans(), sent=SENT)
    def a_call_ends(self, pick: int, room: int, *, answered: bool, sent: int) -> None:
        call_id, number, observed = self.any_call(pick)
        end = verdict(observed, state="SUCCESS" if answered else "ERROR", answered=answered)
        _, more, grants, *_ = self.run(
            "finish", call_id, end, number, self.new("t"), room, sent=sent
        )
        self.hold(grants)
        if more:
            self.calls.append((call_id, number, observed))  # much may happen before the next step

    @rule(room=ROOM, sent=SENT)
    def all_calls_end_at_once(self, room: int, sent: int) -> None:
        ending, self.calls = self.calls, []
        args = [
            (call_id, verdict(observed), number, self.new("t"), room)
            for call_id, number, observed in ending
        ]
        replies = self.run_all("finish", args, sent=sent) if args else []
        for call, (_, more, grants, *_) in zip(ending, replies, strict=True):
            self.hold(grants)
            self.calls += [call] if more else []

    @rule(pick=PICK, room=ROOM, delay_ms=st.sampled_from([0, 60_000]), sent=SENT)
    def a_call_is_to_be_repeated(self, pick: int, room: int, delay_ms: int, sent: int) -> None:
        call_id, *_ = self.any_call(pick)
        self.hold(self.run("retry", call_id, delay_ms, self.new("t"), room, sent=sent)[1])

    @rule(pick=PICK, room=ROOM, how=st.sampled_from(["requeue", "abort"]), sent=SENT)
    def a_call_is_handed_back(self, pick: int, room: int, how: str, sent: int) -> None:
        call_id, *_ = self.any_call(pick)
        self.hold(self.run(how, call_id, -1, "", self.new("t"), room, sent=sent)[1])

    @rule(pick=PICK, late=st.booleans())
    def a_worker_vanishes(self, pick: int, *, late: bool) -> None:
        call = self.any_call(pick)
        self.leap.append((KEYS.calls_leases, call[0]))
        if late:  # it was only asleep, and ends its call after all
            self.calls.append(call)

    @rule(sent=SENT)
    def sweep(self, sent: int) -> None:
        for grant in self.run("sweep", self.new("s"), sent=sent)[2]:
            self.bury(grant)

    @rule(operation=st.sampled_from("abcdef"), sent=SENT)
    def somebody_cancels_an_operation(self, operation: str, sent: int) -> None:
        self.run("cancel", "", operation, sent=sent)
        self.asked_for.add(operation)

    @rule(number=NUMBERS, sent=SENT)
    def somebody_cancels_a_number(self, number: str, sent: int) -> None:
        self.run("cancel", number, "", sent=sent)

    @rule()
    def a_second_goes_by(self) -> None:
        self._all_past(KEYS.call_starts)

    @rule()
    def a_minute_goes_by(self) -> None:
        self._all_past(KEYS.wait_later)
        self.a_second_goes_by()

    @rule()
    def the_drainers_vanish(self) -> None:
        """With all drain jobs; what they were appointed to do ends by its time to live."""
        self.drain_jobs = 0
        self.asking.clear()
        self.redis.delete(KEYS.wait_drainer)
        self.sweep(1)

    def _all_past(self, key: str) -> None:
        """Just before the next script, which is the first to see it."""
        self.leap += [(key, member) for member in self.redis.zrange(key, 0, -1)]

    @property
    def flag_is_new(self) -> bool:
        """It lives for a second at least; who looks later, on a busy machine, may find it gone."""
        return time.monotonic() - self.settled_at < SOONEST_FLAG_SECONDS

    @invariant()
    def whoever_waits_will_be_asked_for(self) -> None:
        """A retry that is not due may be left to the sweep, which comes every few seconds."""
        waits = self.redis.exists(KEYS.wait_list, KEYS.wait_list_automatic)
        assert not waits or self.drain_jobs or self.asking

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        check(self.redis, RULES, self.by_hand, flag_is_new=self.flag_is_new)

    def teardown(self) -> None:
        """Once quiet: nobody waits, nothing runs, and everything that was asked for has ended."""
        for _ in range(60):
            while self.calls:
                self.a_call_ends(0, 0, answered=True, sent=1)
            self._all_past(KEYS.calls_leases)
            self.a_minute_goes_by()
            self.sweep(1)
            self.take(3, 1, 1, "w1")
        check(self.redis, RULES, self.by_hand, flag_is_new=self.flag_is_new)
        waits = (KEYS.wait_list, KEYS.wait_list_automatic, KEYS.wait_later, KEYS.wait_requests)
        runs = (KEYS.wait_inflight, KEYS.calls_leases, KEYS.calls_number, KEYS.slugs)
        assert [key for key in (*waits, *runs, KEYS.wait_drainer) if self.redis.exists(key)] == []
        assert self.asked_for <= ended(self.redis).keys()
        self.redis.close()


@pytest.mark.parametrize("at_once", [100, 2])
def test_the_invariants_hold_after_every_script_of_any_walk(redis_url: str, at_once: int) -> None:
    walks = settings(
        max_examples=WALKS,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    run_state_machine_as_test(lambda: Walk(redis_url, at_once), settings=walks)
