"""The archive: what ended is let go by Redis only once MongoDB has it."""

from __future__ import annotations

from mutants.mutant import Mutant

REDIS = "limits/test_archive.py::"
MONGODB = "upkeep/test_archiver.py::"
STEPS = "flow/test_handle.py::"
MIRROR = "results/test_operations_in_mongodb.py::"
RECOVER = "console/test_recover.py::"

MUTANTS = (
    Mutant(
        name="what ended is let go before it is archived",
        breaks="I1",
        where="limits/lua/lib/state.lua",
        old="redis.pcall('ZADD', 'tracking:to_archive', unpack(ended))",
        new="call('PEXPIRE', STATUS .. ended[2], 86400000)",
        tests=(REDIS + "test_what_ended_stands_in_the_set_and_its_status_has_no_end",),
    ),
    Mutant(
        name="a report of another end confirms",
        breaks="I1",
        where="limits/lua/archive.lua",
        old="if scores[i] == ended then",
        new="if scores[i] then",
        tests=(
            REDIS + "test_an_operation_that_ended_once_more_is_not_confirmed_by_the_first_report",
        ),
    ),
    Mutant(
        name="a batch is reported before it is stored",
        breaks="I1",
        where="service/worker/upkeep/archiver.py",
        old="        archive",
        new="        self._reported = [Archived(each, DAY_MS) for each in given]\n        archive",
        tests=(MONGODB + "test_while_mongodb_is_away_all_stays_in_redis_and_is_archived_later",),
    ),
    Mutant(
        name="nobody archives",
        breaks="I8",
        where="service/worker/supervisor/parent.py",
        old="        if math.isinf(self._archiver.start_at) and self._any_works():\n",
        new="        if self._stop_by is not None:\n",
        tests=("console/test_parent.py::test_a_killed_archiver_is_started_again",),
    ),
    Mutant(
        name="a job goes before what waits is mirrored",
        breaks="I1",
        where="service/worker/flow/handle.py",
        old="        if mirror := self._mirror:\n",
        new="        if mirror := self._mirror:\n            job.delete()\n",
        tests=(STEPS + "test_what_waits_is_mirrored_before_its_job_goes_however_often_that_takes",),
    ),
    Mutant(
        name="what waits again after its call is not mirrored",
        breaks="I1",
        where="service/worker/flow/handle.py",
        old="            if await self._runner.run([admission.call]):\n"
        "                await self._copy(request, job, admission.call.granted_us)\n",
        new="            await self._runner.run([admission.call])\n",
        tests=(STEPS + "test_what_waits_again_after_its_call_is_mirrored_before_its_job_goes",),
    ),
    Mutant(
        name="an open operation is there for one that ended",
        breaks="I8",
        where="service/worker/results/operations.py",
        old='    wanted["state"] = {"$ne": State.WAITING.value}\n',
        new="",
        tests=(MIRROR + "test_nobody_takes_an_open_one_for_one_that_ended",),
    ),
    Mutant(
        name="the end of a request closes what came while its call ran",
        breaks="I1",
        where="service/worker/results/operations.py",
        old='"admitted_at": {"$gte": first["admitted_at"], "$lte": last},',
        new='"admitted_at": {"$gte": first["admitted_at"]},',
        tests=(MIRROR + "test_requests_without_an_id_go_with_the_operation_that_they_joined",),
    ),
    Mutant(
        name="what waits in Redis is put once more",
        breaks="I8",
        where="service/operator/mirrored.py",
        old='left = [each for each in documents if each["_id"] not in known]',
        new="left = list(documents)",
        tests=(RECOVER + "test_what_redis_knows_is_left_as_it_is",),
    ),
)
