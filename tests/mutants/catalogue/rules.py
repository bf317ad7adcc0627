"""Rules: nobody starts anything by older ones, and each rule of a kind holds in every script."""

from __future__ import annotations

from mutants.mutant import Mutant

CHANGED = "limits/test_changed_rules.py::"
COME_AND_GO = "limits/test_clear_and_lines.py::"
KNOWN = "flow/test_known_lines.py::"
KINDS = "limits/test_rules_of_a_kind.py::"

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
        where="limits/steps.py",
        old="self._book.revision if self._learned == epoch else NONE_KNOWN",
        new="self._book.revision",
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
    Mutant(
        name="an end is written that is of no operation",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="    if rules.operations then write_end(id, operation, was, verdict) end\n",
        new="    write_end(id, operation, was, verdict)\n",
        tests=(KINDS + "test_a_line_without_operations_leaves_no_key_of_one",),
    ),
    Mutant(
        name="a call writes the state of what is no operation",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="    elseif rules.operations then\n",
        new="    else\n",
        tests=(KINDS + "test_a_line_without_operations_leaves_no_key_of_one",),
    ),
    Mutant(
        name="ends of what is no operation are counted as operations",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="    if rules.operations then ends[state] =",
        new="    do ends[state] =",
        tests=(KINDS + "test_a_line_without_operations_leaves_no_key_of_one",),
    ),
    Mutant(
        name="an id stands for an operation where there is none",
        breaks="I1",
        where="limits/lua/admit.lua",
        old="  if not rules.operations then request.id = nil end\n",
        new="",
        tests=(
            KINDS + "test_a_request_without_an_operation_is_carried_until_it_is_called",
            KINDS + "test_an_id_names_nothing_where_there_are_no_operations",
        ),
    ),
    Mutant(
        name="a line that is not counted enters statistics",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="    if not rules.counted then return end\n",
        new="",
        tests=(KINDS + "test_a_line_that_is_not_counted_enters_no_statistics",),
    ),
    Mutant(
        name="ends that are not counted are no ends of operations",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="""\
    if ends.SUCCESS then call('INCRBY', 'tracking:stats:successes', ends.SUCCESS) end
    if ends.ERROR then call('INCRBY', 'tracking:stats:errors', ends.ERROR) end
    if not next(all) then return end
""",
        new="""\
    if not next(all) then return end
    if ends.SUCCESS then call('INCRBY', 'tracking:stats:successes', ends.SUCCESS) end
    if ends.ERROR then call('INCRBY', 'tracking:stats:errors', ends.ERROR) end
""",
        tests=(KINDS + "test_ends_of_operations_that_are_not_counted_are_ends_all_the_same",),
    ),
    Mutant(
        name="a parcel that is not counted has a history",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="rules.operations and rules.counted\n",
        new="rules.operations\n",
        tests=(
            KINDS + "test_a_line_that_is_not_counted_writes_no_history_and_marks_nothing_forgotten",
        ),
    ),
    Mutant(
        name="a parcel that is not counted is marked forgotten",
        breaks="I8",
        where="limits/lua/forget.lua",
        old="  if rules.counted then call('SET', FORGOTTEN",
        new="  do call('SET', FORGOTTEN",
        tests=(
            KINDS + "test_a_line_that_is_not_counted_writes_no_history_and_marks_nothing_forgotten",
        ),
    ),
    Mutant(
        name="a call names operations that are none",
        breaks="I8",
        where="limits/keys.py",
        old="if rules.kind.operations and not",
        new="if not",
        tests=(KINDS + "test_an_id_names_nothing_where_there_are_no_operations",),
    ),
    Mutant(
        name="a removed line is cleared while requests are on it",
        breaks="I1",
        where="limits/lua/clear.lua",
        old="if is_busy or members(LEASES) > 0 or",
        new="if members(LEASES) > 0 or",
        tests=(COME_AND_GO + "test_a_removed_line_is_left_alone_while_a_request_is_on_it",),
    ),
    Mutant(
        name="a removed line that is cleared may start more at once",
        breaks="I3",
        where="limits/lua/clear.lua",
        old=" or members(STARTS) > 0 then",
        new=" then",
        tests=(COME_AND_GO + "test_a_removed_line_is_left_alone_while_a_request_is_on_it",),
    ),
    Mutant(
        name="a line of a kind that nobody here knows is swept",
        breaks="I4",
        where="limits/limiter.py",
        old="if self._policy.kind_of(line)]",
        new="if line]",
        tests=(
            COME_AND_GO + "test_a_line_of_which_nobody_knows_the_kind_waits_as_it_is",
            "limits/test_clear_and_lines.py::test_a_line_that_is_not_known_waits_untouched",
        ),
    ),
    Mutant(
        name="a line goes by rules of before",
        breaks="I2 I3",
        where="limits/rules.py",
        old="        if known is None or known[0] is not plain:\n",
        new="        if known is None:\n",
        tests=(KNOWN + "test_rules_are_those_of_the_line_now_and_the_same_object_while_they_stay",),
    ),
    Mutant(
        name="a drain job of a line that is no courier's goes to nobody",
        breaks="I7",
        where="service/worker/tubes/envelope.py",
        old="    if line is not None and knows(Line(name)):\n",
        new="    if False:\n",
        tests=(KNOWN + "test_a_drain_job_of_a_line_is_read_where_the_line_is_known",),
    ),
    Mutant(
        name="a line that comes while a worker runs is known to nobody",
        breaks="I7",
        where="service/worker/wiring/lines.py",
        old="return [line for _, lines in self._kinds for line in lines.known()]",
        new="return self._couriers.known()",
        tests=(
            KNOWN + "test_lines_are_those_of_every_kind_and_each_has_its_kind",
            "acceptance/test_second_kind.py::test_lines_come_and_go_while_a_worker_runs",
        ),
    ),
    Mutant(
        name="what is no operation stays in the mirror for ever",
        breaks="I1",
        where="service/worker/wiring/lines.py",
        old="        if self._lines.rules_of(line_of(request)).kind.operations:\n",
        new="        if request:\n",
        tests=(KNOWN + "test_what_is_no_operation_is_not_mirrored",),
    ),
)
