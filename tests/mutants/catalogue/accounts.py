"""Accounts: nobody's fields are asked for another, and nobody's answer is another's."""

from __future__ import annotations

from mutants.mutant import Mutant

APART = "limits/test_accounts_apart.py"
LENT = "limits/test_lent_answers.py"
DOCUMENTS = "results/test_own_documents.py"
UNLOCKED = "door/test_unlocked_over_http.py"

MUTANTS = (
    Mutant(
        name="a call is for everybody who waits, whatever they say",
        breaks="F18",
        where="limits/lua/lib/flight.lua",
        old="    if record.accounts and not record.n then part_accounts(number, record) end\n",
        new="",
        tests=(
            f"{APART}::test_accounts_that_wait_together_are_called_one_after_the_other",
            "limits/test_random_walk.py",
        ),
    ),
    Mutant(
        name="an answer in Redis is fresh for every account",
        breaks="F18",
        where="limits/lua/admit.lua",
        old="whose == 'own' and heard or kept",
        new="heard or kept",
        tests=(f"{LENT}::test_what_an_account_unlocked_is_not_fresh_for_plain_requests",),
    ),
    Mutant(
        name="an answer is lent to who asks with something else",
        breaks="F18",
        where="limits/lua/lib/record.lua",
        old="return equal(answer.fields, fields) and 'alike' or nil",
        new="return 'alike'",
        tests=(
            f"{LENT}::test_an_answer_is_fresh_for_the_account_that_asked_and_lent_to_those_who_say_the_same",
        ),
    ),
    Mutant(
        name="an answer is fresh for who names a field that it was not asked with",
        breaks="I8",
        where="limits/lua/lib/record.lua",
        old="return (asked.auto or cover(answer.fields, fields)) and 'own' or nil",
        new="return 'own'",
        tests=(
            "limits/test_freshness.py::test_who_names_another_field_while_its_number_runs_is_called_after_it",
        ),
    ),
    Mutant(
        name="who waits behind a call takes its answer, whatever it asked with",
        breaks="F18",
        where="limits/lua/finish.lua",
        old="return is_young and whose_is(verdict, account_of(id), record) == 'own'",
        new="return is_young",
        tests=(f"{APART}::test_who_says_something_else_waits_behind_the_call_for_one_of_its_own",),
    ),
    Mutant(
        name="who waits behind a call ends before the answer is stored for its account",
        breaks="I1",
        where="limits/lua/finish.lua",
        old="if #owed > 0 then",
        new="if false then",
        tests=(f"{UNLOCKED}::test_who_waits_behind_a_call_with_the_same_code_has_its_answer_too",),
    ),
    Mutant(
        name="all accounts share one document of a parcel",
        breaks="F18",
        where="service/results/own_documents.py",
        old='return parcel if account == MAIN else f"{parcel}@{account}"',
        new="return parcel",
        tests=(
            f"{DOCUMENTS}::test_what_an_account_unlocked_stands_in_its_own_document_alone",
            f"{UNLOCKED}::test_what_a_postal_code_unlocked_is_told_to_those_who_gave_it_alone",
        ),
    ),
    Mutant(
        name="what other fields brought is lent with an answer",
        breaks="F18",
        where="service/results/trackings.py",
        old='if found is None or (fields_in(found) and found["tracked_count"] > 1):',
        new="if found is None:",
        tests=(
            f"{DOCUMENTS}::test_an_answer_that_is_joined_with_what_other_fields_brought_is_lent_to_nobody",
            f"{UNLOCKED}::test_what_an_account_unlocked_before_is_not_lent_with_a_later_answer",
        ),
    ),
    Mutant(
        name="an account's parcel is checked again for main",
        breaks="F18",
        where="service/upkeep/recheck.py",
        old='parse_account(document.get("account", MAIN))',
        new="MAIN",
        tests=(
            "upkeep/test_recheck_accounts.py::test_each_account_s_document_is_asked_for_with_its_own_fields",
        ),
    ),
)
