"""What vanished workers, lost replies and a Redis that forgets leave behind."""

from __future__ import annotations

from mutants.mutant import Mutant

BROKEN = "limits/test_broken_keys.py::"
EPOCH = "limits/test_epoch.py::"
DEMOTED = "limits/test_sentinels.py::"
DRAINER = "limits/test_draining.py::"
FULL = "limits/test_admit_when_full.py::"
FORGETS = "limits/test_epoch.py::"
INSPECTION = "limits/test_inspection.py::"
LINES = "limits/test_clear_and_lines.py::"
LINES_BROKEN = "flow/test_receive.py::"
RECOVERY = "limits/test_sweep.py::"
REPLIES = "limits/test_lost_replies.py::"
SENDS = "limits/test_permit.py::"
FORGET = "console/test_forget.py::"
LISTS = "limits/test_lists.py::"

MUTANTS = (
    Mutant(
        name="a call's record goes before its next copy is written",
        breaks="I1",
        where="limits/lua/lib/flight.lua",
        old="lead, goes_on = record.n, record.lead, not record.forgotten\n",
        new="lead, goes_on = record.n, record.lead, not record.forgotten\n  land(id, record)\n",
        tests=(BROKEN + "test_a_call_that_cannot_go_back_into_line_stays_in_flight",),
    ),
    Mutant(
        name="a record that cannot be read is thrown away",
        breaks="I1",
        where="limits/lua/lib/record.lua",
        old="  call('HSET', UNREADABLE, key .. ' ' .. field, text)\n",
        new="",
        tests=(
            BROKEN + "test_a_waiting_record_that_cannot_be_read_is_set_aside_and_its_line_goes_on",
        ),
    ),
    Mutant(
        name="nobody can pause a courier while Redis is full",
        breaks="I7",
        where="limits/server.py",
        old="redis.call('DEL', KEYS[1])\n",
        new="",
        tests=(FULL + "test_people_see_all_and_may_pause_and_forget_while_redis_is_full",),
    ),
    Mutant(
        name="a status that cannot be read ends forget half done",
        breaks="I8",
        where="limits/admin/forget.py",
        old="    except msgspec.MsgspecError:\n",
        new="    except ZeroDivisionError:\n",
        tests=(FORGET + "test_a_status_that_says_nothing_keeps_no_parcel_from_being_forgotten",),
    ),
    Mutant(
        name="a number with a broken key hides what was granted before it",
        breaks="I4",
        where="limits/lua/lib/taking.lua",
        old="      if not done and calls == 0 then error(granted, 0) end\n",
        new="      if not done then error(granted, 0) end\n",
        tests=(BROKEN + "test_what_is_granted_before_a_number_with_a_broken_key_is_answered",),
    ),
    Mutant(
        name="a script's own error is taken for a Redis that is away",
        breaks="I7",
        where="limits/failure.py",
        old="    return LimitsBroken(f",
        new="    return LimitsDown(f",
        tests=(BROKEN + "test_a_scripts_own_error_is_never_redis_away",),
    ),
    Mutant(
        name="whatever our own servers say is tried for ever",
        breaks="I7 I9",
        where="service/worker/flow/tasks.py",
        old="        except AWAY:\n",
        new="        except Exception:\n",
        tests=(LINES_BROKEN + "test_only_what_passes_by_itself_is_tried_for_ever",),
    ),
    Mutant(
        name="the jobs of a broken line hold the places of all",
        breaks="I7",
        where="service/worker/flow/receive.py",
        old="            job.admitted()\n            self._tasks.rest",
        new="            self._tasks.rest",
        tests=(
            LINES_BROKEN
            + "test_a_job_of_a_broken_line_rests_without_a_place_and_goes_on_when_it_is_mended",
        ),
    ),
    Mutant(
        name="whom a sweep gives up takes the place of whom it gave up before",
        breaks="I1",
        where="limits/lua/sweep.lua",
        old="put_dying(who .. ':' .. number,",
        new="put_dying(who .. ':' .. #dying,",
        tests=(
            "limits/test_lost_replies.py::test_a_sweep_that_gives_others_up_when_it_is_sent_again_keeps_the_first",
        ),
    ),
    Mutant(
        name="a call that meets a broken key comes into its list twice",
        breaks="I6 I8",
        where="limits/lua/lib/waiting.lua",
        old=(
            "    local first, gaps = order(list).first, order(list).gaps\n"
            "    local all = call('LPUSH', list, number)\n"
        ),
        new=(
            "    local all = call('LPUSH', list, number)\n"
            "    local first, gaps = order(list).first, order(list).gaps\n"
        ),
        tests=(BROKEN + "test_a_call_that_goes_back_over_a_broken_key_comes_into_its_list_once",),
    ),
    Mutant(
        name="re-checks of a broken line take the room of what people put",
        breaks="I9",
        where="service/worker/flow/receive.py",
        old="        if self._tasks.resting >= AT_REST_MOST // 2 and",
        new="        if self._tasks.resting >= AT_REST_MOST and",
        tests=(
            LINES_BROKEN
            + "test_re_checks_rest_in_half_of_the_room_and_those_beyond_are_no_dead_letters",
        ),
    ),
    Mutant(
        name="one line's broken key stops the re-checks of all",
        breaks="I7",
        where="service/worker/upkeep/recheck.py",
        old="        except LimitsBroken as error:\n",
        new="        except ZeroDivisionError as error:\n",
        tests=(
            "upkeep/test_recheck.py::test_a_line_with_a_broken_key_takes_no_checks_and_the_others_take_theirs",
        ),
    ),
    Mutant(
        name="what the end of a call took is lost with the reply",
        breaks="I4 I9",
        where="limits/limiter.py",
        old='        return f"{self.token}-{digest.hexdigest()}"\n',
        new="        return next(self.ids) + digest.hexdigest()\n",
        tests=(REPLIES + "test_what_the_end_of_a_call_took_comes_again_after_a_lost_reply",),
    ),
    Mutant(
        name="a living worker is taken for dead when its job comes back",
        breaks="I8 I9",
        where="limits/lua/admit.lua",
        old="    if who then return { now, 'held', who } end\n",
        new="",
        tests=(
            RECOVERY
            + "test_a_job_that_comes_again_while_its_worker_lives_waits_for_the_call_of_that_one",
        ),
    ),
    Mutant(
        name="a process of another machine is taken for gone",
        breaks="I8",
        where="limits/workers.py",
        old='who["space"] != process_space():\n        return False\n',
        new='who["space"] != process_space():\n        pass\n',
        tests=(RECOVERY + "test_a_process_that_may_live_is_not_known_to_be_gone",),
    ),
    Mutant(
        name="a process that was killed lives on until it is forgotten",
        breaks="I7",
        where="limits/limiter.py",
        old='if reply[1] == "held" and is_gone(reply[2]):',
        new='if reply[1] == "held" and not reply[2]:',
        tests=(RECOVERY + "test_a_call_whose_process_ended_on_this_machine_is_taken_over_at_once",),
    ),
    Mutant(
        name="a courier that was removed is swept time and again",
        breaks="I6",
        where="limits/lua/inspect.lua",
        old="is_known == '1' and not is_drained(line)",
        new="not is_drained(line)",
        tests=(
            LINES + "test_what_waits_for_a_courier_that_was_removed_costs_nothing_until_it_is_back",
        ),
    ),
    Mutant(
        name="a call that is recorded as dead takes what its answer took",
        breaks="I2 I3",
        where="limits/limiter.py",
        old='f"{call.id} {call.deaths}".encode()',
        new="call.id.encode()",
        tests=(REPLIES + "test_a_call_that_is_answered_and_recorded_as_dead_at_once_takes_twice",),
    ),
    Mutant(
        name="a line is not swept any more while leases of it stand",
        breaks="I6",
        where="limits/lua/sweep.lua",
        old="if members(LEASES) == 0 then call('SREM', LINES, line) end",
        new="call('SREM', LINES, line)",
        tests=(
            INSPECTION + "test_a_line_is_swept_until_the_last_lease_of_a_dead_worker_has_ended",
        ),
    ),
    Mutant(
        name="a drainer is called by whom nobody would hear",
        breaks="I7",
        where="limits/lua/sweep.lua",
        old="    if who ~= '' then\n",
        new="    if who then\n",
        tests=(
            LINES + "test_a_lost_call_of_a_courier_that_was_removed_waits_again_and_nobody_drains",
        ),
    ),
    Mutant(
        name="the sweep leaves lost calls where they are",
        breaks="I1 I7",
        where="limits/lua/sweep.lua",
        old="if call('HLEN', INFLIGHT) > 0 then",
        new="if call('HLEN', INFLIGHT) < 0 then",
        tests=(RECOVERY + "test_what_lost_its_worker_is_first_in_line_again_the_oldest_first",),
        daily=True,
    ),
    Mutant(
        name="of lost calls the newest is first in line",
        breaks="I11",
        where="limits/lua/sweep.lua",
        old="return one.granted > other.granted",
        new="return one.granted < other.granted",
        tests=(RECOVERY + "test_what_lost_its_worker_is_first_in_line_again_the_oldest_first",),
    ),
    Mutant(
        name="the sweep takes the calls of the living for lost",
        breaks="I8",
        where="limits/lua/sweep.lua",
        old="      local record = not leased[lead] and record_in(",
        new="      local record = record_in(",
        tests=(RECOVERY + "test_a_call_whose_worker_lives_is_not_swept",),
    ),
    Mutant(
        name="the sweep asks for no drain job",
        breaks="I7",
        where="limits/lua/sweep.lua",
        old="  put = call_drainer(who)",
        new="  put = 0",
        tests=(DRAINER + "test_a_drain_job_that_never_came_is_put_again_within_seconds",),
    ),
    Mutant(
        name="a request may cost any number of workers their life",
        breaks="I9",
        where="limits/lua/sweep.lua",
        old="record.deaths > rules.deaths or nil",
        new="nil",
        tests=(RECOVERY + "test_a_request_over_which_too_many_workers_vanished_is_dying",),
    ),
    Mutant(
        name="a job may cost any number of workers their life",
        breaks="I9",
        where="limits/lua/admit.lua",
        old="record.deaths > rules.deaths or nil",
        new="nil",
        tests=(RECOVERY + "test_a_job_that_kills_its_workers_is_dying",),
    ),
    Mutant(
        name="a repetition charges no attempt",
        breaks="I9",
        where="limits/lua/retry.lua",
        old="record.attempts = (record.attempts or 0) + 1",
        new="record.attempts = record.attempts or 0",
        tests=("limits/test_admit_operations.py::test_attempts_count_answers_to_be_repeated",),
    ),
    Mutant(
        name="an admission that is sent again is granted again",
        breaks="I2 I8",
        where="limits/lua/admit.lua",
        old="  if calls[1] then return { now, 'granted', granted_before(id) } end\n",
        new="",
        tests=(REPLIES + "test_an_admission_that_was_granted_is_granted_once",),
    ),
    Mutant(
        name="a take that is sent again takes others",
        breaks="I2 I8",
        where="limits/lua/lib/taking.lua",
        old="    if not first then grants, calls = taken_before(base) end\n",
        new="",
        tests=(REPLIES + "test_a_take_grants_the_same_calls_with_the_same_duty",),
    ),
    Mutant(
        name="nobody is quiet after Redis lost its state",
        breaks="I2 I3",
        where="limits/lua/epoch.lua",
        old="if is_old then quiet = math.max(quiet, now + quiet_for) end\n",
        new="",
        tests=(FORGETS + "test_after_redis_lost_its_state_nobody_starts_for_the_quiet_time",),
        daily=True,
    ),
    Mutant(
        name="a server that took over is taken for the one before",
        breaks="I2 I3",
        where="limits/lua/epoch.lua",
        old="if name and replicated and another then",
        new="if name and replicated and another and false then",
        tests=(FORGETS + "test_no_step_goes_over_a_new_connection_before_it_is_known_whose_it_is",),
    ),
    Mutant(
        name="what no replica has counts all the same",
        breaks="I1",
        where="limits/pipeline.py",
        old="(isinstance(waited := replies.pop(), int) and waited >= confirmed)",
        new="isinstance(replies.pop(), int)",
        tests=("limits/test_sentinels.py::test_a_request_is_parked_when_a_replica_has_it",),
    ),
    Mutant(
        name="a demoted Redis is asked for ever",
        breaks="I7",
        where="limits/pipeline.py",
        old="            await self._leave()\n",
        new="            pass\n",
        tests=(
            DEMOTED + "test_a_demoted_redis_is_left_at_once_for_the_one_that_its_address_leads_to",
        ),
    ),
    Mutant(
        name="a worker goes on with an epoch that is over",
        breaks="I7",
        where="limits/steps.py",
        old=" or written[1] != (epoch, revision):\n",
        new=":\n",
        tests=(FORGETS + "test_workers_agree_on_one_new_epoch",),
    ),
    Mutant(
        name="an older copy of Redis' files is taken for its own",
        breaks="I2",
        where="limits/lua/epoch.lua",
        old="elseif name and name == known and count < (tonumber(ARGV[5]) or 0) then",
        new="elseif false then",
        tests=(FORGETS + "test_a_lower_count_than_was_seen_is_that_of_an_older_copy",),
    ),
    Mutant(
        name="a worker of a version before is taken for an older copy",
        breaks="I7",
        where="limits/lua/epoch.lua",
        old="string.format('%s %s %d %s/%d', run_id",
        new="string.format('%s %s %d %s %d', run_id",
        tests=(
            EPOCH + "test_a_worker_of_a_version_before_that_asks_between_two_questions_is_no_loss",
        ),
    ),
    Mutant(
        name="what a version before asks is taken for an older copy",
        breaks="I7",
        where="limits/epoch.py",
        old="        if self._counts:\n",
        new="        if True:\n",
        tests=(
            EPOCH + "test_what_a_version_before_asks_until_this_worker_starts_is_no_older_copy",
        ),
    ),
    Mutant(
        name="leases and lanes of a clock that stepped back stay",
        breaks="I4",
        where="limits/lua/lib/memory.lua",
        old="    call('ZADD', key, most, member)\n",
        new="",
        tests=(
            "limits/test_clock.py::test_leases_and_lanes_of_a_clock_that_stepped_back_are_clamped",
        ),
    ),
    Mutant(
        name="sends that were measured while Redis was away are forgotten",
        breaks="I3",
        where="limits/steps.py",
        old="            self._reports.put_back(line, reports)\n            raise\n"
        "        return list(reply)\n",
        new="            raise\n        return list(reply)\n",
        tests=(SENDS + "test_a_send_measured_while_redis_was_away_is_reported_when_it_is_back",),
    ),
    Mutant(
        name="of a long list that somebody deleted the beginning is written again only",
        breaks="I1 I7",
        where="limits/lua/sweep.lua",
        old="    call('HSET', REQUESTS, '!relist', is_cut and (from or '0') or ahead)\n",
        new="",
        tests=("limits/test_lists.py::test_a_long_deleted_list_is_written_again_in_steps",),
    ),
    Mutant(
        name="what a scan gives at once is put back at once, however much it is",
        breaks="I9",
        where="limits/lua/sweep.lua",
        old="is_cut = relisted and budget.left <= 0",
        new="is_cut = false",
        tests=(LISTS + "test_a_scan_that_gives_all_at_once_is_worked_off_in_steps",),
    ),
    Mutant(
        name="a list that somebody deleted stays deleted",
        breaks="I1 I7",
        where="limits/lua/sweep.lua",
        old="  more = more or relist()\n",
        new="",
        tests=(RECOVERY + "test_a_list_that_somebody_deleted_is_written_again",),
    ),
    Mutant(
        name="what has no place waits until nobody has one",
        breaks="I7",
        where="limits/lua/sweep.lua",
        old="(from or may_have_no_place())",
        new="(from or nobody_waits())",
        tests=(LISTS + "test_a_deleted_list_is_written_again_while_others_wait",),
    ),
    Mutant(
        name="a call without a lease is passed over by the sweeper",
        breaks="I1 I7",
        where="limits/lua/inspect.lua",
        old="    if not ends then return false end\n",
        new="",
        tests=(INSPECTION + "test_a_slug_is_named_when",),
    ),
    Mutant(
        name="a slug that nobody drains is passed over by the sweeper",
        breaks="I7",
        where="limits/lua/inspect.lua",
        old="if not found[1] or not found[2] or ends_somebody(found[3]) then return false end",
        new="if not found[1] or not found[2] or ends_somebody(found[3]) then return true end",
        tests=(INSPECTION + "test_a_slug_is_named_when",),
    ),
    Mutant(
        name="numbers that were pushed by hand are found by nobody",
        breaks="I7",
        where="limits/lua/survey.lua",
        old="if not found[line] then\n",
        new="if found[line] then\n",
        tests=("limits/test_inspection.py",),
    ),
    Mutant(
        name="who comes with the drain job leaves the duty to one who vanished",
        breaks="I7 F8",
        where="limits/lua/take.lua",
        old="claims == '1'",
        new="false",
        tests=(
            DRAINER + "test_who_comes_with_the_job_takes_the_duty_over_from_a_vanished_drainer",
        ),
    ),
)
