"""Jobs: held as long as needed, let go once, read strictly."""

from __future__ import annotations

from mutants.mutant import Mutant

HOSTILE = "tubes/test_payload.py::test_a_hostile_body_is_malformed_with_its_reason"
UNKNOWN = (
    "couriers/test_registry.py"
    "::test_a_slug_that_no_courier_has_is_malformed_and_the_nearest_one_is_named"
)
HELD = "tubes/test_held_touches.py::"
ORDER = "flow/test_handle.py::"

MUTANTS = (
    Mutant(
        name="a held job is touched after its time to run is over",
        breaks="I8 F16",
        where="service/worker/tubes/held.py",
        old="PARTS = 3\n",
        new="PARTS = 0.5\n",
        tests=(HELD + "test_a_touched_job_is_due_again_within_half_of_its_ttr",),
    ),
    Mutant(
        name="a settled job is kept until its next touch was due",
        breaks="I1",
        where="service/worker/tubes/held.py",
        old="        if self._ended * 2 > len(self._read):\n            self.forget_ended()\n",
        new="",
        tests=("tubes/test_held_touches.py::test_settled_jobs_of_a_long_ttr_are_let_go_of",),
    ),
    Mutant(
        name="a courier that only newer workers know is nobody's",
        breaks="I1",
        where="service/worker/flow/handle.py",
        old='if error.reason == "unknown_slug" and await',
        new='if error.reason == "unknown" and await',
        tests=(ORDER + "test_a_job_whose_courier_others_know_is_left_to_them",),
    ),
    Mutant(
        name="what a worker knew that vanished is known for ever",
        breaks="I1",
        where="limits/workers.py",
        old="    return bool(0 < left_ms <= LIVES_SECONDS * 1000)\n",
        new="    return until_ms is not None\n",
        tests=("limits/test_workers.py::test_what_a_worker_knew_is_forgotten_with_it",),
    ),
    Mutant(
        name="a job's handle outlives its connection",
        breaks="I8",
        where="service/worker/tubes/held.py",
        old="            for job in self.held.values():\n                job.lost = True\n",
        new="",
        tests=("tubes/test_beanstalkd_connection.py::test_a_jobs_handle_dies_with_its_connection",),
    ),
    Mutant(
        name="a job may be settled twice",
        breaks="I8",
        where="service/worker/tubes/held.py",
        old="        if self._settling:\n            return\n",
        new="",
        tests=("tubes/test_held.py::test_only_the_first_settling_counts",),
    ),
    Mutant(
        name="a buried job loses its priority",
        breaks="I11",
        where="service/worker/tubes/held.py",
        old="if self.priority is None:",
        new="if verb is Verb.RELEASE and self.priority is None:",
        tests=("tubes/test_held.py::test_a_buried_job_keeps_its_priority",),
    ),
    Mutant(
        name="jobs of a restarted beanstalkd have the names of old ones",
        breaks="I1",
        where="service/worker/tubes/held.py",
        old='name = f"{self.client.instance}:{self.id}".encode()',
        new='name = f"{self.id}".encode()',
        tests=("tubes/test_held.py::test_a_jobs_key_changes_with_the_server_that_numbers_it",),
    ),
    Mutant(
        name="of a key that stands twice the last one holds",
        breaks="I9",
        where="service/worker/tubes/payload.py",
        old="object_pairs_hook=_without_twins, ",
        new="",
        tests=(HOSTILE,),
    ),
    Mutant(
        name="NaN is a number",
        breaks="I9",
        where="service/worker/tubes/payload.py",
        old=", parse_constant=_no_constant)",
        new=")",
        tests=(HOSTILE,),
    ),
    Mutant(
        name="an unknown courier is found out when its call is counted",
        breaks="I9 F13",
        where="couriers/registry.py",
        old='            raise MalformedJob("unknown_slug", self._why_unknown(text))',
        new='            return Slug(text), ""',
        tests=(UNKNOWN,),
        daily=True,
    ),
)
