"""The room of a process: for its calls, and for the jobs that it admits."""

from __future__ import annotations

from mutants.mutant import Mutant

ROOM = "flow/test_call_slots.py::"
DRAINER = "flow/test_drainer_slots.py::"
RESERVING = "tubes/test_intake.py::"
AWAY = "flow/test_results_away.py::"
FULL = "limits/test_admit_when_full.py::"
REFUSED = "flow/test_full_redis_waits.py::"
STORE = "results/test_connection.py::"
ORDER = "flow/test_order_of_steps.py::"

MUTANTS = (
    Mutant(
        name="a process has one call more in flight than it may",
        breaks="I2",
        where="service/worker/flow/tasks.py",
        old="min(most - held, self._free)) > 0",
        new="min(most - held, self._free + 1)) > 0",
        tests=(ROOM + "test_no_more_places_are_given_than_there_are",),
        daily=True,
    ),
    Mutant(
        name="a request is granted a call although the process is full",
        breaks="I2",
        where="service/worker/flow/handle.py",
        old="full = self._slots.reserve(1) <= 0",
        new="full = False",
        tests=(ORDER + "test_a_full_process_admits_without_asking_for_a_call",),
    ),
    Mutant(
        name="Redis grants what a full process admits",
        breaks="I2",
        where="limits/lua/admit.lua",
        old="  if request.full then return nil, 'room' end\n",
        new="",
        tests=("limits/test_admit_when_full.py::test_admit_parks_for_a_process_that_is_full",),
    ),
    Mutant(
        name="the place of a call that fails is lost",
        breaks="I7",
        where="service/worker/flow/tasks.py",
        old="            task.add_done_callback(self._left)\n",
        new="",
        tests=(ROOM + "test_the_places_of_a_task_come_back_however_it_ends",),
    ),
    Mutant(
        name="a newcomer finds a place before those that wait for one",
        breaks="I7",
        where="service/worker/flow/tasks.py",
        old="        if not self.waiting and (more",
        new="        if (more",
        tests=(ROOM + "test_while_a_slug_stands_in_line_nobody_else_gets_a_place",),
    ),
    Mutant(
        name="the intake does not hear that there is room again",
        breaks="I7",
        where="service/worker/flow/tasks.py",
        old="            if self.waiting:\n                self.waiting.wake()\n",
        new="",
        tests=(ROOM + "test_each_free_place_wakes_who_calls_lines_in",),
    ),
    Mutant(
        name="a line is asked for again although its take is under way",
        breaks="I7",
        where="service/worker/flow/drain.py",
        old="        if line in self._asked:\n            self._asked[line]",
        new="        if line in self._jobs:\n            self._asked[line]",
        tests=(DRAINER + "test_a_slug_is_asked_for_once_at_a_time",),
    ),
    Mutant(
        name="a line is called in although its take is under way",
        breaks="I7",
        where="service/worker/flow/drain.py",
        old="            if line in self._asked:\n                self.schedule",
        new="            if line in self._jobs:\n                self.schedule",
        tests=(
            DRAINER + "test_a_slug_that_is_called_in_while_it_is_asked_for_is_asked_for_afterwards",
        ),
    ),
    Mutant(
        name="a slug that stood in line for a minute is handed over instead of called",
        breaks="I7",
        where="service/worker/flow/drain.py",
        old="        if has_slot or now - ",
        new="        if now - ",
        tests=(DRAINER + "test_a_slug_that_was_called_in_is_asked_for_before_it_is_shared",),
    ),
    Mutant(
        name="a full process sends drain jobs round",
        breaks="I7",
        where="limits/lua/lib/taking.lua",
        old="    if room == 0 then return grants, 'room', now end",
        new="    if room <= 0 then return grants, 'room', now end",
        tests=(
            "limits/test_admit_when_full.py::test_a_full_process_keeps_the_duty_until_it_asks_again",
        ),
    ),
    Mutant(
        name="a slug waits for a full process although another one has room",
        breaks="I7",
        where="limits/lua/lib/taking.lua",
        old=" and at <= now + rules.late_us + rules.window_us",
        new="",
        tests=(
            "limits/test_admit_when_full.py::test_who_has_room_takes_the_duty_over_from_a_full_process",
        ),
    ),
    Mutant(
        name="a call follows another one while no answer could be stored",
        breaks="I1",
        where="service/worker/flow/tasks.py",
        old="        if not self._results.is_available:\n            return NO_ROOM",
        new="        if self._results is None:\n            return NO_ROOM",
        tests=(AWAY + "test_no_call_follows_one_that_ends",),
        daily=True,
    ),
    Mutant(
        name="a line that waits for a place is called in while no answer could be stored",
        breaks="I1",
        where="service/worker/flow/tasks.py",
        old="self._free > 0 and self._results.is_available\n",
        new="self._free > 0\n",
        tests=(AWAY + "test_nobody_is_given_a_place",),
    ),
    Mutant(
        name="while MongoDB is away the sweeper waits for the record of one request",
        breaks="I7",
        where="service/worker/flow/call.py",
        old="        if not self._results.is_available:\n            return\n",
        new="",
        tests=(
            AWAY + "test_the_sweep_goes_on_and_finds_the_dying_again_when_they_can_be_recorded",
        ),
    ),
    Mutant(
        name="an absence of MongoDB is charged as an attempt",
        breaks="I9",
        where="service/worker/flow/call.py",
        old="_Overdue) or not self._results.is_available:\n",
        new="_Overdue) or self._results.is_available is None:\n",
        tests=(AWAY + "test_a_call_whose_outcome_cannot_be_stored_goes_back_uncharged",),
    ),
    Mutant(
        name="a pause that a courier wants waits until MongoDB is back",
        breaks="I3",
        where="service/worker/flow/call.py",
        old="            if final:\n                raise\n",
        new="            raise\n",
        tests=(AWAY + "test_a_courier_that_wants_a_pause_has_it_before_the_lease_ends",),
    ),
    Mutant(
        name="a process that writes nothing calls while MongoDB is away",
        breaks="I1",
        where="service/worker/results/connection.py",
        old="            if not topology.has_writable_server():\n",
        new="            if topology is None:\n",
        tests=(STORE + "test_a_process_that_writes_nothing_sees_that_mongodb_is_away_and_back",),
    ),
    Mutant(
        name="the intake does not hear that MongoDB is back",
        breaks="I7",
        where="service/worker/results/connection.py",
        old="            self.returned()\n",
        new="",
        tests=(STORE + "test_a_killed_mongodb_is_down_at_once_and_back_by_itself",),
    ),
    Mutant(
        name="a full Redis takes whatever comes",
        breaks="I1",
        where="limits/lua/admit.lua",
        old="  if is_full then return",
        new="  if false then return",
        tests=(FULL + "test_a_full_redis_takes_no_new_request_and_changes_nothing",),
        daily=True,
    ),
    Mutant(
        name="a full Redis is asked by the script's next write",
        breaks="I1",
        where="limits/lua/lib/context.lua",
        old="  local reply = redis.pcall('SET', 'tracking:nothing', '', 'XX')\n",
        new="  local reply = redis.pcall('DEL', 'tracking:nothing')\n",
        tests=(FULL + "test_a_full_redis_takes_no_new_request_and_changes_nothing",),
    ),
    Mutant(
        name="a full Redis refuses what ends or begins a call, too",
        breaks="I7",
        where="limits/lua/lib/context.lua",
        old="  if is_full then call('DEL', 'tracking:nothing') end\n",
        new="",
        tests=(FULL + "test_a_send_is_reported_while_redis_is_full",),
    ),
    Mutant(
        name="a full Redis lets nobody agree on an epoch",
        breaks="I7",
        where="limits/lua/epoch.lua",
        old="redis.call('PERSIST', KEYS[1])\n",
        new="",
        tests=(FULL + "test_a_worker_lives_and_starts_while_redis_is_full",),
    ),
    Mutant(
        name="a worker is not seen to live while Redis is full",
        breaks="I12",
        where="limits/lua/survey.lua",
        old="  redis.pcall('ZREM', KEYS[2], ARGV[2])\n",
        new="",
        tests=(FULL + "test_a_worker_lives_and_starts_while_redis_is_full",),
    ),
    Mutant(
        name="requests that a full Redis refuses hold all places for calls",
        breaks="I7",
        where="service/worker/flow/handle.py",
        old="            self._slots.give_back()\n",
        new="            pass\n",
        tests=(REFUSED + "test_a_refused_request_keeps_its_job_and_no_place_for_a_call",),
    ),
    Mutant(
        name="all requests that a full Redis refused ask it time and again",
        breaks="I7",
        where="service/worker/flow/handle.py",
        old="        async with self._turns:\n",
        new="        async with asyncio.Lock():\n",
        tests=(
            REFUSED + "test_of_many_refused_requests_one_asks_again_and_the_others_follow_at_once",
        ),
    ),
    Mutant(
        name="the tube waits for a call that runs",
        breaks="I7",
        where="service/worker/flow/handle.py",
        old="Granted):\n            job.admitted()\n",
        new="Granted):\n",
        tests=(ORDER + "test_an_answer_is_stored_then_the_call_ends_then_the_job_goes",),
    ),
    Mutant(
        name="a job that made room makes room again when it is deleted",
        breaks="I2",
        where="service/worker/tubes/intake.py",
        old="sum(not job.roomless for job in jobs)",
        new="len(jobs)",
        tests=(RESERVING + "test_a_job_whose_call_runs_makes_room_for_another_and_stays_reserved",),
    ),
    Mutant(
        name="calls may take all open files",
        breaks="I2",
        where="service/config/machine.py",
        old="CallBudget(files // 2,",
        new="CallBudget(files,",
        tests=("config/test_call_budget.py::test_a_low_hard_limit_lowers_the_calls",),
    ),
)
