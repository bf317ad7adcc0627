"""Slots: calls in flight, their leases, and what operators see of them."""

from __future__ import annotations

from mutants.mutant import Mutant

FLAWS = "limits/test_original_flaws.py::"
SLOTS = "limits/test_lanes_and_slots.py::"
UNNOTICED = "limits/test_finish.py::"

MUTANTS = (
    Mutant(
        name="one call and one start more than allowed are granted",
        breaks="I2 I3",
        where="limits/lua/lib/lanes.lua",
        old="  if surplus < 0 then return nil end",
        new="  if surplus <= 0 then return nil end",
        tests=(SLOTS + "test_twenty_calls_run_at_once_and_the_next_one_waits",),
        daily=True,
    ),
    Mutant(
        name="calls in flight are looked at by nobody who drains",
        breaks="I2 F4",
        where="limits/lua/lib/lanes.lua",
        old="  local ends = frees(LEASES, most, now + rules.lease_us)",
        new="  local ends = nil",
        tests=(FLAWS + "test_forty_who_look_at_once_at_one_free_slot_are_one_call",),
    ),
    Mutant(
        name="the lease of a dead worker never ends",
        breaks="I4 F12",
        where="limits/lua/lib/memory.lua",
        old="call('ZREMRANGEBYSCORE', key, '-inf', digits(now))",
        new="call('ZREMRANGEBYSCORE', key, '-inf', key == LEASES and 0 or digits(now))",
        tests=(FLAWS + "test_slots_of_the_dead_come_back_under_steady_traffic",),
        daily=True,
    ),
    Mutant(
        name="a lease lasts twice as long as the rules say",
        breaks="I4",
        where="limits/lua/lib/memory.lua",
        old="call('ZADD', LEASES, digits(now + rules.lease_us), id)",
        new="call('ZADD', LEASES, digits(now + 2 * rules.lease_us), id)",
        tests=(SLOTS + "test_a_lease_lasts_as_long_as_the_rules_say",),
    ),
    Mutant(
        name="leases are kept in Redis for ever",
        breaks="I5",
        where="limits/lua/lib/memory.lua",
        old="call('PEXPIRE', LEASES,",
        new="call('EXISTS', LEASES,",
        tests=(SLOTS + "test_leases_that_nobody_ends_leave_redis",),
    ),
    Mutant(
        name="a call to be repeated keeps its slot",
        breaks="I4 F13",
        where="limits/lua/lib/flight.lua",
        old="  local leased, is_free = land(id, { n = number, lead = lead })\n",
        new="  call('HDEL', INFLIGHT, id, '=' .. number)\n  local leased, is_free\n",
        tests=(FLAWS + "test_a_call_that_failed_in_any_way_gives_its_slot_back",),
    ),
    Mutant(
        name="calls_number is not written again after it expired",
        breaks="I6 F11",
        where="limits/lua/lib/memory.lua",
        old="elseif known.leased or not call('SET', CALLS, calls, 'XX', 'KEEPTTL') then",
        new="elseif known.leased then",
        tests=(FLAWS + "test_a_count_that_expired_during_slow_calls_is_right_again_after_them",),
    ),
    Mutant(
        name="calls_number does not tell that a call has ended",
        breaks="I6",
        where="limits/lua/lib/memory.lua",
        old="  known.sizes[LEASES] = known.sizes[LEASES] and known.sizes[LEASES] - 1\n"
        "  known.changed[LEASES] = true\n",
        new="",
        tests=(FLAWS + "test_a_count_that_expired_during_slow_calls_is_right_again_after_them",),
    ),
    Mutant(
        name="sec_calls is written without its expiry",
        breaks="I5 F10",
        where="limits/lua/lib/memory.lua",
        old="    call('SET', SECOND, starts, 'PX', 1000)",
        new="    call('SET', SECOND, starts)",
        tests=(FLAWS + "test_the_calls_of_the_last_second_never_lose_their_expiry",),
    ),
    Mutant(
        name="the last slot is left to the drainer",
        breaks="I7",
        where="limits/lua/lib/taking.lua",
        old=" or members(LEASES) + 1 >= rules.concurrent then",
        new=" then",
        tests=(UNNOTICED + "test_the_last_slot_is_given_on_at_once",),
    ),
    Mutant(
        name="a drainer that is late is waited for",
        breaks="I7",
        where="limits/lua/lib/taking.lua",
        old="  return at ~= nil and at >= now and",
        new="  return at ~= nil and",
        tests=(UNNOTICED + "test_a_drainer_that_is_late_is_not_waited_for",),
    ),
    Mutant(
        name="a freed slot goes to nobody",
        breaks="I7",
        where="limits/lua/finish.lua",
        old="  return { now, {}, what_follows(base, room, first",
        new="  return { now, {}, what_follows(base, '0', first",
        tests=(SLOTS + "test_a_freed_slot_goes_to_the_next_in_line_in_the_same_reply",),
    ),
)
