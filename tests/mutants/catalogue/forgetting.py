"""Forgetting: no call that was granted before brings back what was forgotten."""

from __future__ import annotations

from mutants.mutant import Mutant

REDIS = "limits/test_forgetting.py::"
KEEP_DAYS = "results/test_database.py::"
MONGODB = "results/test_forgotten_parcels.py::"
DELIVERIES = "console/test_forget_deliveries.py::"

MUTANTS = (
    Mutant(
        name="the running call of a forgotten parcel answers others",
        breaks="I8",
        where="limits/lua/forget.lua",
        old="lead = record.lead, forgotten = true,",
        new="lead = record.lead,",
        tests=(REDIS + "test_a_running_calls_answer_is_nobodys",),
    ),
    Mutant(
        name="a late call of a forgotten parcel answers others",
        breaks="I8",
        where="limits/lua/finish.lua",
        old="  return at and verdict.observed * 1000 <= tonumber(at)\n",
        new="",
        tests=(REDIS + "test_a_late_finish_after_the_forget_answers_nobody",),
    ),
    Mutant(
        name="the end of a request without an id names its forgotten parcel",
        breaks="I8",
        where="limits/admin/forget.py",
        old="    hidden = keys.status(_sha1(identity))",
        new="    hidden = keys.status(f'{identity}:')",
        tests=(REDIS + "test_nothing_in_redis_names_a_forgotten_number",),
    ),
    Mutant(
        name="the stream of ends names a forgotten parcel",
        breaks="I8",
        where="limits/admin/forget.py",
        old="                await self._redis.xdel(keys.EVENTS, *gone)\n",
        new="                pass\n",
        tests=(REDIS + "test_nothing_in_redis_names_a_forgotten_number",),
    ),
    Mutant(
        name="a failed call of a forgotten parcel is repeated",
        breaks="I8",
        where="limits/lua/lib/flight.lua",
        old="  local number, lead, goes_on = record.n, record.lead, not record.forgotten\n",
        new="  local number, lead, goes_on = record.n, record.lead, true\n",
        tests=(REDIS + "test_a_running_call_that_fails_is_not_repeated",),
    ),
    Mutant(
        name="an earlier call stores what was forgotten",
        breaks="I8",
        where="service/worker/results/trackings.py",
        old="self._marks.left_of(writes)",
        new="writes",
        tests=(MONGODB + "test_what_was_asked_before_is_not_stored",),
    ),
    Mutant(
        name="an earlier call is recorded as dead after the forget",
        breaks="I8",
        where="service/worker/results/forgetting.py",
        old='        home.delete_many({"_id": {"$in": gone}})\n',
        new="        pass\n",
        tests=(MONGODB + "test_a_dead_request_of_before_leaves_no_record_and_a_later_one_does",),
    ),
    Mutant(
        name="active parcels end with keep_days",
        breaks="I1",
        where="service/worker/results/database.py",
        old='{"active": False, **NONE_UNTOLD},',
        new="NONE_UNTOLD,",
        tests=(KEEP_DAYS + "test_parcels_that_ended_go_after_the_days_and_active_ones_stay",),
    ),
    Mutant(
        name="the body of a forgotten parcel goes while it is being sent",
        breaks="I8",
        where="service/operator/forget.py",
        old="    if deliveries:\n        asyncio.run(_until_sent(config, deliveries))\n",
        new="",
        tests=(DELIVERIES + "test_an_attempt_in_flight_ends_before_its_body_goes",),
    ),
)
