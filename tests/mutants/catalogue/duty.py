"""Duties: to look again, to put right what others left, to stop what hangs, to refuse to start."""

from __future__ import annotations

from mutants.mutant import Mutant

CONNECTION = "results/test_connection.py::"
DEFECTS = "flow/test_receive.py::"
DUTY = "flow/test_drain.py::"
INSPECTION = "limits/test_inspection.py::"
LIFELINE = "console/test_lifeline.py::"
PARENT = "console/test_parent.py::"
PREFLIGHT = "preflight/test_preflight.py::"
WORKERS = "limits/test_workers.py::"

MUTANTS = (
    Mutant(
        name="a drain job goes before anybody who waits was asked for",
        breaks="I7 F2",
        where="service/worker/flow/drain.py",
        old="        # A full process keeps the job: ",
        new="        await job.delete()\n        # A full process keeps the job: ",
        tests=(DUTY + "test_a_drain_job_goes_once_somebody_was_asked_who_waits",),
    ),
    Mutant(
        name="a drain job goes although its slug is still drained by its holder",
        breaks="I7 F8",
        where="service/worker/flow/drain.py",
        old="        if result.ask_again is not None and jobs:",
        new="        if result.ask_again is None and jobs:",
        tests=(DUTY + "test_a_drain_job_is_kept_while_its_slug_is_drained",),
    ),
    Mutant(
        name="nobody looks again when the next one is due",
        breaks="I7 F7",
        where="service/worker/flow/call.py",
        old="            self.schedule(line, result.ask_again)\n",
        new="            pass\n",
        tests=(DUTY + "test_a_drain_job_is_kept_while_its_slug_is_drained",),
    ),
    Mutant(
        name="of the calls that were taken only one is asked for",
        breaks="I1",
        where="service/worker/flow/call.py",
        old="        for calls in result.groups:\n",
        new="        for calls in result.groups[:1]:\n",
        tests=(DUTY + "test_calls_that_were_taken_are_all_asked_for",),
    ),
    Mutant(
        name="an api in which a background task keeps ending goes on as if nothing were",
        breaks="I7",
        where="service/http/serve.py",
        old="_either(stopped, background.unfit)",
        new="_either(stopped)",
        tests=("door/test_application.py::test_what_keeps_ending_ends_the_process_in_good_order",),
    ),
    Mutant(
        name="a defect over one batch of writes keeps the next waiting",
        breaks="I7",
        where="service/worker/results/connection.py",
        old="        except Exception as error:  # noqa: BLE001 - a defect",
        new="        except ZeroDivisionError as error:  # noqa: BLE001 - a defect",
        tests=(CONNECTION + "test_a_defect_over_one_batch_keeps_nobody_of_the_next_waiting",),
    ),
    Mutant(
        name="a job over which we stumble is kept",
        breaks="I7",
        where="service/worker/flow/receive.py",
        old="    await job.release()\n",
        new="",
        tests=("flow/test_receive.py::test_it_goes_back",),
    ),
    Mutant(
        name="a job over which we stumble is never given up",
        breaks="I9",
        where="service/worker/flow/handle.py",
        old="            if not await self._defects.add(job.key):\n",
        new="            if await self._defects.add(job.key) or True:\n",
        tests=(DEFECTS + "test_after_too_many_it_is_recorded_and_then_buried",),
    ),
    Mutant(
        name="a background task that ends stays ended",
        breaks="I7",
        where="service/observe/background.py",
        old="            await asyncio.sleep(delay)\n",
        new="            return\n",
        tests=("observe/test_background.py::test_a_task_that_ends_is_logged_and_begun_again",),
    ),
    Mutant(
        name="the sweep forgets the requests that are dying",
        breaks="I1 I9",
        where="service/worker/upkeep/sweeper.py",
        old="                await self._runner.give_up(call)\n",
        new="                pass\n",
        tests=(DUTY + "test_the_sweep_records_the_dying_and_asks_for_a_drainer",),
    ),
    Mutant(
        name="a process that stands still is left alone",
        breaks="I2 I4",
        where="service/worker/supervisor/parent.py",
        old="            elif (silent := now - child.last_beat) >= self._patience(child):",
        new="            elif (silent := now - child.last_beat) >= 1e9:",
        tests=(
            PARENT
            + "test_a_stopped_child_is_killed_after_the_silence_and_one_that_beats_is_left_alone",
        ),
    ),
    Mutant(
        name="one process that is refused stops those that work",
        breaks="I7",
        where="service/worker/supervisor/parent.py",
        old="return not self._any_works() and all(slot.refused for slot in self._workers)\n",
        new="return any(slot.refused for slot in self._workers)\n",
        tests=(
            PARENT + "test_a_child_that_is_refused_while_another_works_is_started_until_it_is_not",
        ),
    ),
    Mutant(
        name="a beanstalkd without a binlog is good enough",
        breaks="I1",
        where="service/worker/preflight/judgement.py",
        old="    if not facts.binlog:\n",
        new="    if facts.binlog is None:\n",
        tests=(PREFLIGHT + "test_a_beanstalkd_that_forgets_is_refused",),
    ),
    Mutant(
        name="a Redis that may forget what it acknowledged is good enough",
        breaks="I1",
        where="service/worker/preflight/judgement.py",
        old='    return Finding("Redis", Grade.LOSES, f"has {name} {found}", fix)',
        new='    return Finding("Redis", Grade.UNSURE, f"has {name} {found}", fix)',
        tests=(PREFLIGHT + "test_a_redis_that_forgets_or_cannot_work_is_refused",),
    ),
    Mutant(
        name="a slot may be given away while its call still runs",
        breaks="I2",
        where="service/config/cross_checks.py",
        old="        if lease < 2 * timeout:\n",
        new="        if lease < 0 * timeout:\n",
        tests=("config/test_refusing.py::test_what_does_not_make_sense_together_is_refused",),
    ),
    Mutant(
        name="one replica of many confirms what a failover may lose",
        breaks="I1",
        where="service/worker/preflight/judgement.py",
        old="    most_of_all = max(1, (facts.replicas + 1) // 2)\n",
        new="    most_of_all = 1\n",
        tests=(PREFLIGHT + "test_so_many_replicas_must_confirm_that_most_servers_have_it",),
    ),
    Mutant(
        name="a replica that Sentinels prefer is good enough",
        breaks="I1",
        where="service/worker/preflight/judgement.py",
        old="    if facts.priorities and len(found) > 1:\n",
        new="    if False:\n",
        tests=(PREFLIGHT + "test_servers_of_different_priority_are_refused",),
    ),
    Mutant(
        name="a step counts when too few replicas have it",
        breaks="I1",
        where="limits/pipeline.py",
        old=" and waited >= confirmed):",
        new=" and waited):",
        tests=("limits/test_epoch.py::test_a_step_waits_for_as_many_replicas_as_it_should",),
    ),
    Mutant(
        name="what is counted at rest waits for the next beat that is due",
        breaks="I12",
        where="service/worker/supervisor/lifeline.py",
        old="        self._counts.begun = self._beat_soon\n",
        new="",
        tests=(LIFELINE + "test_what_is_counted_at_rest_makes_a_beat_of_its_own",),
    ),
    Mutant(
        name="a process at rest beats as seldom as its parent would kill it",
        breaks="I1",
        where="service/worker/wiring/process.py",
        old="await asyncio.sleep(silence / BEATS)",
        new="await asyncio.sleep(silence)",
        tests=(LIFELINE + "test_a_process_at_rest_beats_as_often_as_its_parent_must_hear",),
    ),
    Mutant(
        name="of all lines only the first is looked at for numbers that were pushed by hand",
        breaks="I7",
        where="limits/lua/survey.lua",
        old="redis.call('EXISTS', unpack(lists))",
        new="redis.call('EXISTS', lists[1], lists[2])",
        tests=(
            INSPECTION
            + "test_of_many_lines_survey_names_those_alone_to_which_somebody_pushed_by_hand",
        ),
    ),
    Mutant(
        name="a courier that comes is noted by nobody until the others run out",
        breaks="I7",
        where="limits/lua/survey.lua",
        old="'=' .. redis.sha1hex(ARGV[1])",
        new="'='",
        tests=(WORKERS + "test_a_line_that_comes_is_known_from_the_next_look_on",),
    ),
    Mutant(
        name="a courier that a live worker knows is taken for unknown between two looks",
        breaks="I7",
        where="limits/lua/survey.lua",
        old="local KEPT = 0.7",
        new="local KEPT = 0.2",
        tests=(WORKERS + "test_each_look_leaves_what_is_known_known_for_two_more",),
    ),
    Mutant(
        name="a courier stays unknown where Redis' clock stepped back",
        breaks="I7",
        where="limits/lua/survey.lua",
        old=" and left_ms <= lives_ms then",
        new=" then",
        tests=(WORKERS + "test_what_a_worker_knew_is_forgotten_with_it",),
    ),
)
