"""Results: the newest observation wins, nothing is stored twice, nothing due is forgotten."""

from __future__ import annotations

from mutants.mutant import Mutant

MERGE = "results/test_merge.py::"
SAVING = "results/test_trackings.py::"
MAJORITY = "results/test_bulk_writer.py::"
REFUSED = "results/test_refused.py::"
RECHECK = "upkeep/test_recheck.py::"
DEFECTS = "flow/test_receive.py::"

MUTANTS = (
    Mutant(
        name="the answer that comes last is stored, however old it is",
        breaks="I8",
        where="service/worker/results/merge.py",
        old='write.call.granted_us <= old["observed_us"]',
        new="write.call.granted_us < 0",
        tests=(MERGE + "test_an_older_observation_changes_nothing",),
        daily=True,
    ),
    Mutant(
        name="an empty answer erases what was known",
        breaks="I8",
        where="service/worker/results/merge.py",
        old='    if content["tag"] == Tag.PENDING:\n        return {name: document[name]',
        new='    if content["tag"] == Tag.PENDING:\n        return {name: content[name]',
        tests=(MERGE + "test_an_empty_answer_erases_nothing",),
    ),
    Mutant(
        name="a shorter answer forgets what is older than it",
        breaks="I8",
        where="service/worker/results/merge.py",
        old='_older(kept, content) + content["checkpoints"]',
        new='content["checkpoints"]',
        tests=(MERGE + "test_a_shorter_answer_keeps_what_is_older_than_its_oldest",),
    ),
    Mutant(
        name="every answer is a document of its own",
        breaks="I8 F19",
        where="service/worker/results/document.py",
        old='        "_id": document_id(id_of(request), account),\n',
        new='        "_id": f"{id_of(request)}:{at}",\n',
        tests=(SAVING + "test_a_newer_answer_replaces_an_older_one_and_never_the_reverse",),
    ),
    Mutant(
        name="an answer about a known parcel is dropped when its insert fails",
        breaks="I1 I8",
        where="service/worker/results/trackings.py",
        old="            known = _part(error, parcels)\n        for each",
        new="            _part(error, parcels)\n        for each",
        tests=(SAVING + "test_a_newer_answer_replaces_an_older_one_and_never_the_reverse",),
    ),
    Mutant(
        name="a write in between is overwritten",
        breaks="I8",
        where="service/worker/results/trackings.py",
        old='return {"_id": self.name, "revision": (self.stored or {})["revision"]}',
        new='return {"_id": self.name}',
        tests=(MAJORITY + "test_a_write_in_between_is_merged_and_not_overwritten",),
    ),
    Mutant(
        name="a parcel on its way has no next check",
        breaks="I7 F18",
        where="service/worker/results/document.py",
        old='next_check(parcel, at, recheck) if document["active"] else None',
        new="None",
        tests=(MERGE + "test_the_first_answer_becomes_the_document_of_the_contract",),
    ),
    Mutant(
        name="a check is put off although its request was not put",
        breaks="I7 F18",
        where="service/worker/upkeep/recheck.py",
        old="        await self._putter.put_rechecks(requests)\n",
        new="",
        tests=("upkeep/test_recheck.py::test_a_check_stays_due_until_its_request_is_put",),
    ),
    Mutant(
        name="parcels of a courier that is gone are asked about before the others",
        breaks="I7",
        where="service/worker/upkeep/recheck.py",
        old="self._planned([slug for slug in texts if slug in self._slugs])",
        new="self._planned(texts)",
        tests=(RECHECK + "test_parcels_of_a_courier_that_is_gone_keep_no_other_waiting",),
    ),
    Mutant(
        name="a parcel that is never answered is asked about for ever",
        breaks="I9",
        where="service/worker/results/merge.py",
        old="_is_over(_last_answer_at(document), asked_at, recheck)",
        new="False",
        tests=("results/test_merge_failures.py::test_thirty_days_without_an_answer_mean_expired",),
    ),
    Mutant(
        name="a number that killed its workers is asked about again some hours later",
        breaks="I9",
        where="service/worker/results/merge.py",
        old="    if isinstance(error, WorkersVanished):\n",
        new="    if not error.message:\n",
        tests=(
            "results/test_merge_failures.py::test_a_number_that_killed_its_workers_is_checked_again_once_it_was_answered",
        ),
    ),
    Mutant(
        name="a re-check that breaks its worker comes again every hour",
        breaks="I9",
        where="service/worker/flow/handle.py",
        old="        await self._end_checks(job)\n",
        new="",
        tests=(DEFECTS + "test_a_recheck_that_breaks_its_worker_is_the_last_of_its_parcel",),
    ),
    Mutant(
        name="a re-check brings an old postal code back",
        breaks="F17",
        where="service/worker/results/merge.py",
        old="    older = call.request.origin is Origin.AUTOMATIC or",
        new="    older =",
        tests=(MERGE + "test_a_schedule_knows_what_was_stored_before_and_only_fills_gaps",),
    ),
    Mutant(
        name="a request that is recorded as dead again stops the others",
        breaks="I9",
        where="service/worker/results/failure.py",
        old="        return faults_in(error)\n",
        new="        raise\n",
        tests=("results/test_dead_letters.py::test_recording_twice_is_recording_once",),
    ),
    Mutant(
        name="a ping shows that MongoDB is back",
        breaks="I1",
        where="service/worker/results/connection.py",
        old="functools.partial(write_nothing, self.tracking))",
        new='functools.partial(self.client.admin.command, "ping"))',
        tests=(MAJORITY + "test_it_is_away_until_a_majority_confirms_though_it_answers",),
    ),
    Mutant(
        name="what a try finds of its own unconfirmed write is taken for stored",
        breaks="I1",
        where="service/worker/results/trackings.py",
        old="            each.is_stored = not each.merge()\n",
        new="            each.is_stored = True\n",
        tests=(MAJORITY + "test_a_try_that_finds_its_own_unconfirmed_write_has_not_stored_it",),
    ),
    Mutant(
        name="one answer that is refused stands for all of its batch",
        breaks="I1 I9",
        where="service/worker/results/failure.py",
        old='    if error.details.get("writeConcernErrors") or refuses_writes(error):\n',
        new="    if error.details:\n",
        tests=(REFUSED + "test_one_answer_that_is_refused_leaves_the_others_to_be_stored",),
    ),
    Mutant(
        name="a record that is refused is let go",
        breaks="I1",
        where="service/worker/results/refused.py",
        old="        _inserted(refused, [_kept(",
        new="        list([_kept(",
        tests=(
            REFUSED
            + "test_a_record_of_a_dead_request_that_is_refused_is_kept_aside_until_it_is_taken",
        ),
    ),
)
