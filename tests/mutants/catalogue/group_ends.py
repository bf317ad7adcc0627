"""Ends of groups in a worker: what is of the whole call, and what of one number."""

from __future__ import annotations

from mutants.mutant import Mutant

FLOW = "flow/test_group.py::"
STORED = "flow/test_group_stored.py::"
ALONE = "results/test_asked_alone.py::"

MUTANTS = (
    Mutant(
        name="a worker that stops forgets a group that it cuts off",
        breaks="I7",
        where="service/worker/flow/group.py",
        old="            if not left:\n",
        new="            if left:\n",
        tests=(STORED + "test_all_of_a_group_are_handed_back_when_the_worker_stops",),
    ),
    Mutant(
        name="what has ended of a group is handed back when the worker stops",
        breaks="I8",
        where="service/worker/flow/group.py",
        old="            left.remove(each[0])\n",
        new="",
        tests=(STORED + "test_what_has_ended_is_not_handed_back_when_the_worker_stops",),
    ),
    Mutant(
        name="a group that failed is charged to each of its numbers",
        breaks="I11",
        where="service/worker/flow/call.py",
        old="replace(setback, charged=False, delay=delay)",
        new="replace(setback, delay=delay)",
        tests=(FLOW + "test_an_error_of_the_line_is_charged_to_no_number_of_a_group",),
    ),
    Mutant(
        name="the numbers of a group that failed come back one by one",
        breaks="I11",
        where="service/worker/flow/call.py",
        old="replace(setback, charged=False, delay=delay)",
        new="replace(setback, charged=False)",
        tests=(FLOW + "test_a_group_that_failed_is_due_again_at_one_instant",),
    ),
    Mutant(
        name="a group that one number may have spoilt is tried again as it is",
        breaks="I11",
        where="service/worker/flow/group.py",
        old="        if isinstance(error, _OF_THE_LINE):\n",
        new="        if isinstance(error, CourierError):\n",
        tests=(FLOW + "test_an_error_that_one_number_may_have_caused_halves_the_group",),
    ),
    Mutant(
        name="each end of a group takes what follows",
        breaks="I11",
        where="service/worker/flow/group.py",
        old="            await self._end_one(each, delay, last=False)\n",
        new="            await self._end_one(each, delay)\n",
        tests=(FLOW + "test_only_the_last_end_of_a_group_takes_what_follows",),
    ),
    Mutant(
        name="no end of a group that was not answered takes what follows",
        breaks="I7",
        where="service/worker/flow/group.py",
        old="            return await self._end_one(last)\n",
        new="            return await self._end_one(last, last=False)\n",
        tests=(FLOW + "test_where_no_number_is_answered_the_last_failure_takes_what_follows",),
    ),
    Mutant(
        name="a number that an answer leaves out fails",
        breaks="I11",
        where="service/worker/flow/tracking_work.py",
        old="each or LeftOut()",
        new='each or UnreadableAnswer("it is not there")',
        tests=(FLOW + "test_a_courier_answers_leaves_out_and_refuses_numbers_of_one_call",),
    ),
    Mutant(
        name="a number that is the only one asked for is asked about alone for ever",
        breaks="I7",
        where="service/worker/flow/call.py",
        old="        if isinstance(outcome, LeftOut):\n",
        new="        if isinstance(outcome, LeftOut) and call.alone:\n",
        tests=(FLOW + "test_an_answer_that_leaves_out_the_only_number_cannot_be_read",),
    ),
    Mutant(
        name="all of a group is stored again when one is not confirmed",
        breaks="I11",
        where="service/worker/flow/group.py",
        old="[each for each in left if isinstance(errors[each[0].id], ResultsDown)]",
        new="answers if any(isinstance(each, ResultsDown) for each in errors.values()) else []",
        tests=(STORED + "test_only_what_is_not_confirmed_is_stored_again",),
    ),
    Mutant(
        name="what MongoDB does not take of a group is taken for stored",
        breaks="I1",
        where="service/worker/flow/group.py",
        old="if errors.get(each[0].id) is None]",
        new="if not isinstance(errors.get(each[0].id), CourierError)]",
        tests=(STORED + "test_what_is_not_stored_while_mongodb_is_away_goes_back_in_its_order",),
    ),
    Mutant(
        name="a body about several numbers is kept for each of them",
        breaks="I11",
        where="service/worker/flow/group.py",
        old="        bare.unread = None\n",
        new="        pass\n",
        tests=(FLOW + "test_a_body_about_several_numbers_is_kept_for_none_of_them",),
    ),
    Mutant(
        name="a number that was asked about alone stays alone for ever",
        breaks="I11",
        where="service/worker/results/merge.py",
        old="        document.pop(ASKED_ALONE, None)\n",
        new="        pass\n",
        tests=(ALONE + "test_a_number_that_is_asked_about_alone_stays_so_until_its_tag_changes",),
    ),
)
