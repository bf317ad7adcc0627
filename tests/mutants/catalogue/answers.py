"""Ends: each operation has one, and an answer is for those who find it fresh enough."""

from __future__ import annotations

from mutants.mutant import Mutant

BATCH = "limits/test_batch.py::"
CANCEL = "limits/test_cancelling.py::"
FLAWS = "limits/test_original_flaws.py::"
FORGETS = "limits/test_epoch.py::"
FRESH = "limits/test_admit_freshness.py::"
HISTORY = "limits/test_admit_operations.py::"
LINE = "limits/test_lists.py::"
TALLIES = "limits/test_tallies.py::"
MANY = "limits/test_finish.py::"
ORDER = "flow/test_handle.py::"
RECOVERY = "limits/test_sweep.py::"
SPANS = "limits/test_add_up.py::"
STATES = "limits/test_state.py::"
APART = "limits/test_split_accounts.py::"

MUTANTS = (
    Mutant(
        name="Redis remembers the answers of a year",
        breaks="I5",
        where="limits/rules.py",
        old="    return min(max(ANSWER_KEEP_SECONDS, max_age), ANSWER_KEEP_MOST_SECONDS)\n",
        new="    return max(ANSWER_KEEP_SECONDS, max_age)\n",
        tests=(FRESH + "test_answers_are_kept_for_the_default_max_age_but_30_seconds_to_an_hour",),
    ),
    Mutant(
        name="an answer that Redis has forgotten is looked up for nobody who relies on the default",
        breaks="I8",
        where="service/worker/flow/handle.py",
        old="self._limits.max_age if request.max_age is None",
        new="0.0 if request.max_age is None",
        tests=(ORDER + "test_an_answer_that_redis_does_not_remember_is_looked_up_in_mongodb",),
    ),
    Mutant(
        name="an operation ends as often as its call",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="operation and not ENDED[operation.status] and operation.tracking == parcel then",
        new="operation and operation.tracking == parcel then\n      operation.status = 'RUNNING'",
        tests=(CANCEL + "test_one_of_several_is_cancelled_by_its_id",),
        daily=True,
    ),
    Mutant(
        name="an id is answered with the end of another parcel's request",
        breaks="I1 I8",
        where="limits/lua/admit.lua",
        old="  if other then\n",
        new="  if false then\n",
        tests=(STATES + "test_an_id_that_is_known_for_one_parcel_is_refused_for_another",),
        daily=True,
    ),
    Mutant(
        name="a call ends the operation of another parcel under an id that was free again",
        breaks="I1 I8",
        where="limits/lua/lib/state.lua",
        old=" and operation.tracking == parcel then",
        new=" then",
        tests=(STATES + "test_an_id_that_is_free_again_ends_with_its_new_parcel_only",),
    ),
    Mutant(
        name="a step does not see what a step before it in its script made of an operation",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="    if texts[id] == nil then\n      if read == nil",
        new="    if texts[id] == nil or read ~= nil then\n      if read == nil",
        tests=(
            BATCH + "test_a_step_sees_what_the_steps_before_it_in_its_script_made_of_an_operation",
        ),
    ),
    Mutant(
        name="an operation goes to any state",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="    if not string.find(MOVES[was] or '', state, 1, true) then return false end\n",
        new="",
        tests=(STATES + "test_a_move_that_the_table_does_not_allow_is_refused",),
    ),
    Mutant(
        name="the operations of a parcel are kept for ever",
        breaks="I5",
        where="limits/lua/lib/state.lua",
        old="    call('PEXPIRE', key, digits(DAY_MS))\n",
        new="",
        tests=(
            HISTORY + "test_a_parcels_list_is_trimmed_to_a_day_and_ends_a_day_after_its_last_entry",
        ),
    ),
    Mutant(
        name="a forgotten parcel still names its operations",
        breaks="I8",
        where="limits/lua/forget.lua",
        old="  delete_history(number)\n",
        new="",
        tests=(HISTORY + "test_of_a_forgotten_parcel_nothing_is_listed",),
    ),
    Mutant(
        name="what has ended counts as open",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="then\n      count_open(operation, -1)\n",
        new="then\n      count_open(operation, 0)\n",
        tests=(STATES + "test_no_move_is_refused_on_the_longest_way",),
    ),
    Mutant(
        name="a call that was taken over leaves its request behind",
        breaks="I8 F16",
        where="limits/lua/admit.lua",
        old="  call('HDEL', INFLIGHT, old, '=' .. number)\n",
        new="",
        tests=(FLAWS + "test_a_call_that_was_taken_over_into_a_full_line_waits_there_once",),
    ),
    Mutant(
        name="a number runs twice at once when asked for twice",
        breaks="I8",
        where="limits/lua/admit.lua",
        old="  if flying then\n    put_behind(number, record)\n    enter(operation)\n"
        "    return parked(id, 'running')\n  end\n",
        new="",
        tests=(
            FRESH + "test_while_its_number_runs_a_request_waits_and_has_the_answer_of_that_call",
        ),
    ),
    Mutant(
        name="a number pushed by hand runs beside its own call",
        breaks="I8",
        where="limits/lua/lib/taking.lua",
        old="    if runs then return put_behind(number, record) end\n",
        new="",
        tests=(LINE + "test_a_number_pushed_by_hand_that_waits_already_never_runs_twice_at_once",),
    ),
    Mutant(
        name="ids beyond sixteen stay behind when their call goes back to wait",
        breaks="I1",
        where="limits/lua/lib/waiting.lua",
        old="  if flown then move_rest(flown, rest_of(number, record)) end\n",
        new="",
        tests=(MANY + "test_a_call_that_goes_back_brings_all_its_operations_to_those_that_wait",),
    ),
    Mutant(
        name="of two entries for a number the operations of one are dropped",
        breaks="I1",
        where="limits/lua/lib/record.lua",
        old="  for i = #(new.newest or {}), 1, -1 do carry(number, old, new.newest[i]) end\n",
        new="",
        tests=(RECOVERY + "test_what_lost_its_worker_meets_later_requests_in_one_entry",),
    ),
    Mutant(
        name="any answer that is remembered is fresh",
        breaks="I8",
        where="limits/lua/lib/record.lua",
        old="old >= 0 and old < (age or rules.max_age_ms)",
        new="old >= 0",
        tests=(FRESH + "test_max_age_0_always_asks",),
    ),
    Mutant(
        name="an answer of the time before the clock stepped back is fresh",
        breaks="I8",
        where="limits/lua/lib/record.lua",
        old="local is_young = old and old >= 0 and old <",
        new="local is_young = old and old <",
        tests=("limits/test_clock.py::test_an_answer_of_a_clock_that_stepped_back_is_not_fresh",),
    ),
    Mutant(
        name="the running call answers everybody behind it, fresh enough or not",
        breaks="I8",
        where="limits/lua/finish.lua",
        old="    return at <= verdict.observed or now_ms",
        new="    return true or now_ms",
        tests=(FRESH + "test_whom_the_running_call_does_not_serve_is_called_after_it",),
    ),
    Mutant(
        name="a late answer replaces a newer one",
        breaks="I8",
        where="limits/lua/finish.lua",
        old="before and before.observed >= verdict.observed and",
        new="before and false and",
        tests=(RECOVERY + "test_a_late_answer_does_not_replace_a_newer_one",),
    ),
    Mutant(
        name="a call gives its slot back while operations of its have not ended",
        breaks="I8",
        where="limits/lua/finish.lua",
        old="if record then write_record(INFLIGHT, id, record) end\n",
        new="if record then write_record(INFLIGHT, id, record) end\n    call('ZREM', LEASES, id)\n",
        tests=(MANY + "test_the_slot_of_a_call_stays_taken_until_all_its_operations_have_ended",),
    ),
    Mutant(
        name="a call counts as many times as it ends operations",
        breaks="I8",
        where="limits/lua/lib/state.lua",
        old="(took or '-'))\n    took = nil\n",
        new="(took or '-'))\n",
        tests=(TALLIES + "test_a_call_that_ends_many_operations_is_one_call",),
    ),
    Mutant(
        name="what happened in a span is kept for ever",
        breaks="I5",
        where="limits/lua/lib/state.lua",
        old="    if is_new then call('PEXPIRE', key, lives_ms) end\n",
        new="",
        tests=(TALLIES + "test_what_is_counted_ends_by_itself_but_for_the_totals",),
    ),
    Mutant(
        name="a sum shrinks when its parts are not kept any more",
        breaks="I8",
        where="limits/lua/add_up.lua",
        old="math.max(sums[before[i]] or 0, before[i + 1])",
        new="sums[before[i]] or 0",
        tests=(SPANS + "test_a_sum_does_not_shrink_when_its_parts_are_gone",),
    ),
    Mutant(
        name="where nothing was counted yet, spans of a week are made",
        breaks="I5",
        where="limits/lua/lib/state.lua",
        old="        call('SET', 'tracking:stats:made', begins - 600, 'NX')\n",
        new="",
        tests=(SPANS + "test_the_first_spans_are_those_in_which_something_was_counted",),
    ),
    Mutant(
        name="malformed jobs are counted for ever",
        breaks="I5",
        where="limits/lua/malformed.lua",
        old="  redis.call('EXPIRE', name, span[2])\n",
        new="",
        tests=(SPANS + "test_jobs_that_were_no_requests_are_of_all_slugs",),
    ),
)
