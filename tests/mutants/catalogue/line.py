"""Waiting: nobody who waits is lost, everybody has their turn, and somebody looks again."""

from __future__ import annotations

from mutants.mutant import Mutant

CANCEL = "limits/test_cancel.py::"
DRAINER = "limits/test_draining.py::"
EXPIRY = "limits/test_admit_expiry_and_rechecks.py::"
FLAG = "limits/test_draining.py::"
FLAWS = "limits/test_original_flaws.py::"
LEAVING = "limits/test_cancel_where_and_gaps.py::"
FRESH = "limits/test_admit_freshness.py::"
LINE = "limits/test_lists.py::"
LONG = "limits/test_batch.py::"
LOST = "limits/test_lost_replies.py::"
PLACE = "limits/test_place.py::"
RECHECKS = "limits/test_admit_expiry_and_rechecks.py::"

MUTANTS = (
    Mutant(
        name="a request counts as waiting, and stands in no list",
        breaks="I1 I7 F2",
        where="limits/lua/admit.lua",
        old="  if not at then\n    put_tail(number, record)\n",
        new="  if not at then\n",
        tests=(LINE + "test_who_came_first_is_called_first",),
        daily=True,
    ),
    Mutant(
        name="a request that was taken is held by nothing but its worker",
        breaks="I1 F3",
        where="limits/lua/lib/flight.lua",
        old="  call('HSET', INFLIGHT, id, text, '=' .. number, id)",
        new="  call('HSET', INFLIGHT, '=' .. number, id)",
        tests=(FLAWS + "test_a_request_that_was_popped_and_lost_its_worker_is_still_held",),
        daily=True,
    ),
    Mutant(
        name="only the number is parked",
        breaks="I1 F17",
        where="limits/lua/lib/waiting.lua",
        old="push_last(list_of(record), number)\n  write_record(REQUESTS, number, record)\n",
        new="push_last(list_of(record), number)\n",
        tests=(FLAWS + "test_everything_about_a_request_waits_with_it",),
    ),
    Mutant(
        name="a new request goes before those that wait",
        breaks="I11",
        where="limits/lua/admit.lua",
        old="  local idle = nobody_waits()",
        new="  local idle = true",
        tests=(LINE + "test_a_request_that_finds_somebody_waiting_goes_behind_them",),
    ),
    Mutant(
        name="who has just come to wait behind a call is not seen by the same script",
        breaks="I1",
        where="limits/lua/lib/waiting.lua",
        old="  expect_no_calm()\n",
        new="",
        tests=(FRESH + "test_all_who_come_at_once_for_a_number_have_its_answer",),
    ),
    Mutant(
        name="who has just been put in line is not seen by the same script",
        breaks="I7",
        where="limits/lua/lib/memory.lua",
        old="  known.entries[list], known.calm, known.listed = all, false, true\n",
        new="",
        tests=(
            "limits/test_script_replies.py::test_admit_parks_with_the_reason_and_asks_for_one_drain_job",
        ),
    ),
    Mutant(
        name="a number that leaves before its turn stays in its list",
        breaks="I8",
        where="limits/lua/lib/lists.lua",
        old="    call('LSET', list, index, '')\n",
        new="",
        tests=(LEAVING + "test_what_is_left_is_taken_in_its_order",),
    ),
    Mutant(
        name="gaps are not counted, so a list of gaps only stays",
        breaks="I7",
        where="limits/lua/lib/lists.lua",
        old="order(list).first, order(list).gaps + 1)",
        new="order(list).first, order(list).gaps)",
        tests=(LEAVING + "test_numbers_pushed_by_hand_are_found_on_whatever_page_they_stand",),
    ),
    Mutant(
        name="a list of gaps is dropped without a look at its ends",
        breaks="I1",
        where="limits/lua/lib/lists.lua",
        old="    if call('LINDEX', list, 0) == '' and call('LINDEX', list, -1) == '' then",
        new="    if true then",
        tests=(LEAVING + "test_where_people_took_gaps_out_nobody_is_forgotten",),
    ),
    Mutant(
        name="a number that is not where its record says is not searched for",
        breaks="I8",
        where="limits/lua/lib/lists.lua",
        old="    index = call('LPOS', list, number, 'MAXLEN', SEARCHED)\n",
        new="",
        tests=(LEAVING + "test_where_people_took_entries_out_a_number_is_found_all_the_same",),
    ),
    Mutant(
        name="gaps of a line that stands still are counted by nobody",
        breaks="I9",
        where="limits/lua/admit.lua",
        old="open - automatic, entries(MANUAL) - rules.max_waiting)",
        new="open - automatic)",
        tests=(LEAVING + "test_gaps_of_a_line_that_stands_still_count_from_max_waiting_on",),
    ),
    Mutant(
        name="a call that is handed back goes to the end of the line",
        breaks="I11",
        where="limits/lua/lib/waiting.lua",
        old="    record.state, record.position = nil, push_first(list_of(record), number)",
        new="    record.state, record.position = nil, push_last(list_of(record), number)",
        tests=(LINE + "test_a_call_handed_back_is_next_again",),
    ),
    Mutant(
        name="automatic requests wait until no other does",
        breaks="I7",
        where="limits/lua/lib/waiting.lua",
        old="% 4 == 0 then",
        new="% 4 == 5 then",
        tests=(LINE + "test_one_in_four_is_automatic_while_both_wait",),
    ),
    Mutant(
        name="repetitions that are due are left where they are",
        breaks="I7",
        where="limits/lua/lib/taking.lua",
        old="    passed, least = 0, nil\n    move_due()\n",
        new="    passed, least = 0, nil\n",
        tests=(DRAINER + "test_a_retry_wakes_the_process_that_made_it_when_it_is_due",),
    ),
    Mutant(
        name="of two lists of operations the longer one is moved",
        breaks="I7",
        where="limits/lua/lib/record.lua",
        old="local is_short = older <= newer",
        new="local is_short = newer > 0",
        tests=(
            LONG
            + "test_a_call_that_is_repeated_moves_the_fewer_of_its_operations_and_those_behind_it",
        ),
    ),
    Mutant(
        name="a call of many goes back to as many in one script",
        breaks="I7",
        where="limits/lua/lib/flight.lua",
        old="  if not behind or (behind.listed or 0) <= FEW then return true end\n",
        new="  if behind or not behind then return true end\n",
        tests=(
            LONG + "test_a_call_of_many_goes_back_to_wait_with_as_many_in_several_scripts",
            LONG + "test_a_sweep_takes_a_lost_call_of_many_back_to_as_many_in_several_scripts",
        ),
    ),
    Mutant(
        name="re-checks take the room of customers",
        breaks="I9",
        where="limits/lua/admit.lua",
        old="math.max(numbers(MANUAL), open - automatic,",
        new="math.max(waits(), open,",
        tests=(RECHECKS + "test_re_checks_take_the_room_that_customers_leave_and_never_theirs",),
    ),
    Mutant(
        name="a re-check that finds no room is a refused request",
        breaks="I9",
        where="limits/lua/admit.lua",
        old="  if request.auto then return end_now(id, operation, NO_ROOM) end\n",
        new="",
        tests=(RECHECKS + "test_re_checks_take_the_room_that_customers_leave_and_never_theirs",),
    ),
    Mutant(
        name="a re-check that comes too late is a refused request",
        breaks="I9",
        where="limits/lua/admit.lua",
        old="  if starts and request.auto then return end_now(id, operation, NO_TIME) end\n",
        new="",
        tests=(RECHECKS + "test_a_re_check_that_comes_too_late_ends_and_is_no_refused_request",),
    ),
    Mutant(
        name="re-checks of one parcel wait beside each other",
        breaks="I9",
        where="limits/lua/admit.lua",
        old="is_new and request.auto and supersede(number, record)",
        new="false",
        tests=(RECHECKS + "test_a_re_check_takes_the_place_of_the_older_one_of_its_parcel",),
    ),
    Mutant(
        name="re-checks are put on a line that stands",
        breaks="I9",
        where="limits/lua/room.lua",
        old="  if paused_us() > 0 then",
        new="  if false then",
        tests=(RECHECKS + "test_a_line_that_stands_takes_no_re_checks",),
    ),
    Mutant(
        name="a line whose calls fail is never tried by a re-check",
        breaks="I7",
        where="limits/lua/room.lua",
        old="open == 0 and math.min(1, most) or 0",
        new="0",
        tests=(
            RECHECKS
            + "test_a_line_whose_calls_fail_takes_one_re_check_at_a_time_beside_those_who_wait",
        ),
    ),
    Mutant(
        name="the list may grow without end",
        breaks="I9",
        where="limits/lua/admit.lua",
        old="not idle and operations_waiting(request) >= rules.max_waiting",
        new="false",
        tests=(LINE + "test_a_full_list_takes_no_new_operation_but_more_requests_without_an_id",),
    ),
    Mutant(
        name="one who is behind others gets the start of the first",
        breaks="I6",
        where="limits/lua/place.lua",
        old="  return { now, 'waiting', name, turns, tries_of(record), estimate(turns) }",
        new="  return { now, 'waiting', name, turns, tries_of(record), estimate(0) }",
        tests=(PLACE + "test_sixty_in_a_quiet_line_start_within_a_second_of_their_places",),
    ),
    Mutant(
        name="who is cancelled by origin takes all others of the number along",
        breaks="I1",
        where="limits/lua/cancel_where.lua",
        old="origin == (asked.origin or origin)",
        new="true",
        tests=(
            "limits/test_cancel_where_and_gaps.py::test_of_a_number_only_those_are_cancelled_that_are_meant",
        ),
    ),
    Mutant(
        name="a record that is put twice makes two operations",
        breaks="I8",
        where="service/operator/resend.py",
        old="renewed_body(body, operation, mark)",
        new="renewed_body(body, operation)",
        tests=("console/test_resend.py::test_a_record_that_is_put_twice_makes_one_operation",),
    ),
    Mutant(
        name="a pause refuses who could be in time",
        breaks="I1",
        where="limits/lua/admit.lua",
        old="rules.together), now)",
        new="rules.together), now + paused_us())",
        tests=(EXPIRY + "test_a_pause_makes_nothing_impossible",),
    ),
    Mutant(
        name="who joins others is refused like one who does not",
        breaks="I1",
        where="limits/lua/admit.lua",
        old="  local starts = not flying and too_late(request, idle)\n",
        new="  local starts = too_late(request, idle)\n",
        tests=(EXPIRY + "test_one_that_joins_others_is_taken_however_long_that_takes",),
    ),
    Mutant(
        name="the flag is written without its expiry",
        breaks="I5 F6",
        where="limits/lua/lib/draining.lua",
        old="  set_sign(IS_FLAGGED, FLAG, '1', math.max(1000, math.ceil(due_us / 1000)))",
        new="  call('SET', FLAG, '1')",
        tests=(FLAWS + "test_the_flag_never_exists_without_its_expiry",),
    ),
    Mutant(
        name="a lost reply loses the drain job of a request that was answered meanwhile",
        breaks="I7",
        where="limits/lua/admit.lua",
        old="  if drainer() == 'tube:' .. id then return parked(id, 'known') end\n",
        new="",
        tests=(LOST + "test_a_parked_admission_that_was_answered_meanwhile_still_has_its_duty",),
    ),
    Mutant(
        name="the flag stays as it is while the line grows",
        breaks="I6",
        where="limits/lua/lib/draining.lua",
        old="  if signs()[IS_FLAGGED] and not lists_changed() then return end\n",
        new="  if signs()[IS_FLAGGED] then return end\n",
        tests=(FLAG + "test_the_flag_lives_until_the_last_that_waits_is_due_by_the_rate",),
    ),
    Mutant(
        name="a drainer that asks at another instant stays named for the old one",
        breaks="I7",
        where="limits/lua/lib/draining.lua",
        old="math.abs(at - ask) <= NEAR_US",
        new="true",
        tests=(DRAINER + "test_a_drainer_is_named_for_another_instant_that_is_not_near",),
    ),
    Mutant(
        name="nobody drains while the flag is up",
        breaks="I7 F7",
        where="limits/lua/lib/draining.lua",
        old="  local token = drainer()\n  if token == 'tube:' .. who then return 1 end\n",
        new="  local token = drainer() or call('GET', FLAG)\n"
        "  if token == 'tube:' .. who then return 1 end\n",
        tests=(FLAWS + "test_a_flag_that_is_up_for_ever_stops_nobody",),
    ),
    Mutant(
        name="a drainer has that duty for ever",
        breaks="I7 F8",
        where="limits/lua/lib/draining.lua",
        old="    set_sign(DRAINS, DRAINER, rules.token .. ' ' .. digits(ask),\n"
        "      math.ceil(math.max(ask - now, 0) / 1000) + DRAINER_SPARE_MS)",
        new="    call('SET', DRAINER, rules.token .. ' ' .. digits(ask))",
        tests=(
            FLAWS
            + "test_after_its_drainer_died_a_list_of_thousands_is_drained_again_within_seconds",
        ),
        daily=True,
    ),
    Mutant(
        name="flag and duty outlive the last one who waited",
        breaks="I6 I7",
        where="limits/lua/lib/draining.lua",
        old="  delete_signs(DRAINER, FLAG)\n",
        new="",
        tests=(DRAINER + "test_who_parks_after_the_last_one_left_asks_for_a_drain_job",),
    ),
    Mutant(
        name="a cancel touches what runs",
        breaks="I8",
        where="limits/lua/cancel.lua",
        old="  if runs(id, operation, number) then return { now, 'running' } end\n",
        new="",
        tests=(CANCEL + "test_what_runs_is_not_touched",),
    ),
    Mutant(
        name="an id is cancelled whatever number is named with it",
        breaks="I8",
        where="limits/lua/cancel.lua",
        old="if other then return { now, 'elsewhere'",
        new="if false then return { now, 'elsewhere'",
        tests=(CANCEL + "test_an_id_of_another_number_is_left_alone_and_its_number_named",),
    ),
    Mutant(
        name="what was cancelled stays in line",
        breaks="I6",
        where="limits/lua/lib/waiting.lua",
        old="local function drop(number, record)\n  unlist(number, record)\n",
        new="local function drop(number)\n",
        tests=(CANCEL + "test_when_the_last_one_is_cancelled_flag_and_drainer_go",),
    ),
)
