"""Changes and ends: nobody who wants to hear of one misses it, or hears of it twice."""

from __future__ import annotations

from mutants.mutant import Mutant

MARKS = "results/test_marks.py::"
OUTBOX = "deliveries/test_outbox.py::"
ENDS = "deliveries/test_operation_ends.py::"
STEPS = "flow/test_handle.py::"
REPLIES = "door/test_replies_cancel_webhooks.py::"

MUTANTS = (
    Mutant(
        name="a change is noted and not marked in its document",
        breaks="I1",
        where="service/worker/results/trackings.py",
        old="document, self.mark = marked(before, document, datetime.now(UTC))",
        new="_, self.mark = marked(before, document, datetime.now(UTC))",
        tests=(MARKS + "test_the_write_that_changes_a_document_marks_it",),
    ),
    Mutant(
        name="a number that is used again loses the marks of before",
        breaks="I1",
        where="service/worker/results/merge.py",
        old="        if UNTOLD in old:\n",
        new="        if not old:\n",
        tests=(MARKS + "test_a_number_that_is_used_again_is_another_parcel_and_no_mark_is_lost",),
    ),
    Mutant(
        name="what is untold is purged",
        breaks="I1",
        where="service/worker/results/retention.py",
        old='{"active": False, **NONE_UNTOLD, **changed}',
        new='{"active": False, **changed}',
        tests=(MARKS + "test_what_ended_is_not_purged_before_its_changes_are_told",),
    ),
    Mutant(
        name="a joined mark keeps the id of the one that may be pulled",
        breaks="I1",
        where="service/worker/results/change.py",
        old='"id": secrets.token_hex(ID_BYTES),',
        new='"id": f"{len(untold)}",',
        tests=(MARKS + "test_of_many_marks_the_last_two_become_one_that_knows_what_was_before",),
    ),
    Mutant(
        name="a mark is pulled before its deliveries are there",
        breaks="I1",
        where="service/worker/deliveries/outbox.py",
        old="    inserted = steps.insert(stores, told)\n",
        new="    steps.pull(stores.tracking, [mark for mark, _ in followed])\n"
        "    inserted = steps.insert(stores, told)\n",
        tests=(
            OUTBOX + "test_a_process_that_vanishes_at_any_step_loses_nothing_and_doubles_nothing",
        ),
    ),
    Mutant(
        name="a mark is pulled although MongoDB refuses its event",
        breaks="I1",
        where="service/worker/deliveries/outbox.py",
        old="[mark for mark, _ in followed if mark.id not in inserted.kept]",
        new="[mark for mark, _ in followed]",
        tests=(OUTBOX + "test_a_mark_stays_where_mongodb_refuses_its_event",),
    ),
    Mutant(
        name="a sweep passes by what a dead process left",
        breaks="I1",
        where="service/worker/deliveries/outbox.py",
        old='{"$gt": EPOCH, "$lt": before}',
        new='{"$gt": before}',
        tests=(OUTBOX + "test_a_sweep_tells_of_what_nobody_else_does_and_of_nothing_younger",),
    ),
    Mutant(
        name="what is told twice is delivered twice",
        breaks="I1",
        where="service/worker/deliveries/outbox.py",
        old='id=delivery_id(change, EventName(event["type"]), service.id),',
        new='id=delivery_id(change, EventName(event["type"]), f"{id(event)}{service.id}"),',
        tests=(
            OUTBOX + "test_a_process_that_vanishes_at_any_step_loses_nothing_and_doubles_nothing",
        ),
    ),
    Mutant(
        name="Redis lets go of an end of which its service has not heard",
        breaks="I1",
        where="service/worker/upkeep/archiver.py",
        old="        # Before the report: Redis still has what nobody has told of.\n",
        new="        self._reported = stored.reported\n",
        tests=(ENDS + "test_redis_keeps_what_no_service_has_heard_of_yet",),
    ),
    Mutant(
        name="a job goes before its service hears that it was not taken",
        breaks="I1",
        where="service/worker/flow/handle.py",
        old="        await self._tell(letter, request.webhook)\n",
        new="        job.delete()\n        await self._tell(letter, request.webhook)\n",
        tests=(STEPS + "test_a_service_hears_that_its_request_is_not_taken_before_the_job_goes",),
    ),
    Mutant(
        name="a reply that nobody got cancels what its service would hear",
        breaks="I1",
        where="service/http/exchange.py",
        old="        await super().write_eof(data)\n        then, self._then = self._then, None\n"
        "        if then is not None:\n            await then()\n",
        new="        then, self._then = self._then, None\n        if then is not None:\n"
        "            await then()\n        await super().write_eof(data)\n",
        tests=(REPLIES + "test_where_the_bytes_were_not_written_the_delivery_is_due_soon",),
    ),
    Mutant(
        name="a claim never lapses",
        breaks="I1",
        where="service/worker/deliveries/replies.py",
        old="dt.timedelta(seconds=CLAIM_SECONDS)",
        new="dt.timedelta(days=CLAIM_SECONDS)",
        tests=(REPLIES + "test_where_the_bytes_were_not_written_the_delivery_is_due_soon",),
    ),
    Mutant(
        name="a reply cancels what an attempt has moved on",
        breaks="I1",
        where="service/worker/deliveries/replies.py",
        old='unmoved = {**there, "state": _WAITS}\n',
        new='unmoved = {"_id": there["_id"]}\n',
        tests=(REPLIES + "test_what_an_attempt_moved_on_meanwhile_stays",),
    ),
)
