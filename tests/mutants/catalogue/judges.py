"""Judges: who looks at calls for several numbers sees each number, and one call."""

from __future__ import annotations

from mutants.mutant import Mutant

VERDICT = "reliability/test_verdict.py::"
SAMPLER = "reliability/test_sampler.py::"
GROUP = "flow/test_group.py::"
DELIVERED = "reliability/test_delivered.py::"
JUDGE = (
    "devstack/test_judge.py::"
    "test_attempts_of_a_delivery_are_one_after_the_other_until_a_success_is_stored"
)
SITE = "devstack/test_site.py::"

MUTANTS = (
    Mutant(
        name="a group that always fails comes back whole for ever",
        breaks="I1",
        where="service/worker/flow/group.py",
        old="        drawn = calls if any(call.tries for call in calls) else calls[:1]\n",
        new="        drawn = calls[:1]\n",
        tests=(GROUP + "test_a_group_of_which_one_failed_before_is_due_number_by_number",),
    ),
    Mutant(
        name="the judge of fault runs looks at the first number of a call only",
        breaks="I8",
        where="tests/reliability/chaos/verdict.py",
        old="for call in calls for number in call.numbers)",
        new="for call in calls for number in call.numbers[:1])",
        tests=(VERDICT + "test_a_rider_is_called_by_nobody_else_either",),
    ),
    Mutant(
        name="a call of a fault run carries as many numbers as it likes",
        breaks="I2",
        where="tests/reliability/chaos/verdict.py",
        old="judge.most_numbers_in_a_call(calls)) > courier.together:",
        new="judge.most_numbers_in_a_call(calls)) > 1_000:",
        tests=(VERDICT + "test_a_call_for_several_is_one_call_for_as_many_numbers_as_it_may",),
    ),
    Mutant(
        name="the judge of webhooks overlooks what is sent after a stored success",
        breaks="I8",
        where="devstack/judge.py",
        old="if known.stored_ns is not None and last_ns > known.stored_ns:",
        new="if known.stored_ns is not None and last_ns < 0:",
        tests=(JUDGE, DELIVERED + "test_attempts_at_once_and_behind_a_stored_success_are_seen"),
    ),
    Mutant(
        name="the judge of webhooks takes every attempt without a row for a killed one",
        breaks="I8",
        where="tests/reliability/chaos/deliveries.py",
        old="if any(_was_killed(found, call) for call in calls)]",
        new="]",
        tests=(DELIVERED + "test_only_what_was_in_flight_at_a_kill_is_sent_again",),
    ),
    Mutant(
        name="nobody sees that riders have slots of their own",
        breaks="I2",
        where="tests/reliability/chaos/sampler.py",
        old='if "~" in call]',
        new='if "~~" in call]',
        tests=(SAMPLER + "test_a_place_of_a_rider_and_a_group_that_is_too_large_are_seen",),
    ),
    Mutant(
        name="the courier site forgets the riders of a call",
        breaks="I8",
        where="devstack/judge.py",
        old="        return (self.number, *self.riders)\n",
        new="        return (self.number,)\n",
        tests=(SITE + "test_a_call_for_several_is_one_call_and_every_number_is_recorded",),
    ),
)
