"""Accounts: nobody's fields are asked for another, and nobody's answer is another's."""

from __future__ import annotations

from mutants.mutant import Mutant

APART = "limits/test_split_accounts.py"
DOCUMENTS = "results/test_document.py"
UNLOCKED = "door/test_parcels_over_http.py"
FRESH = "limits/test_admit_freshness.py::"
RECHECK = "upkeep/test_recheck.py::"

MUTANTS = (
    Mutant(
        name="accounts share the record of a number",
        breaks="F18",
        where="tracking/request.py",
        old='return number if account == MAIN else f"{number}@{account}"',
        new="return number",
        tests=(
            f"{APART}::test_accounts_that_follow_one_number_make_a_call_each_at_once",
            f"{APART}::test_an_answer_of_another_account_is_not_fresh_though_it_was_asked_alike",
        ),
    ),
    Mutant(
        name="who waits behind a call takes its answer, whatever it asked with",
        breaks="I8",
        where="limits/lua/finish.lua",
        old="  if not serves(verdict, record) then return function() return false end end\n",
        new="",
        tests=(FRESH + "test_who_names_another_field_while_its_number_runs_is_called_after_it",),
    ),
    Mutant(
        name="a number pushed by hand in an account's name is asked for that account",
        breaks="F18",
        where="limits/lua/lib/waiting.lua",
        old="if is_of_account and call('HEXISTS', REQUESTS, number) == 1 then return number end",
        new="if is_of_account then return number end",
        tests=(f"{APART}::test_a_number_pushed_by_hand_in_an_accounts_name_is_asked_for_nobody",),
    ),
    Mutant(
        name="the accounts that asked are not noted",
        breaks="I8",
        where="limits/lua/admit.lua",
        old="  note_account(number)\n",
        new="",
        tests=(
            f"{APART}::test_forgetting_a_parcel_reaches_what_waits_runs_and_is_remembered_of_every_account",
        ),
    ),
    Mutant(
        name="operations of many are not parted from those of others",
        breaks="I1",
        where="limits/lua/split.lua",
        old="  while #ids > 0 do\n    take(ids)\n",
        new="  while #ids > 0 do\n",
        tests=(
            "limits/test_split_accounts.py::test_every_request_of_a_shared_store_is_answered_by_a_call_of_its_own_account",
        ),
    ),
    Mutant(
        name="what several accounts remembered together is an answer of main's",
        breaks="F18",
        where="limits/lua/lib/record.lua",
        old="return not answer.accounts and (asked.auto",
        new="return (asked.auto",
        tests=("limits/test_split_accounts.py::test_an_answer_of_a_version_before_is_nobodys",),
    ),
    Mutant(
        name="an answer is fresh for who names a field that it was not asked with",
        breaks="I8",
        where="limits/lua/lib/record.lua",
        old="(asked.auto or cover(answer.fields, asked.fields))",
        new="true",
        tests=(FRESH + "test_who_names_another_field_while_its_number_runs_is_called_after_it",),
    ),
    Mutant(
        name="all accounts share one document of a parcel",
        breaks="F18",
        where="service/worker/results/document.py",
        old='return parcel if account == MAIN else f"{parcel}@{account}"',
        new="return parcel",
        tests=(
            f"{DOCUMENTS}::test_what_an_account_unlocked_stands_in_its_own_document_alone",
            f"{UNLOCKED}::test_what_a_postal_code_unlocked_is_told_to_those_who_gave_it_alone",
        ),
    ),
    Mutant(
        name="an account's parcel is checked again for main",
        breaks="F18",
        where="service/worker/upkeep/recheck.py",
        old='parse_account(document.get("account", MAIN))',
        new="MAIN",
        tests=(RECHECK + "test_each_account_s_document_is_asked_for_with_its_own_fields",),
    ),
)
