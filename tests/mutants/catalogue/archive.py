"""The archive: what ended is let go by Redis only once MongoDB has it."""

from __future__ import annotations

from mutants.mutant import Mutant

REDIS = "limits/test_to_archive.py::"
MONGODB = "upkeep/test_archiver.py::"

MUTANTS = (
    Mutant(
        name="what ended is let go before it is archived",
        breaks="I1",
        where="limits/lua/lib/state.lua",
        old="call('ZADD', TO_ARCHIVE, now_ms, id)",
        new="call('PEXPIRE', STATUS .. id, DAY_MS)",
        tests=(REDIS + "test_what_ended_stands_in_the_set_and_its_status_has_no_end",),
    ),
    Mutant(
        name="a report of another end confirms",
        breaks="I1",
        where="limits/lua/archive.lua",
        old="if scores[i] and tonumber(scores[i]) == tonumber(ended) then",
        new="if scores[i] then",
        tests=(
            REDIS + "test_an_operation_that_ended_once_more_is_not_confirmed_by_the_first_report",
        ),
    ),
    Mutant(
        name="a batch is reported before it is stored",
        breaks="I1",
        where="service/upkeep/archiver.py",
        old="        archive = partial(",
        new="        self._reported = [Archived(each, DAY_MS) for each in given]\n"
        "        archive = partial(",
        tests=(MONGODB + "test_while_mongodb_is_away_all_stays_in_redis_and_is_archived_later",),
    ),
    Mutant(
        name="nobody archives",
        breaks="I8",
        where="service/supervisor/parent.py",
        old="        if math.isinf(self._archiver.start_at) and self._any_works():\n",
        new="        if self._stop_by is not None:\n",
        tests=("cli/test_parent_of_archiver.py::test_a_killed_archiver_is_started_again",),
    ),
)
