"""Deliveries: the window in Redis, attempts that are made once, and what follows a failure."""

from __future__ import annotations

from mutants.mutant import Mutant

DELIVERING = "deliveries/test_delivering.py::"
WORK = "deliveries/test_work.py::"
STORE = "deliveries/test_store.py::"
WINDOWS = "limits/test_windows.py::"
BRING = "flow/test_bring.py::"

WORKS = "service/worker/deliveries/work.py"
STORED = "service/worker/deliveries/store.py"
FILLER = "service/worker/deliveries/filler.py"
BRINGING = "service/worker/flow/bring.py"

OTHERWISE = (
    DELIVERING + "test_nothing_is_sent_that_mongodb_has_otherwise_and_its_start_is_given_back"
)
THOUSAND = DELIVERING + "test_redis_holds_at_most_a_thousand_of_a_dead_destination"
ORDERED = DELIVERING + "test_an_ordered_service_is_told_one_by_one_in_the_order_of_events"
PROBES = (
    DELIVERING + "test_a_resting_line_is_tried_by_one_after_the_other_uncharged_before_it_is_due"
)
ROW_FIRST = WORK + "test_an_attempt_has_its_row_before_the_delivery_moves_and_is_heard_of_then"

MUTANTS = (
    Mutant(
        name="a delivery is attempted that is over",
        breaks="I8",
        where=WORKS,
        old="    if found.delivery.state is not DeliveryState.OPEN:\n        return",
        new="    if found.delivery.state is None:\n        return",
        tests=(OTHERWISE,),
        daily=True,
    ),
    Mutant(
        name="a delivery is attempted for which another attempt was brought in",
        breaks="I8",
        where=WORKS,
        old='    if not _is_of(found.delivery, call):\n        return "moved_on"\n',
        new="",
        tests=(OTHERWISE,),
    ),
    Mutant(
        name="a delivery is attempted before it is due",
        breaks="I11",
        where=WORKS,
        old='    return "" if is_due else "not_due"\n',
        new='    return ""\n',
        tests=(OTHERWISE,),
    ),
    Mutant(
        name="an attempt is made again whose row stands",
        breaks="I8",
        where=WORKS,
        old="            if found.row is not None:\n",
        new="            if found.row is None and found.row:\n",
        tests=(DELIVERING + "test_the_row_of_an_attempt_is_taken_over_and_nothing_is_sent",),
        daily=True,
    ),
    Mutant(
        name="a delivery moves before its attempt has a row",
        breaks="I8",
        where=WORKS,
        old="        await self._deliveries.note(made.row)\n"
        "        await self._deliveries.move(made.was, made.to)\n",
        new="        await self._deliveries.move(made.was, made.to)\n"
        "        await self._deliveries.note(made.row)\n",
        tests=(ROW_FIRST,),
    ),
    Mutant(
        name="a delivery of a paused service is attempted",
        breaks="I8",
        where=WORKS,
        old="    if service is None or service.state is not ServiceState.ACTIVE:\n",
        new="    if service is None:\n",
        tests=(DELIVERING + "test_deliveries_of_a_service_that_is_not_active_wait_in_mongodb",),
    ),
    Mutant(
        name="a probe that fails is charged to its delivery",
        breaks="I9",
        where=WORKS,
        old="    if ending.is_of_the_service and _seconds_until(delivery, at) > SKEW_SECONDS:\n"
        "        return uncharged\n",
        new="",
        tests=(WORK + "test_a_delivery_becomes", PROBES),
    ),
    Mutant(
        name="a receiver's wish for a rest is charged to its delivery",
        breaks="I9",
        where=WORKS,
        old="        return replace(uncharged, next_at=max(ended_at + rest, delivery.next_at))\n",
        new="        return replace(made, next_at=max(ended_at + rest, delivery.next_at))\n",
        tests=(WORK + "test_a_delivery_becomes",),
    ),
    Mutant(
        name="what a delivery is refused for rests its line",
        breaks="I7",
        where=WORKS,
        old="    elif ending.is_of_the_service:\n        setback = Setback(DOWN",
        new="    else:\n        setback = Setback(DOWN",
        tests=(WORK + "test_a_failure_of_the_delivery_is_not_held_against_the_service",),
    ),
    Mutant(
        name="without a key the line goes on",
        breaks="I9",
        where=WORKS,
        old="replace(setback, brake=DELIVERY.brakes[NO_KEY], firm=True)\n",
        new="setback\n",
        tests=(WORK + "test_without_a_key_nothing_is_sent_and_the_line_stops",),
    ),
    Mutant(
        name="a delivery that is repeated soon keeps the fields of its last attempt",
        breaks="I7",
        where="limits/lua/retry.lua",
        old="    record.fields = setback.fields or record.fields\n",
        new="",
        tests=(WINDOWS + "test_a_request_is_repeated_with_the_fields_of_its_setback",),
    ),
    Mutant(
        name="a call that had nothing to do keeps its start",
        breaks="I7",
        where="limits/lua/finish.lua",
        old="  if record and verdict.unsent then give_start_back(id, record) end\n",
        new="",
        tests=(WINDOWS + "test_a_call_that_had_nothing_to_do_gives_its_start_back",),
    ),
    Mutant(
        name="a call that had nothing to do lets a resting line go on",
        breaks="I9",
        where="service/worker/flow/call.py",
        old="answered=False, unsent=True)",
        new="unsent=True)",
        tests=(
            "flow/test_call_ends.py::test_a_call_that_had_nothing_to_do_ends_and_tells_nothing",
        ),
    ),
    Mutant(
        name="what runs and what is repeated later is no part of the window",
        breaks="I5",
        where="limits/lua/lib/waiting.lua",
        old="    if not rules.operations then return holds() end\n",
        new="",
        tests=(WINDOWS + "test_a_window_holds_all_that_wait_are_repeated_and_run",),
    ),
    Mutant(
        name="the filler brings in all that is due",
        breaks="I5",
        where=FILLER,
        old="        elif len(window.numbers) < LOW:\n",
        new="        elif window:\n",
        tests=("deliveries/test_filler.py::test_a_line_that_has_enough_is_not_filled",),
    ),
    Mutant(
        name="an ordered service is sent the next before the first is over",
        breaks="I11",
        where=FILLER,
        old="        if window.numbers and await self._due.is_open(window.numbers):\n",
        new="        if window.numbers and not window.numbers:\n",
        tests=(
            "deliveries/test_filler.py::test_of_an_ordered_service_nothing_follows_one_that_is_open",
        ),
    ),
    Mutant(
        name="of an ordered service comes what is due first",
        breaks="I11",
        where=STORED,
        old='{"made_at": {"$lte": settled}}, BY_EVENT, 1)\n',
        new='{"made_at": {"$lte": settled}}, ORDER, 1)\n',
        tests=(STORE + "test_what_is_due_comes_by_its_instant_and_id_and_the_head_by_its_event",),
    ),
    Mutant(
        name="a resting line is tried by the same delivery each time",
        breaks="I7",
        where=FILLER,
        old="            self._probed[line] = another.id\n",
        new="",
        tests=(PROBES,),
    ),
    Mutant(
        name="an emptied Redis is not filled again",
        breaks="I1",
        where=FILLER,
        old="        found = [line for line in low if active[line].id in due]\n",
        new="        found = [line for line in low if low[line] and active[line].id in due]\n",
        tests=(DELIVERING + "test_what_nobody_brought_in_is_found_in_mongodb",),
        daily=True,
    ),
    Mutant(
        name="a drain job of an empty line wakes nobody",
        breaks="I7",
        where="service/worker/flow/drain.py",
        old="        self.claimed(line)\n",
        new="",
        tests=(DELIVERING + "test_a_drain_job_of_an_empty_line_has_the_service_looked_at",),
    ),
    Mutant(
        name="a failure opens what somebody cancelled",
        breaks="I8",
        where=STORED,
        old='        wanted["state"] = DeliveryState.OPEN\n    return UpdateOne',
        new="        pass\n    return UpdateOne",
        tests=(STORE + "test_a_failure_only_counts_where_somebody_cancelled_or_held_meanwhile",),
    ),
    Mutant(
        name="a delivery moves wherever it stands",
        breaks="I8",
        where=STORED,
        old='{"_id": each.was.id, "round": each.was.round, "made": each.was.made}\n',
        new='{"_id": each.was.id}\n',
        tests=(STORE + "test_a_delivery_that_stands_elsewhere_stays_there",),
    ),
    Mutant(
        name="what is brought in waits for a Redis that is away",
        breaks="I7",
        where=BRINGING,
        old="until = time.monotonic() + TRIED_SECONDS\n",
        new="until = time.monotonic() + 1e6\n",
        tests=(
            BRING + "test_while_redis_is_away_it_is_asked_for_some_seconds_under_the_same_name",
        ),
    ),
    Mutant(
        name="what waits to be brought in is kept without end",
        breaks="I5",
        where=BRINGING,
        old="            if len(self._waiting) >= WAITING_MOST:\n                break\n",
        new="",
        tests=(BRING + "test_no_more_wait_to_be_brought_in_than_memory_is_for",),
    ),
)
