"""What may happen to a group, beside all else of a random walk."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from limits_bench import KEYS
from limits_invariants import asking, lead_of, setback_of
from redis import ResponseError
from sender import Reply, Step
from walk import GIVES_DUTIES, PICK, ROOM, SENT, Walk

from limits.keys import write_request
from tracking.call import NO_ROOM

CROWD = 40
FOR_THIRTY = 30
NOTHING_YET = ""
"""The room of a step behind which others of its group end."""
WAYS = st.lists(st.sampled_from(["finish", "retry", "alone", "back"]), min_size=1, max_size=5)

GIVES_DUTIES |= {"halve", "ask_alone"}


class WalkOfGroups(Walk):
    """Knows who was ever in a group, and who was ever called alone."""

    def __init__(self, url: str, at_once: int, together: int = 1) -> None:
        super().__init__(url, at_once, together)
        self.groups: dict[str, set[str]] = {}
        self.were_alone: set[str] = set()
        self.asked_alone: set[str] = set()

    def answer_together(self, most: int) -> None:
        """Where a call is for many, as many may wait."""
        super().answer_together(most)
        if most > CROWD // 2:
            self.rules = replace(self.rules, max_waiting=2 * CROWD)

    def group_of_call(self, pick: int) -> list[tuple[str, str, int]]:
        """The calls that are held of one group, in their order."""
        call = self.any_call(pick)
        lead = lead_of(call[0])
        group = [call, *(each for each in self.calls if lead_of(each[0]) == lead)]
        self.calls = [each for each in self.calls if each not in group]
        return sorted(group, key=lambda each: int(each[0].partition("~")[2] or 1))

    @rule(
        most=st.integers(2, CROWD),
        first=st.integers(0, CROWD - 2),
        auto=st.booleans(),
        alone=st.sampled_from([0, 0, 7]),
        sent=SENT,
    )
    def a_crowd_waits_for_calls_of_thirty(
        self, most: int, first: int, alone: int, sent: int, *, auto: bool
    ) -> None:
        """Some of them to be asked alone, where it says so."""
        self.answer_together(FOR_THIRTY)
        for n in range(first, min(CROWD, first + most)):
            job, mark = self.new("j"), bool(alone) and n % alone == 0
            request = asking(f"W{n:03}", None, alone=mark)
            body = json.loads(write_request(request, job, full=True)) | (
                {"auto": True} if auto else {}
            )
            if mark:
                self.asked_alone.add(request.number)
            self.admit(job, json.dumps(body).encode(), sent)
        self.flush()
        self.redis.delete(KEYS.calls_paused, KEYS.calls_brake)
        self.a_second_goes_by()
        self.take(2, 0, sent, "w1")

    @rule(pick=PICK, room=ROOM, sent=SENT)
    def a_group_is_halved(self, pick: int, room: int, sent: int) -> None:
        ids = "\n".join(each[0] for each in self.group_of_call(pick))
        self.ask(Step("halve", (ids, self.new("t"), room), self.hold_all), sent=sent)

    @rule(pick=PICK, room=ROOM, unsent=st.integers(0, 1), sent=SENT)
    def a_group_is_handed_back(self, pick: int, room: int, unsent: int, sent: int) -> None:
        ids = "\n".join(each[0] for each in self.group_of_call(pick))
        self.ask(Step("hand_back", (ids, unsent, self.new("t"), room), self.hold_all), sent=sent)

    @rule(pick=PICK, room=ROOM, sent=SENT)
    def an_answer_leaves_a_number_out(self, pick: int, room: int, sent: int) -> None:
        call_id, number, _ = self.any_call(pick)
        self.flush()
        text = self.redis.hget(KEYS.wait_inflight, call_id)
        self.asked_alone.add(number)
        self.run("ask_alone", call_id, self.new("t"), room, sent=sent)
        if text and not json.loads(text).get("forgotten"):
            running = self.redis.hget(KEYS.wait_inflight, f"={number}")
            record = (running and self.redis.hget(KEYS.wait_inflight, running)) or (
                self.redis.hget(KEYS.wait_requests, number)
            )
            assert json.loads(record or "{}").get("alone"), (number, record)

    def run(self, name: str, *args: Any, sent: int = 1) -> Reply:
        """The same; what it grants is held."""
        reply = super().run(name, *args, sent=sent)
        if name in {"ask_alone", "take"}:
            self.hold_all(reply)
        return reply

    @rule(pick=PICK, room=ROOM, sent=SENT)
    def a_group_ends_in_one_go(self, pick: int, room: int, sent: int) -> None:
        """As limits/limiter.py ends it: the last one takes, or else it takes then."""
        group, base, freed = self.group_of_call(pick), self.new("t"), False
        left = [(each, NOTHING_YET) for each in group[:-1]] + [(group[-1], room)]
        while left:
            replies = list[Reply]()
            steps = [self.ending(call, to_take) for call, to_take in left]
            self.flush()
            self.ask(
                *(
                    Step(each.name, (*each.args[:-2], base, each.args[-1]), replies.append)
                    for each in steps
                ),
                sent=sent,
            )
            self.flush()
            for (_, to_take), (_, more, grants, why, *_) in zip(left, replies, strict=True):
                freed = freed or (to_take == NOTHING_YET and why == "freed")
                if to_take != NOTHING_YET and not more:
                    held = grants
            left = [each for each, reply in zip(left, replies, strict=True) if reply[1]]
        if freed:
            self.run("take", base, room, 0, sent=sent)
        else:
            self.hold(held)

    @rule(pick=PICK, room=st.integers(NO_ROOM, 2), ways=WAYS, sent=SENT)
    def a_group_ends_in_many_ways(self, pick: int, room: int, ways: list[str], sent: int) -> None:
        """Some are answered, some repeated, handed back or asked alone; the last one takes."""
        self.flush()
        steps, rooms = list[Step](), [NOTHING_YET] * 50
        group = self.group_of_call(pick)
        rooms[len(group) - 1] = str(room)
        for n, (call, to_take) in enumerate(zip(group, rooms, strict=False)):
            way, base = ways[n % len(ways)], self.new("t")
            match way:
                case "finish":
                    steps.append(self.ending(call, to_take))
                case "retry":
                    args = (call[0], setback_of("results_down", 60_000), base, to_take)
                    steps.append(Step("retry", args, self.hold_all))
                case "alone":
                    self.asked_alone.add(call[1])
                    steps.append(Step("ask_alone", (call[0], base, to_take), self.hold_all))
                case _:
                    steps.append(Step("hand_back", (call[0], 0, base, to_take), self.hold_all))
        self.ask(*steps, sent=sent)
        self.flush()
        self.sweep(1)  # an end that is to be sent again settles nothing
        self.flush()

    @rule(pick=PICK, ended=st.integers(0, 3))
    def a_worker_vanishes_between_two_ends(self, pick: int, ended: int) -> None:
        self.flush()
        group = self.group_of_call(pick)
        if group[:ended]:
            self.ask(*(self.ending(each, NOTHING_YET) for each in group[:ended]))
            self.flush()
        self.calls = [each for each in self.calls if each not in group]
        self.leaps.append((KEYS.calls_leases, lead_of(group[0][0])))
        self.sweep(1)
        self.flush()

    def flush(self) -> None:
        """The same; who went together is noted before anything else happens to them."""
        super().flush()
        self.note_groups()

    def _meet(self, step: str, number: str) -> None:
        super()._meet(step, number)
        self.note_groups()

    def note_groups(self) -> None:
        """See who is in flight, with whom."""
        try:
            flying = self.redis.hgetall(KEYS.wait_inflight)
        except ResponseError:
            return  # it is of another type for a while
        for call_id, text in flying.items():
            if call_id[0] in "=#" or text == "{":
                continue
            record = json.loads(text)
            self.groups.setdefault(record.get("lead", call_id), set()).add(record["n"])
            if "lead" not in record:
                self.were_alone.add(record["n"])

    @invariant()
    def halves_are_of_one_group_and_smaller(self) -> None:
        """And nobody is charged with what happened in company, or alone for no reason."""
        records = self._records()
        halves = Counter(each["half"] for each in records.values() if "half" in each)
        for label, many in halves.items():
            lead, _, half = label.rpartition("/")
            assert half in {"1", "2"}
            assert many <= max(1, len(self.groups[lead]) - 1), (label, many, self.groups[lead])
        for number, record in records.items():
            if "half" in record:
                assert number in self.groups[record["half"].rpartition("/")[0]]
            assert not record.get("deaths") or number in self.were_alone, (number, record)
            assert not record.get("alone") or number in self.asked_alone, (number, record)

    def _records(self) -> dict[str, dict[str, Any]]:
        waiting = self.redis.hgetall(KEYS.wait_requests)
        found = {name: json.loads(text) for name, text in waiting.items() if name[0] != "!"}
        for field, text in self.redis.hgetall(KEYS.wait_inflight).items():
            if field[0] not in "=#":
                record = json.loads(text)
                found[record["n"]] = record
        return found
