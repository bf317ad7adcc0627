"""The health of services: who is disabled, what is held, who hears of it, and how often."""

from __future__ import annotations

from mutants.mutant import Mutant

HEALTH = "deliveries/test_health.py::"
NOTES = "deliveries/test_health_notes.py::"
KEEPER = "deliveries/test_keeper.py::"
ALERTS = "deliveries/test_alerts.py::"
MAILS = "deliveries/test_mails.py::"
TOTALS = "deliveries/test_totals.py::"

FOLDER = "service/worker/deliveries/"

MUTANTS = (
    Mutant(
        name="each attempt of a service that is well is written",
        breaks="F20",
        where=FOLDER + "health.py",
        old="return None if first and known and known.failing_since is None else Note.WELL",
        new="return Note.WELL",
        tests=(NOTES + "test_a_service_that_is_well_costs_no_write_and_no_question",),
    ),
    Mutant(
        name="a delivery that failed before says nothing when it arrives",
        breaks="F20",
        where=FOLDER + "health.py",
        old="return None if first and known",
        new="return None if known",
        tests=(
            NOTES + "test_another_process_that_knew_it_to_be_well_notes_a_delivery_that_had_failed",
        ),
    ),
    Mutant(
        name="each failure begins the five days again",
        breaks="F20",
        where=FOLDER + "health_notes.py",
        old='well = {"_id": service, "health.failing_since": None}',
        new='well = {"_id": service}',
        tests=(NOTES + "test_the_first_failure_of_several_in_a_row_is_noted_by_whichever_process",),
    ),
    Mutant(
        name="a service is disabled by what a process remembers",
        breaks="F20",
        where=FOLDER + "health_notes.py",
        old="        if not found or not has_failed_for_long(failing_since_in(found), at):\n"
        "            return False\n",
        new="        found = found or {}\n",
        tests=(
            NOTES + "test_a_delivery_that_arrived_meanwhile_in_another_process_lets_it_stay_active",
        ),
    ),
    Mutant(
        name="what is held of a service that was disabled again is opened",
        breaks="I1",
        where=FOLDER + "keeper.py",
        old='{"_id": service, "state": {"$in": [*while_in]}}',
        new='{"_id": service}',
        tests=(KEEPER + "test_a_service_that_is_disabled_again_meanwhile_keeps_what_it_holds",),
    ),
    Mutant(
        name="what a late process holds of an active service stays held",
        breaks="I1",
        where=FOLDER + "keeper.py",
        old="        if all_open and self._has_settled(service, state):",
        new="        if all_open:",
        tests=(
            KEEPER + "test_all_that_is_held_is_open_again_once_its_service_is_active_or_paused",
        ),
    ),
    Mutant(
        name="what a vanished worker held stays held",
        breaks="I1",
        where=FOLDER + "keeper.py",
        old="            if counts[1]:\n",
        new="            if not counts:\n",
        tests=(KEEPER + "test_what_a_vanished_worker_held_of_an_active_service_is_open_again",),
    ),
    Mutant(
        name="open deliveries are given up before held ones",
        breaks="F20",
        where=FOLDER + "keeper.py",
        old="    for state in (HOLDS, OPEN) if before is None else (HOLDS,):",
        new="    for state in (OPEN, HOLDS) if before is None else (HOLDS,):",
        tests=(
            KEEPER
            + "test_beyond_the_bound_of_an_account_the_oldest_of_its_fullest_service_are_given_up",
        ),
    ),
    Mutant(
        name="an alert is raised at the first failure",
        breaks="F20",
        where=FOLDER + "health.py",
        old="(trouble.grave or now - trouble.since >= ALERT_AFTER)",
        new="(trouble.grave or now >= trouble.since)",
        tests=(ALERTS + "test_what_ends_within_a_quarter_of_an_hour_is_no_alert",),
    ),
    Mutant(
        name="an alert is resolved by the first delivery that arrives",
        breaks="F20",
        where=FOLDER + "health.py",
        old="return Step.RESOLVE if now - alert.well_since >= REST else None",
        new="return Step.RESOLVE",
        tests=(ALERTS + "test_it_is_resolved_once_it_was_well_for_a_quarter_of_an_hour",),
    ),
    Mutant(
        name="an alert counts as said before its mail is written",
        breaks="F20",
        where=FOLDER + "alerts.py",
        old="        matter, service = await store.in_background(matter_of, store, alert)\n",
        new="        matter, service = await store.in_background(matter_of, store, alert)\n"
        "        await store.in_background(note_said, store.alerts, alert)\n",
        tests=(
            ALERTS + "test_a_process_that_vanishes_between_two_steps_leaves_them_to_the_next_one",
        ),
    ),
    Mutant(
        name="two senders send the same mail",
        breaks="F20",
        where=FOLDER + "mail.py",
        old='    change = {"$set": {"next_at": now + CLAIM}, "$inc": {"tries": 1}}',
        new='    change = {"$inc": {"tries": 1}}',
        tests=(MAILS + "test_two_senders_at_once_send_each_mail_once",),
    ),
    Mutant(
        name="a mail that is not taken is over",
        breaks="F20",
        where=FOLDER + "mail.py",
        old="            ended_at = now if given_up or not error else None",
        new="            ended_at = now",
        tests=(MAILS + "test_while_no_server_answers_mails_wait",),
    ),
    Mutant(
        name="a mail is sent in the clear where encryption is asked for",
        breaks="F20",
        where=FOLDER + "mail.py",
        old='            start_tls=smtp.tls == "starttls",',
        new="            start_tls=False,",
        tests=(MAILS + "test_nothing_is_sent_in_the_clear_where_encryption_is_asked_for",),
    ),
    Mutant(
        name="what is counted again is counted twice",
        breaks="F20",
        where=FOLDER + "totals.py",
        old='    return {"$max": figures, "$setOnInsert": named}',
        new='    return {"$inc": figures, "$setOnInsert": named}',
        tests=(TOTALS + "test_what_is_counted_again_is_counted_once",),
    ),
)
