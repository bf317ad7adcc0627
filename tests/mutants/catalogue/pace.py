"""Starts: when a request may leave, measured at the courier."""

from __future__ import annotations

from mutants.mutant import Mutant

CLOCK = "limits/test_redis_clock.py::"
FLAWS = "limits/test_original_flaws.py::"
PACE = "limits/test_pace.py::"
PERMIT = "limits/test_call_permit.py::"

MUTANTS = (
    Mutant(
        name="who waited is taken whatever the limits say",
        breaks="I2 I3 F5",
        where="limits/lua/lib/turns.lua",
        old="    local at, lane, ask = opening()\n    if not at",
        new="    local at, lane, ask = now, nil, nil\n    if not at",
        tests=(FLAWS + "test_who_waited_counts_against_the_rate_like_everybody_else",),
        daily=True,
    ),
    Mutant(
        name="each drainer begins with a second of its own",
        breaks="I3 F9",
        where="limits/lua/lib/lanes.lua",
        old="call('ZREMRANGEBYSCORE', STARTS, '-inf', now)",
        new="call('ZREMRANGEBYSCORE', STARTS, '-inf', '+inf')",
        tests=(FLAWS + "test_ten_drainers_at_once_keep_the_limits",),
    ),
    Mutant(
        name="seconds are those of the calendar",
        breaks="I3 F15",
        where="limits/lua/lib/slug.lua",
        old="    call('ZADD', STARTS, 'XX', reports[i + 1] + rules.window_us, reports[i])",
        new="    call('ZADD', STARTS, 'XX',\n"
        "      math.ceil(reports[i + 1] / 1000000) * 1000000, reports[i])",
        tests=(FLAWS + "test_the_second_slides_and_is_not_a_second_of_the_calendar",),
        daily=True,
    ),
    Mutant(
        name="a refused request uses up a start",
        breaks="I3 F14",
        where="limits/lua/admit.lua",
        old="if not at then\n  put_tail(number, record)",
        new="if not at then\n  start(id, now, nil)\n  put_tail(number, record)",
        tests=(FLAWS + "test_a_refused_request_changes_no_count",),
    ),
    Mutant(
        name="starts of a lane are a second apart and no guard more",
        breaks="I3",
        where="limits/rules.py",
        old="return 1_000_000 + self.guard_ms * 1_000",
        new="return 1_000_000",
        tests=(PACE + "test_the_guard_is_a_rule_of_the_courier",),
    ),
    Mutant(
        name="a lane counts from the grant although the send may be late",
        breaks="I3",
        where="limits/lua/lib/lanes.lua",
        old="  call('ZADD', STARTS, at + rules.late_us + rules.window_us, id)",
        new="  call('ZADD', STARTS, at + rules.window_us, id)",
        tests=(PACE + "test_a_lane_without_a_report_counts_as_used_at_the_last_permitted_instant",),
    ),
    Mutant(
        name="a late report takes a lane that went to another call",
        breaks="I3",
        where="limits/lua/lib/slug.lua",
        old="    call('ZADD', STARTS, 'XX', reports[i + 1]",
        new="    call('ZADD', STARTS, reports[i + 1]",
        tests=(PACE + "test_a_report_for_a_lane_that_went_to_another_start_changes_nothing",),
    ),
    Mutant(
        name="measured sends are not noted",
        breaks="I3",
        where="limits/lua/lib/batch.lua",
        old="  note(ARGV[at + 1])\n",
        new="",
        tests=(PACE + "test_a_report_frees_the_lane_a_second_and_the_guard_after_the_send",),
    ),
    Mutant(
        name="a call that is handed back gets its start back although it may have left",
        breaks="I3",
        where="limits/lua/requeue.lua",
        old="  wait_again(record)",
        new="  give_start_back(ARGV[3], record)\n  wait_again(record)",
        tests=(PACE + "test_a_requeued_and_a_retried_call_keep_their_start_spent",),
    ),
    Mutant(
        name="a call that never started is counted as a start",
        breaks="I6",
        where="limits/lua/abort.lua",
        old="  give_start_back(ARGV[3], record)\n",
        new="",
        tests=(PACE + "test_an_aborted_call_gives_its_start_back",),
    ),
    Mutant(
        name="a start given back frees the lane of the start before",
        breaks="I3",
        where="limits/lua/lib/lanes.lua",
        old="  if tonumber(record.at) > now then",
        new="  if false then",
        tests=(
            PACE + "test_a_start_given_back_before_its_instant_leaves_its_lane_taken_until_then",
        ),
    ),
    Mutant(
        name="a further request of a call needs no lane",
        breaks="I3",
        where="limits/lua/again.lua",
        old="local at, lane, ask = free_lane()",
        new="local at, lane, ask = now, nil, nil",
        tests=(PERMIT + "test_a_further_request_waits_for_a_free_lane",),
    ),
    Mutant(
        name="the gate lets a request out before its instant",
        breaks="I3",
        where="limits/permit.py",
        old="            if early <= 0:\n",
        new="            if early <= 1:\n",
        tests=(PERMIT + "test_a_request_is_held_until_its_instant",),
        daily=True,
    ),
    Mutant(
        name="a grant that is too old is used",
        breaks="I3",
        where="limits/permit.py",
        old="if now + self._clock.high > self._at + LATE_SECONDS or now > self.deadline:",
        new="if now > self.deadline:",
        tests=(PERMIT + "test_a_grant_that_came_too_late_is_not_used",),
    ),
    Mutant(
        name="a grant is good for any number of requests",
        breaks="I3",
        where="limits/permit.py",
        old="        self._used = True\n",
        new="",
        tests=(PERMIT + "test_a_second_request_on_one_grant_is_refused_and_the_first_stays_spent",),
    ),
    Mutant(
        name="a send is stamped with the earliest instant it can have had",
        breaks="I3",
        where="limits/permit.py",
        old="self._report(self._start_id, round((time.monotonic() + self._clock.high) * MICRO))",
        new="self._report(self._start_id, round((time.monotonic() + self._clock.low) * MICRO))",
        tests=(PERMIT + "test_a_send_is_stamped_with_the_latest_instant_it_can_have_had",),
    ),
    Mutant(
        name="a request leaves as soon as its instant may have come",
        breaks="I3",
        where="limits/permit.py",
        old="early = self._at - (now + self._clock.low)",
        new="early = self._at - (now + self._clock.high)",
        tests=(PERMIT + "test_a_request_is_held_until_its_instant_has_certainly_come",),
    ),
    Mutant(
        name="redis' clock is guessed from the middle of an exchange",
        breaks="I3",
        where="limits/clock.py",
        old="low, high = time_us / MICRO - after, time_us / MICRO - before",
        new="low = high = time_us / MICRO - (before + after) / 2",
        tests=(CLOCK + "test_an_exchange_bounds_the_difference_of_the_clocks",),
    ),
    Mutant(
        name="nobody waits until a clock that stepped has settled",
        breaks="I3",
        where="limits/clock.py",
        old="                self._settled_at = after + SETTLE_SECONDS\n",
        new="",
        tests=(
            CLOCK + "test_a_step_of_a_clock_is_noticed_and_nothing_is_sent_until_it_has_settled",
        ),
    ),
    Mutant(
        name="the call timeout is taken for milliseconds",
        breaks="F20",
        where="limits/limiter.py",
        old="asked + self._rules_of(slug).call_timeout_seconds,",
        new="asked + self._rules_of(slug).call_timeout_seconds / 1000,",
        tests=(PERMIT + "test_the_deadline_is_the_call_timeout_from_before_the_script_was_sent",),
    ),
)
