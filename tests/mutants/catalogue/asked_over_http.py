"""What is asked over HTTP: no end is missed, and nobody sees what is another's."""

from __future__ import annotations

from mutants.mutant import Mutant

ENDS = "limits/test_ends.py"
OPERATIONS = "door/test_operations_over_http.py"
EVENTS = "door/test_events_over_http.py"
LINKS = "door/test_secret_links.py"
PARCELS = "door/test_parcels_over_http.py"
OPERATORS = "door/test_operators.py"
SIGNATURES = "door/test_signatures.py"
HELD = "door/test_application.py"
HOSTILE = "door/test_hostile_clients.py"
SHIPMENTS = "door/test_aftership_trackings.py"
LET_GO = "results/test_shipments.py"
BY_HAND = "door/test_deliveries_over_http.py::"

MUTANTS = (
    Mutant(
        name="what ended before the reader began is not looked at",
        breaks="F20",
        where="limits/ends.py",
        old="            self._at = at\n            self._doubt(*self._waiters)\n",
        new="            self._at = at\n",
        tests=(f"{ENDS}::test_what_ended_before_the_reader_began_is_read",),
    ),
    Mutant(
        name="where ends may be lost nobody who waits is looked for",
        breaks="F20",
        where="limits/ends.py",
        old="        if read.lost:\n            self._doubt(*self._waiters)\n",
        new="",
        tests=(f"{ENDS}::test_where_ends_may_be_lost_all_who_wait_are_looked_for",),
    ),
    Mutant(
        name="main asks for the operations of others by their whole ids",
        breaks="F18",
        where="service/http/operations.py",
        old="if len(identity) > ID_MOST or account_and_id(known) != (account, identity):",
        new="if len(identity) > ID_MOST:",
        tests=(f"{OPERATIONS}::test_another_accounts_operations_are_not_known",),
    ),
    Mutant(
        name="a parcel is shown to who never asked for it",
        breaks="F18",
        where="service/http/parcels.py",
        old="document = await self._operations.stored.tracking(slug, number, account)",
        new="document = await self._operations.stored.tracking(slug, number)",
        tests=(f"{PARCELS}::test_an_account_knows_the_parcels_that_it_asked_for",),
    ),
    Mutant(
        name="a courier's answers leave by HTTP",
        breaks="F18",
        where="service/operator/stored.py",
        old='if name != "excerpt"',
        new='if name != "answer"',
        tests=(f"{PARCELS}::test_a_parcel_is_shown_without_what_is_ours_or_the_receivers",),
    ),
    Mutant(
        name="an admin key of any account is an operator's",
        breaks="F18",
        where="service/http/callers.py",
        old="if key.account != MAIN or Scope.ADMIN not in key.scopes:",
        new="if Scope.ADMIN not in key.scopes:",
        tests=(f"{OPERATORS}::test_for_all_others_there_is_nothing_at_these_paths",),
    ),
    Mutant(
        name="a key that demands signatures counts without",
        breaks="F18",
        where="service/http/callers.py",
        old="if found.signing and (why := request.get(FLAW, _UNSEEN)):",
        new='if found.signing and (why := request.get(FLAW, "")):',
        tests=(
            f"{SIGNATURES}::test_a_key_that_was_made_while_a_request_came_does_not_count_unseen",
        ),
    ),
    Mutant(
        name="the id of a heartbeat moves when another account's operation ends",
        breaks="F18",
        where="service/http/backend/listeners.py",
        old="nonce = os.urandom(_NONCE_BYTES)",
        new="nonce = bytes(_NONCE_BYTES)",
        tests=(f"{EVENTS}::test_what_a_client_reads_tells_nothing_of_others_ends",),
    ),
    Mutant(
        name="a heartbeat overtakes an end that its client did not read yet",
        breaks="F20",
        where="service/http/backend/listeners.py",
        old="return None if self._pending else self.at",
        new="return self.at",
        tests=(f"{EVENTS}::test_a_heartbeat_names_no_id_while_something_is_kept_for_the_listener",),
    ),
    Mutant(
        name="one key holds all replies",
        breaks="F18",
        where="service/http/operations.py",
        old="if key is not None and own >= free:",
        new="if free <= 0:",
        tests=(f"{HELD}::test_one_key_holds_half_of_all_replies_and_leaves_some_for_every_other",),
    ),
    Mutant(
        name="an act is done though nobody can record it",
        breaks="F18",
        where="service/http/backend/operators.py",
        old="            with recorded(self._stores.audit, who, act, target) as outcome:\n"
        "                return step(outcome)\n",
        new="            came = step(outcome := {})\n"
        "            with recorded(self._stores.audit, who, act, target) as told:\n"
        "                told |= outcome\n"
        "            return came\n",
        tests=(f"{OPERATORS}::test_an_act_is_recorded_before_it_is_done_and_its_failure_after",),
    ),
    Mutant(
        name="who begins to listen does not read what the reader is just telling",
        breaks="F20",
        where="service/http/backend/listeners.py",
        old="        return listener.at\n",
        new="        return at\n",
        tests=(f"{EVENTS}::test_who_begins_while_others_hear_of_ends_reads_them_by_itself",),
    ),
    Mutant(
        name="all accounts hear of an end",
        breaks="F18",
        where="service/http/backend/listeners.py",
        old="for each in told[listener.account]:",
        new="for each in sum(told.values(), []):",
        tests=(f"{EVENTS}::test_two_accounts_never_hear_of_each_other",),
    ),
    Mutant(
        name="nobody notices that ends are lost",
        breaks="F20",
        where="limits/ends.py",
        old="return ends[1:] if ends and ends[0].at == at else None",
        new="return [each for each in ends if each.at != at]",
        tests=(f"{EVENTS}::test_who_may_miss_ends_hears_that_first",),
    ),
    Mutant(
        name="another account's shipments are found by their whole ids",
        breaks="F18",
        where="service/http/backend/shipments.py",
        old='"_id": operation_id(account, identity), "account": account}',
        new='"_id": operation_id(account, identity)}',
        tests=(f"{SHIPMENTS}::test_another_account_sees_nothing",),
    ),
    Mutant(
        name="re-checks end though somebody else asked for the parcel",
        breaks="F18",
        where="service/worker/results/shipments.py",
        old='and operations.find_one(_asked_otherwise(own), {"_id": 1}) is None',
        new="",
        tests=(f"{LET_GO}::test_an_account_that_asked_otherwise_follows_it",),
    ),
    Mutant(
        name="a link starts as many checks as somebody asks for",
        breaks="F18",
        where="service/http/backend/links.py",
        old='"$expr": before',
        new='"$expr": True',
        tests=(f"{LINKS}::test_a_link_starts_one_check_a_second_over_all_processes",),
    ),
    Mutant(
        name="an account revokes the links of others",
        breaks="F18",
        where="service/http/backend/links.py",
        old='wanted = {"_id": identity, "account": account}',
        new='wanted = {"_id": identity}',
        tests=(f"{LINKS}::test_another_accounts_links_are_not_known",),
    ),
    Mutant(
        name="digits in a query are a time, of Unix",
        breaks="I1",
        where="service/http/exchange.py",
        old="for name in _times(kind).intersection(given):",
        new="for name in ():",
        tests=("door/test_operators.py::test_what_is_no_time_deletes_and_kicks_nothing",),
    ),
    Mutant(
        name="a packed body is unpacked before anybody is asked for a key",
        breaks="F18",
        where="service/http/serve.py",
        old="auto_decompress=False",
        new="auto_decompress=True",
        tests=(f"{HOSTILE}::test_a_body_is_unpacked_for_nobody",),
    ),
    Mutant(
        name="a shipment that somebody else changed is changed as it was read",
        breaks="F18",
        where="service/http/backend/shipments.py",
        old='same = ("_id", "retracks", "updated_at") if as_read else ("_id",)',
        new='same = ("_id",)',
        tests=(f"{SHIPMENTS}::test_fourteen_retracks_at_once_are_three_at_most",),
    ),
    Mutant(
        name="an account has as many links as it makes at once",
        breaks="F18",
        where="service/http/backend/links.py",
        old="limit=most) >= most:",
        new="limit=most) > most:",
        tests=("door/test_secret_links.py::test_nor_has_it_more_by_making_them_at_once",),
    ),
    Mutant(
        name="a signature is good with any Idempotency-Key",
        breaks="F18",
        where="service/http/callers.py",
        old="request[COVERED] = not why and",
        new="request[COVERED] = True or",
        tests=(
            f"{SIGNATURES}::test_an_idempotency_key_that_no_signature_covers_says_no_more_than_the_body",
        ),
    ),
    Mutant(
        name="a large body is taken for headers that do not end",
        breaks="I1",
        where="service/http/serve.py",
        old="if self._current_request is None and not self._messages:",
        new="if self._loop:",
        tests=(f"{HOSTILE}::test_nor_is_a_large_body_taken_for_headers_that_do_not_end",),
    ),
    Mutant(
        name="as much waits to be durable as anybody posts",
        breaks="F18",
        where="service/http/backend/door.py",
        old="if self._waiting and self._waiting + len(requests) > TAKEN_MOST:",
        new="if self._waiting < 0:",
        tests=("door/test_door.py::test_only_so_many_requests_wait_to_be_durable",),
    ),
    Mutant(
        name="an act by hand overwrites what an attempt has changed",
        breaks="I8",
        where="service/operator/deliveries.py",
        old='("_id", "state", "round", "made")}',
        new='("_id",)}',
        tests=(BY_HAND + "test_what_an_attempt_changes_meanwhile_is_not_overwritten",),
    ),
    Mutant(
        name="a key changes services that may not see them",
        breaks="F18",
        where="service/operator/keys.py",
        old="return (scope, Scope.READ) if scope is Scope.HOOKS else (scope,)",
        new="return (scope,)",
        tests=("door/test_services_over_http.py::test_making_and_changing_needs_hooks_and_read",),
    ),
)
