"""Rules that change while workers run: nobody starts anything by older ones."""

from __future__ import annotations

from mutants.mutant import Mutant

CHANGED = "limits/test_changed_rules.py::"

MUTANTS = (
    Mutant(
        name="a worker goes on by the rules that it knows",
        breaks="I2 I3",
        where="limits/lua/lib/context.lua",
        old="    if rules.revision < found.revision then return nil, 'rules' end\n",
        new="",
        tests=(
            CHANGED + "test_a_worker_that_goes_by_older_rules_starts_nothing_by_them",
            CHANGED + "test_a_lower_rate_counts_the_starts_of_before",
        ),
    ),
    Mutant(
        name="a lost Redis brings older rules back",
        breaks="I2 I3",
        where="limits/limiter.py",
        old="revisions.revision if self._learned == epoch else NONE_KNOWN",
        new="revisions.revision",
        tests=(CHANGED + "test_after_a_lost_redis_no_worker_goes_by_rules_of_before",),
    ),
    Mutant(
        name="an older revision that comes late lets older rules in",
        breaks="I2 I3",
        where="limits/lua/lib/context.lua",
        old="    if revision <= found.revision then return end\n",
        new="    if revision == found.revision then return end\n",
        tests=(CHANGED + "test_an_older_revision_that_comes_late_changes_nothing",),
    ),
    Mutant(
        name="a higher limit wakes nobody",
        breaks="I7",
        where="limits/lua/revise.lua",
        old="  delete_signs(DRAINER)\n",
        new="",
        tests=(CHANGED + "test_raised_the_next_sweep_calls_a_drainer",),
    ),
)
