"""Accounts: nobody's fields are asked for another, and nobody's answer is another's."""

from __future__ import annotations

from mutants.mutant import Mutant

APART = "limits/test_accounts_apart.py"
FIELDS = "results/test_account_fields.py"

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
        where="limits/lua/lib/operations.lua",
        old="return is_young and is_for(answer, account, asked) and answer or nil",
        new="return is_young and answer or nil",
        tests=(f"{APART}::test_what_an_account_unlocked_is_not_fresh_for_plain_requests",),
    ),
    Mutant(
        name="who waits behind a call takes its answer, whatever it asked with",
        breaks="F18",
        where="limits/lua/finish.lua",
        old="return is_young and is_for(verdict, account_of(id), record)",
        new="return is_young",
        tests=(f"{APART}::test_who_says_something_else_waits_behind_the_call_for_one_of_its_own",),
    ),
    Mutant(
        name="a stored answer is fresh for every account",
        breaks="F18",
        where="service/results/account_fields.py",
        old="return account in whose or asked == dict(fields)",
        new="return True",
        tests=(f"{FIELDS}::test_a_stored_answer_is_fresh_for_who_asked_and_for_who_says_the_same",),
    ),
    Mutant(
        name="re-checks ask for all with what one account said",
        breaks="F18",
        where="service/results/account_fields.py",
        old="    for each in call.accounts:\n        before",
        new="    for each in (MAIN,):\n        before",
        tests=(f"{FIELDS}::test_what_an_account_asks_with_is_its_own",),
    ),
)
