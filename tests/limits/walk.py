"""A random walk through everything that may happen to one courier, judged after every script.

Every script may be sent twice, workers die between any two of them, and time goes by in leaps.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from limits_bench import KEYS, NO_PLACES, verdict
from limits_invariants import (
    a_day_goes_by,
    accounts_are_apart,
    all_came_earlier,
    asking,
    check,
    claims_end,
    ended,
    lead_of,
    left,
    only_who_may_waits_for_company,
    places_of,
    pushed_wait,
    recount,
    setback_of,
    take_snapshot,
    whole_records,
)
from sender import Reply, Sender, Step, written
from walk_answers import said_in, verdict_by

from limits.keys import ACCOUNT_CALLS, ACCOUNT_QUOTAS, WORKERS, write_request
from tracking.call import NO_ROOM
from tracking.operation import number_of
from tracking.request import MAIN, Origin

NUMBERS = st.sampled_from(["N001", "N002", "N003", "N004", "N005"])
NAMES = st.sampled_from(
    [f"N00{n}{whose}" for n in range(1, 6) for whose in ("", "@shop", "@other")]
)
IDS = st.sampled_from([None, "a", "b", "shop/c", "shop/d", "e", "other/f", "third/g"])
PICK = st.integers(0, 1_000)
ROOM = st.integers(NO_ROOM, 3)
SENT = st.sampled_from([1, 1, 2])
SOONEST_MS = -60_000
WHO = "w"
"""Of the process that admits, as the ids of its calls begin."""
WHY = st.sampled_from(["results_down", "courier_down", "auth_failed"])
ASIDE = "moved away"
BREAKABLE = [
    *(KEYS.wait_list, KEYS.wait_list_automatic, KEYS.wait_later, KEYS.wait_requests),
    *(KEYS.wait_inflight, KEYS.wait_order, KEYS.calls_leases, KEYS.call_starts),
]
"""Not the counters: what happens meanwhile is in none."""
TOGETHER = st.sampled_from([1, 2, 5, 30])
GIVES_DUTIES = {"take", "finish", "retry", "hand_back"}


class Walk(Sender):
    """A few workers in one: it holds the calls that live and knows what it asked for."""

    def __init__(self, url: str, at_once: int, together: int = 1) -> None:
        """`at_once`: after how many operations a script wants to be sent again. `together`: so many
        steps, of whatever kinds, wait for each other and are one script.
        """
        super().__init__(url, at_once, together)
        self.calls: list[tuple[str, str, int]] = []
        self.jobs: list[tuple[str, bytes]] = []
        self.says: dict[str, dict[str, Any]] = {}
        self.asked_for: set[str] = set()
        self.by_hand: set[str] = set()
        self.drain_jobs = 0
        self.asking: set[str] = set()
        self.made = 0

    def new(self, what: str) -> str:
        self.made += 1
        return f"{what}{self.made}"

    def hear(self, name: str, reply: Reply, worker: str) -> None:
        if name == "sweep":
            self.drain_jobs += reply[-2]
        if reply[1] == "parked":
            _, _, _, put, *ask = reply
            self.drain_jobs += put
            self.asking |= {worker} if ask else set()
        if name in GIVES_DUTIES:
            self.drain_jobs += reply[-1]
        if name in GIVES_DUTIES and int(reply[-2]):
            self.asking.add(worker)
        if name in GIVES_DUTIES and self.together == 1:
            only_who_may_waits_for_company(self.redis, self.rules, reply)

    def hold(self, grants: list[list[str]]) -> None:
        for call_id, _, granted_us, record, _ in grants:
            number, self.says[call_id] = said_in(record)
            self.calls.append((call_id, number, int(granted_us) // 1000))

    def hold_all(self, reply: Reply) -> None:
        self.hold(reply[1])

    def admit(self, job: str, request: bytes, sent: int) -> None:
        self.admit_all([(job, request)], sent)

    def admit_all(self, jobs: list[tuple[str, bytes]], sent: int) -> None:
        self.ask(*map(self.admission, jobs), sent=sent)

    def admission(self, job: tuple[str, bytes]) -> Step:
        def then(reply: Reply) -> None:
            _, word, *rest = reply
            if word == "granted":
                self.hold([rest[0]])
                self.jobs.append(job)
            if word == "dying":
                self.bury(rest[0])
            operation = json.loads(job[1]).get("id")
            if operation and word not in {"full", "reused", "too_late"}:
                self.asked_for.add(operation)

        return Step("admit", (self.new(f"{WHO}-"), job[1], b""), then)

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
        request = asking(number, operation, origin=origin, max_age=age)
        self.admit(job, write_request(request, job), sent)

    @rule(number=NUMBERS, operation=IDS, sent=SENT)
    def somebody_asks_a_full_process(self, number: str, operation: str | None, sent: int) -> None:
        job = self.new("j")
        self.admit(job, write_request(asking(number, operation), job, full=True), sent)

    @rule(asks=st.lists(st.tuples(NUMBERS, IDS), min_size=2, max_size=4), sent=SENT)
    def many_ask_at_once(self, asks: list[tuple[str, str | None]], sent: int) -> None:
        jobs = [(self.new("j"), asking(number, operation)) for number, operation in asks]
        self.admit_all([(job, write_request(request, job)) for job, request in jobs], sent)

    @rule(number=NUMBERS, operation=IDS, late_ms=st.sampled_from([SOONEST_MS, 2, 60_000]))
    def somebody_asks_for_a_while(self, number: str, operation: str | None, late_ms: int) -> None:
        job = self.new("j")
        seconds, micros = self.redis.time()
        till = seconds + micros / 1_000_000 + late_ms / 1000
        self.admit(job, write_request(asking(number, operation, expires_at=till), job), 1)

    @rule(pick=PICK, sent=SENT)
    def a_job_comes_again(self, pick: int, sent: int) -> None:
        if self.jobs:
            self.admit(*self.jobs[pick % len(self.jobs)], sent)

    @rule(lives=st.booleans())
    def who_admits_is_heard_of(self, *, lives: bool) -> None:
        """While it lives, the job of a call that it makes comes back for nothing."""
        self.flush()
        until_ms = self.redis.time()[0] * 1000 + 15_000
        if lives:
            self.redis.zadd(WORKERS, {f'{{"token":"{WHO}"}}': until_ms})
            self.redis.pexpire(WORKERS, 20_000)
        else:
            self.redis.delete(WORKERS)

    @rule(number=NUMBERS)
    def somebody_pushes_a_number_by_hand(self, number: str) -> None:
        self.flush()
        seen = take_snapshot(self.redis)
        if number not in seen.records and not any(number in each for each in seen.lists.values()):
            self.by_hand.add(number)
            self.redis.rpush(KEYS.wait_list, number)
            self.sweep(1)
            self.flush()

    @rule(room=ROOM, claims=st.integers(0, 1), sent=SENT, worker=st.sampled_from(["w1", "w2"]))
    def take(self, room: int, claims: int, sent: int, worker: str) -> None:
        """A process asks: because of a drain job, which it deletes then, or by its own clock."""
        claims = min(claims, self.drain_jobs)
        if not claims:
            self.asking.discard(worker)
        self.drain_jobs -= claims
        args = (self.new("t"), room, claims)
        self.ask(Step("take", args, self.hold_all), sent=sent, worker=worker)

    @rule(numbers=st.lists(NUMBERS, min_size=2, unique=True), most=TOGETHER, sent=SENT)
    def some_who_wait_are_called_together(self, numbers: list[str], most: int, sent: int) -> None:
        """As many as the rules say, with no failure before: else one number alone would try."""
        self.answer_together(most)
        for number in numbers:
            self.somebody_asks_a_full_process(number, None, 1)
        self.flush()
        self.redis.delete(KEYS.calls_paused, KEYS.calls_brake)
        self.a_minute_goes_by()
        self.take(1, 0, sent, "w1")

    def any_call(self, pick: int) -> tuple[str, str, int]:
        """One of the calls that live, or one that never was: which rules apply must not depend on
        Redis' clock, or a walk could not be repeated."""
        if not self.calls:
            return self.new("none"), "N001", 1
        return self.calls.pop(pick % len(self.calls))

    @rule(pick=PICK, room=ROOM, answered=st.booleans(), sent=SENT)
    def a_call_ends(self, pick: int, room: int, *, answered: bool, sent: int) -> None:
        self.ask(self.ending(self.any_call(pick), room, answered=answered), sent=sent)

    def ending(self, call: tuple[str, str, int], room: int | str, *, answered: bool = True) -> Step:
        said = self.says.setdefault(call[0], {"account": MAIN, "fields": {}})
        end = verdict_by(said, call[2], answered=answered)

        def then(reply: Reply) -> None:
            _, more, grants, *_ = reply
            self.hold(grants)
            if more:
                self.calls.append(call)  # much may happen before the next

        return Step("finish", (call[0], end, call[1], self.new("t"), room), then)

    @rule(room=ROOM, sent=SENT)
    def all_calls_end_at_once(self, room: int, sent: int) -> None:
        calls, self.calls = self.calls, []
        if calls:
            self.ask(*(self.ending(call, room) for call in calls), sent=sent)

    @rule(pick=PICK, room=ROOM, delay_ms=st.sampled_from([0, 60_000]), why=WHY, sent=SENT)
    def a_call_is_to_be_repeated(
        self, pick: int, room: int, delay_ms: int, why: str, sent: int
    ) -> None:
        call = self.any_call(pick)
        args = (call[0], setback_of(why, delay_ms), self.new("t"), room)
        self.ask(Step("retry", args, self.hold_all), sent=sent)
        if not delay_ms:  # this may have been the last attempt: then the call is still to end
            self.calls.append(call)

    @rule(pick=PICK, room=ROOM, unsent=st.integers(0, 1), sent=SENT)
    def a_call_is_handed_back(self, pick: int, room: int, unsent: int, sent: int) -> None:
        call_id, *_ = self.any_call(pick)
        args = (call_id, unsent, self.new("t"), room)
        self.ask(Step("hand_back", args, self.hold_all), sent=sent)

    @rule(pick=PICK, late=st.booleans())
    def a_worker_vanishes(self, pick: int, *, late: bool) -> None:
        """With the whole group, which has one lease."""
        call = self.any_call(pick)
        lead = lead_of(call[0])
        self.leaps.append((KEYS.calls_leases, lead))
        group = [call, *(each for each in self.calls if lead_of(each[0]) == lead)]
        self.calls = [each for each in self.calls if each not in group]
        if late:  # it was only asleep, and ends its calls after all
            self.calls += group

    @initialize(most=TOGETHER)
    def a_courier_answers_for_some_in_one_call(self, most: int) -> None:
        self.answer_together(most)

    @rule(most=TOGETHER)
    def the_rules_are_changed(self, most: int) -> None:
        self.answer_together(most)

    @initialize(quotas=st.lists(st.sampled_from([None, None, 1, 2, 4]), min_size=3, max_size=3))
    def some_accounts_may_have_so_many_calls_a_day(self, quotas: list[int | None]) -> None:
        for account, calls in zip((MAIN, "shop", "other"), quotas, strict=True):
            if calls is not None:
                self.redis.hset(ACCOUNT_QUOTAS, account, calls)

    @rule(account=st.sampled_from([MAIN, "shop", "other"]), calls=st.integers(0, 2))
    def an_account_may_have_so_many_calls_more(self, account: str, calls: int) -> None:
        self.flush()
        used = int(self.redis.hget(ACCOUNT_CALLS, account) or 0)
        self.redis.hset(ACCOUNT_QUOTAS, account, max(1, used + calls))
        self.run("wake", account, 0)

    @rule()
    def the_next_day_begins(self) -> None:
        self.flush()
        a_day_goes_by(self.redis)
        self.a_minute_goes_by()

    @rule(sent=SENT)
    def sweep(self, sent: int) -> None:
        self.ask(Step("sweep", (self.new("s"),), self.bury_all), sent=sent)

    def bury_all(self, reply: Reply) -> None:
        for grant in reply[2]:
            self.bury(grant)

    @rule(
        key=st.sampled_from(BREAKABLE),
        steps=st.lists(st.sampled_from(["admit", "take", "finish", "sweep", "back"]), max_size=4),
        number=NUMBERS,
    )
    def a_key_is_of_another_type_for_a_while(self, key: str, steps: list[str], number: str) -> None:
        """Somebody wrote SADD, and moves that away again; workers vanish meanwhile."""
        self.flush()
        self.leap()
        if pushed_wait(self.redis):
            return
        if self.redis.exists(key):
            self.redis.rename(key, ASIDE)
        self.redis.sadd(key, "N001")
        for step in steps:
            self._meet(step, number)
        self.redis.delete(key)
        if self.redis.exists(ASIDE):
            self.redis.rename(ASIDE, key)
        self._heal()

    @rule(
        pick=PICK,
        steps=st.lists(st.sampled_from(["admit", "take", "finish", "sweep", "back"]), max_size=4),
    )
    def a_record_cannot_be_read_for_a_while(self, pick: int, steps: list[str]) -> None:
        """Somebody cut it off, and corrects it where it stands by then."""
        self.flush()
        self.leap()
        if pushed_wait(self.redis):
            return
        if not (found := whole_records(self.redis, self.calls[0][1] if self.calls else "")):
            return
        key, field, number, text = found[pick % len(found)]
        self.redis.hset(key, field, "{")
        for step in steps:
            self._meet(step, next(each for each in ("N001", "N002") if each != number))
        aside = f"{key} {field}"
        if self.redis.hexists(KEYS.wait_unreadable, aside):
            self.redis.hset(KEYS.wait_unreadable, aside, text)
        else:
            self.redis.hset(key, field, text)
        self._heal()
        recount(self.redis)

    def _meet(self, step: str, number: str) -> None:
        """One step whose reply nobody heard: it met the key, or its worker vanished."""
        call = self.calls[0] if self.calls else ("none", number, 1)
        dead = verdict(call[2], state="SUCCESS")
        args: dict[str, tuple[Any, ...]] = {
            "admit": (self.new("c"), write_request(asking(number, None), self.new("j")), b""),
            "take": (self.new("t"), 2, 0),
            "finish": (call[0], dead, call[1], self.new("t"), 1),
            "sweep": (self.new("s"),),
            "back": (call[0], 0, self.new("t"), 1),
        }
        name = "hand_back" if step == "back" else step
        self.redis.eval(self.text, *written([Step(name, args[step], print)], "w1", self.rules))

    def _heal(self) -> None:
        """Every lease ends, and sweeps put all back into line; drain jobs come with that."""
        self.calls.clear()
        for _ in range(20):
            self._all_past(KEYS.calls_leases)
            claims_end(self.redis)
            self.drain_jobs = 0
            self.redis.delete(KEYS.wait_drainer)
            self.sweep(1)
            self.flush()
            if not self.calls and self.run("sweep", self.new("s"))[-1] == 0:
                return

    @rule(operation=IDS.filter(bool), number=NUMBERS, sent=SENT)
    def somebody_cancels_an_operation(self, operation: str, number: str, sent: int) -> None:
        name = number_of(number, operation)
        self.ask(Step("cancel", (name, operation, NO_PLACES), lambda _: None), sent=sent)

    @rule(number=NAMES, sent=SENT)
    def somebody_cancels_a_number(self, number: str, sent: int) -> None:
        self.ask(Step("cancel", (number, "", self.places(number)), lambda _: None), sent=sent)

    @rule(sent=SENT)
    def somebody_cancels_the_line(self, sent: int) -> None:
        self.ask(Step("cancel", ("", "", NO_PLACES), lambda _: None), sent=sent)

    def places(self, number: str) -> str:
        """Where a number stands, as limits/admin/cancel.py finds it."""
        self.flush()
        return places_of(self.redis, number)

    @rule(number=NAMES, sent=SENT)
    def somebody_forgets_a_number(self, number: str, sent: int) -> None:
        args = (number, 60_000, self.places(number))
        self.ask(Step("forget", args, lambda _: None), sent=sent)

    @rule()
    def a_second_goes_by(self) -> None:
        self._all_past(KEYS.call_starts)

    @rule()
    def a_minute_goes_by(self) -> None:
        """No pause is longer: nobody has asked for such a one. Nor is company waited for."""
        self.flush()
        self.redis.delete(KEYS.calls_paused)
        all_came_earlier(self.redis, 60.0)
        self._all_past(KEYS.wait_later)
        self.a_second_goes_by()

    @rule()
    def the_drainers_vanish(self) -> None:
        """With all drain jobs; what they were appointed to do ends by its time to live."""
        self.flush()
        self.drain_jobs = 0
        self.asking.clear()
        self.redis.delete(KEYS.wait_drainer)
        self.sweep(1)
        self.flush()

    def _all_past(self, key: str) -> None:
        """Just before the next script, which is the first to see it."""
        self.leaps += [(key, member) for member in self.redis.zrange(key, 0, -1)]

    @invariant()
    def what_waits_will_be_asked_for(self) -> None:
        """A retry that is not due may be left to the sweep, which comes every few seconds."""
        waits = self.redis.exists(KEYS.wait_list, KEYS.wait_list_automatic)
        assert not waits or self.drain_jobs or self.asking or self.queue

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        accounts_are_apart(self.redis)
        check(self.redis, self.rules, self.by_hand, flag_until=self.flag_until)

    def teardown(self) -> None:
        """Once quiet: nobody waits, nothing runs, and everything that was asked for has ended."""
        self.together = 1
        self.flush()
        self.redis.hdel(ACCOUNT_QUOTAS, MAIN, "shop", "other")
        for _ in range(200):
            if not (self.calls or left(self.redis)):
                break
            while self.calls:
                self.a_call_ends(0, 0, answered=True, sent=1)
            self._all_past(KEYS.calls_leases)
            self.a_minute_goes_by()
            claims_end(self.redis)
            self.sweep(1)
            self.take(3, 1, 1, "w1")
        check(self.redis, self.rules, self.by_hand, flag_until=self.flag_until)
        assert left(self.redis) == []
        assert self.asked_for <= ended(self.redis).keys()
        self.redis.close()
