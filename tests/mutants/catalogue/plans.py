"""Which re-checks are put, when, in which order, and by whom."""

from __future__ import annotations

from mutants.mutant import Mutant

PLAN = "upkeep/test_recheck_plan.py::"
PLANNERS = "limits/test_planners.py::"
POLICY = "results/test_recheck_policy.py::"
QUERIES = "results/test_queries.py::"
RECHECK = "service/worker/upkeep/recheck.py"
PURE = "service/worker/results/recheck_policy.py"
ASKED = "service/worker/results/queries.py"

MUTANTS = (
    Mutant(
        name="two processes plan the checks of a courier",
        breaks="I8",
        where="limits/lua/plan.lua",
        old="not holder or holder == ARGV[1]",
        new="true",
        tests=(
            PLANNERS + "test_one_process_plans_a_courier_and_others_plan_others",
            PLAN
            + "test_two_processes_share_the_couriers_and_the_second_takes_over_when_the_lease_ends",
        ),
    ),
    Mutant(
        name="who plans a courier plans it for ever",
        breaks="I7",
        where="limits/lua/plan.lua",
        old="ARGV[1], 'PX', ARGV[2])",
        new="ARGV[1])",
        tests=(PLANNERS + "test_who_plans_keeps_a_courier_with_each_question",),
    ),
    Mutant(
        name="a key that holds something else is taken for one's own",
        breaks="I7",
        where="limits/lua/plan.lua",
        old="not holder or holder",
        new="not holder or type(holder) == 'table' or holder",
        tests=(
            PLANNERS + "test_a_broken_key_is_nobodys_and_keeps_no_other_courier_from_its_planner",
        ),
    ),
    Mutant(
        name="each process puts the checks of all couriers",
        breaks="I8",
        where=RECHECK,
        old="return slugs if self._planners is None else await self._planners.hold(slugs)",
        new="return slugs",
        tests=(PLAN + "test_only_who_plans_a_courier_puts_its_checks",),
    ),
    Mutant(
        name="who lost its lease goes on with what it found",
        breaks="I8",
        where=RECHECK,
        old="if now() - moment >= HELD_FOR:",
        new="if now() < moment:",
        tests=(
            PLAN
            + "test_who_lost_its_lease_puts_no_more_than_what_it_puts_just_then_under_the_same_ids",
        ),
    ),
    Mutant(
        name="a second put of a check is a second operation",
        breaks="I8",
        where=RECHECK,
        old="key = f\"{name}@{document['next_check_at'].isoformat()}\"",
        new='key = f"{name}@{moment.isoformat()}"',
        tests=(
            PLAN
            + "test_who_lost_its_lease_puts_no_more_than_what_it_puts_just_then_under_the_same_ids",
        ),
    ),
    Mutant(
        name="a parcel that was answered meanwhile is put off",
        breaks="I8",
        where=ASKED,
        old='"next_check_at": {"$in": list(set(checks.values()))}}',
        new='"next_check_at": {"$ne": None}}',
        tests=(PLAN + "test_a_parcel_that_was_asked_for_by_hand_meanwhile_is_not_put_off",),
    ),
    Mutant(
        name="the last call goes half empty",
        breaks="F18",
        where=RECHECK,
        old="-share.riding % share.together",
        new="0",
        tests=(PLAN + "test_checks_that_are_due_soon_fill_the_last_call",),
    ),
    Mutant(
        name="a check is moved by half of its time",
        breaks="F18",
        where=PURE,
        old="EARLY = 0.1",
        new="EARLY = 0.5",
        tests=(
            POLICY + "test_a_check_may_be_put_a_tenth_of_its_time_sooner_but_not_one_that_was_put",
            PLAN + "test_no_check_is_put_more_than_a_tenth_of_its_time_too_soon",
        ),
    ),
    Mutant(
        name="what was put is put again to fill the next call",
        breaks="I8",
        where=PURE,
        old="timedelta() if self.put else timedelta(seconds=self.seconds) * EARLY",
        new="timedelta(seconds=self.seconds) * EARLY",
        tests=(PLAN + "test_no_check_is_put_more_than_a_tenth_of_its_time_too_soon",),
    ),
    Mutant(
        name="what takes a call of its own fills others",
        breaks="F18",
        where=ASKED,
        old='{ASKED_ALONE: {"$exists": False}}',
        new="{}",
        tests=(
            QUERIES
            + "test_what_fills_a_call_is_due_within_a_tenth_of_its_time_and_found_by_the_index",
        ),
    ),
    Mutant(
        name="parcels out for delivery wait behind all others",
        breaks="I11",
        where=PURE,
        old="Pace(tag in FIRST_TAGS or is_overdue(expected, due), seconds // step * step)",
        new="Pace(False, seconds // step * step)",
        tests=(POLICY + "test_what_is_out_for_delivery_in_exception_or_overdue_goes_first",),
    ),
    Mutant(
        name="where more is due than can be asked about any of it is put",
        breaks="I11",
        where=RECHECK,
        old="self._turns.get(slug, 0) if share.scarce else None",
        new="None",
        tests=(PLAN + "test_where_more_is_due_than_its_line_takes_who_goes_first_is_put_first",),
    ),
    Mutant(
        name="who does not go first starves",
        breaks="I7",
        where=PURE,
        old="both if place % FOURTH else reversed(both)",
        new="both",
        tests=(
            POLICY
            + "test_every_fourth_is_of_those_that_do_not_go_first_so_that_none_of_them_starves",
        ),
    ),
    Mutant(
        name="the longest due comes first, however long its time is",
        breaks="I11",
        where=PURE,
        old='(now - each["next_check_at"]).total_seconds() / seconds, each',
        new='(now - each["next_check_at"]).total_seconds(), each',
        tests=(POLICY + "test_who_is_latest_in_proportion_to_its_time_comes_first",),
    ),
)
