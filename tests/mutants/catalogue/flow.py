"""The order of every step: the next copy is durable before the last one is let go."""

from __future__ import annotations

from mutants.mutant import Mutant

DUTY = "flow/test_drain.py::"
ORDER = "flow/test_handle.py::"
FLAWS = "acceptance/test_flaws_of_the_original.py::"
AWAY = "flow/test_results_away.py::"
FAILED = "flow/test_tracking_work.py::"

MUTANTS = (
    Mutant(
        name="a job is deleted before its courier is asked",
        breaks="I1 F1",
        where="service/worker/flow/handle.py",
        old="        if isinstance(admission, Granted):\n",
        new="        if isinstance(admission, Granted):\n            await job.delete()\n",
        tests=(ORDER + "test_an_answer_is_stored_then_the_call_ends_then_the_job_goes",),
        daily=True,
    ),
    Mutant(
        name="a worker deletes a job before its call has ended",
        breaks="I1 F1",
        where="service/worker/flow/handle.py",
        old="            if await self._runner.run([admission.call]):\n",
        new="            job.delete()\n            if await self._runner.run([admission.call]):\n",
        tests=(FLAWS + "test_a_job_is_let_go_only_after_its_result_is_stored",),
    ),
    Mutant(
        name="a call ends before its answer is stored",
        breaks="I1 I8",
        where="service/worker/flow/call.py",
        old="                await self.ends.durably(call, lambda: work.store(",
        new="                verdict = Verdict(State.SUCCESS, outcome.output)\n"
        "                await self.ends.finish([(call, verdict)])\n"
        "                await self.ends.durably(call, lambda: work.store(",
        tests=(ORDER + "test_an_answer_is_stored_then_the_call_ends_then_the_job_goes",),
        daily=True,
    ),
    Mutant(
        name="an answer that could not be stored counts as given",
        breaks="I1",
        where="service/worker/flow/call.py",
        old="UnreadableAnswer as error:\n",
        new="ResultsDown:\n                pass\n            except UnreadableAnswer as error:\n",
        tests=(ORDER + "test_an_answer_that_cannot_be_stored_is_asked_for_again",),
    ),
    Mutant(
        name="calls are asked for while no answer could be stored",
        breaks="I1",
        where="service/worker/flow/handle.py",
        old="        await self._results.available()\n",
        new="",
        tests=(ORDER + "test_no_call_is_asked_for_while_no_answer_could_be_stored",),
    ),
    Mutant(
        name="a parked request's job goes before its drain job is put",
        breaks="I7 F2",
        where="service/worker/flow/handle.py",
        old="Parked(why, put_drain, ask_again):\n",
        new="Parked(why, put_drain, ask_again):\n                await job.delete()\n",
        tests=(ORDER + "test_a_drain_job_is_put_before_the_parked_requests_job_goes",),
    ),
    Mutant(
        name="an admission that is repeated is another one",
        breaks="I4 I9",
        where="service/worker/flow/handle.py",
        old="self._limits.admit(call_id, ",
        new="self._limits.admit(next(self._limits.ids), ",
        tests=(ORDER + "test_an_admission_that_is_repeated_keeps_its_name",),
    ),
    Mutant(
        name="a take that is repeated takes others",
        breaks="I4 I9",
        where="service/worker/flow/drain.py",
        old="self._limits.take(base, ",
        new="self._limits.take(next(self._limits.ids), ",
        tests=(DUTY + "test_a_drain_job_goes_once_somebody_was_asked_who_waits",),
    ),
    Mutant(
        name="malformed jobs are buried before they are recorded",
        breaks="I1 I9",
        where="service/worker/flow/handle.py",
        old="        letter = letter_of_malformed(job, error)\n",
        new="        letter = letter_of_malformed(job, error)\n        await job.bury()\n",
        tests=(ORDER + "test_a_malformed_job_is_recorded_and_then_buried",),
        daily=True,
    ),
    Mutant(
        name="a request that finds the list full is dropped",
        breaks="I1",
        where="service/worker/flow/handle.py",
        old="        await keep_trying(lambda: self._dead.record([letter]))\n"
        "        await self._tell(letter, request.webhook)\n",
        new="        await self._tell(letter, request.webhook)\n",
        tests=(ORDER + "test_a_request_that_finds_the_list_full_is_recorded_first",),
    ),
    Mutant(
        name="a dead request ends without a record",
        breaks="I1 I9",
        where="service/worker/flow/call.py",
        old="        await keep_trying(lambda: self._dead.record([letter]))\n",
        new="",
        tests=(ORDER + "test_a_dead_request_is_recorded_before_it_ends",),
    ),
    Mutant(
        name="a worker that stops forgets the calls that it cuts off",
        breaks="I7",
        where="service/worker/flow/call.py",
        old="            await self.apply(call.line, await self.ends.hand_back(calls))\n",
        new="            raise\n",
        tests=(ORDER + "test_a_call_that_is_cut_off_is_handed_back_before_its_job_goes",),
    ),
    Mutant(
        name="a step is given up when its server does not answer at once",
        breaks="I1",
        where="service/worker/flow/tasks.py",
        old="            if time.monotonic() + wait > until:\n                raise\n",
        new="            raise\n",
        tests=(ORDER + "test_every_step_is_repeated_until_its_server_is_back",),
    ),
    Mutant(
        name="a courier's module that breaks ends the call without a word",
        breaks="I1",
        where="service/worker/flow/call.py",
        old="        except Exception as error:  # noqa: BLE001 - never Pending",
        new="        except ZeroDivisionError as error:  # never Pending",
        tests=(FAILED + "test_a_module_that_breaks_is_an_answer_that_cannot_be_read",),
    ),
    Mutant(
        name="repetitions follow each other without a longer wait",
        breaks="I9",
        where="service/worker/flow/tracking_work.py",
        old="2.0 ** min(attempts - 1, 64)",
        new="2.0 ** min(attempts - 1, 0)",
        tests=(FAILED + "test_waits_double_up_to_their_cap",),
    ),
    Mutant(
        name="requests that failed together come back together",
        breaks="I9",
        where="service/worker/flow/tracking_work.py",
        old="    return longest * draw()",
        new="    return longest",
        tests=(FAILED + "test_requests_that_failed_together_do_not_come_back_together",),
    ),
    Mutant(
        name="an answer that MongoDB never takes is asked for for ever",
        breaks="I9",
        where="service/worker/flow/tracking_work.py",
        old="charged=True, attempts=attempts",
        new="charged=True",
        tests=(AWAY + "test_an_answer_that_a_mongodb_which_is_there_does_not_take_has_an_end",),
    ),
    Mutant(
        name="who stops with an outcome in hand that cannot be stored lets go of it",
        breaks="I4",
        where="service/worker/flow/call.py",
        old="            result = await self._end(",
        new="            ended = True\n            result = await self._end(",
        tests=(AWAY + "test_who_stops_with_an_outcome_that_is_not_stored_hands_the_request_back",),
    ),
    Mutant(
        name="an answer that MongoDB refuses is asked for as long as nobody else is answered",
        breaks="I9",
        where="service/worker/flow/tracking_work.py",
        old="spares=TRACKING.spares and not isinstance(error, UnstorableAnswer)",
        new="spares=TRACKING.spares",
        tests=(FAILED + "test_what_is_done_about_an_error_follows_the_table",),
    ),
    Mutant(
        name="a request whose answer a majority confirms too late is charged",
        breaks="I9",
        where="service/worker/flow/call.py",
        old="        return isinstance(down, _Overdue) or not",
        new="        return not",
        tests=(AWAY + "test_an_answer_that_waits_for_a_majority_for_too_long_is_not_charged",),
    ),
)
