"""The door: what it said 202 to is durable, and put in the end."""

from __future__ import annotations

from mutants.mutant import Mutant

PUTS = "tubes/test_put_servers.py"
DOOR = "door/test_door.py"
POSTS = "door/test_requests_over_http.py"

MUTANTS = (
    Mutant(
        name="a server that stopped writing its binlog is believed",
        breaks="I1",
        where="service/worker/tubes/put_servers.py",
        old="if after - before < self._taken(",
        new="if after - before < 0 * self._taken(",
        tests=(f"{PUTS}::test_an_acknowledged_job_is_not_put_once_the_binlog_has_ended",),
    ),
    Mutant(
        name="a server without a binlog is put on",
        breaks="I1",
        where="service/worker/tubes/put_servers.py",
        old="if not self._durable or (made.binlog and made.instance != self._forgetful):",
        new="if not self._durable or made.instance != self._forgetful:",
        tests=(f"{PUTS}::test_a_server_without_a_binlog_takes_none",),
    ),
    Mutant(
        name="what no server takes is taken all the same, and kept nowhere",
        breaks="I1",
        where="service/http/backend/door.py",
        old="        self._spool.add(bodies)\n",
        new="        bodies\n",
        tests=(f"{DOOR}::test_what_no_server_takes_is_in_the_spool_and_on_standard_output",),
    ),
    Mutant(
        name="the spool lets go of what no server took",
        breaks="I1",
        where="service/http/backend/door.py",
        old="zip(found, placed, strict=True) if taken]",
        new="zip(found, placed, strict=True)]",
        tests=(f"{DOOR}::test_one_that_no_server_takes_holds_nobody_up",),
    ),
    Mutant(
        name="the spool is put newest first",
        breaks="I11",
        where="service/operator/spool.py",
        old="WHERE id > ? ORDER BY id LIMIT ?",
        new="WHERE id > ? ORDER BY id DESC LIMIT ?",
        tests=(f"{DOOR}::test_the_spool_is_put_by_itself_oldest_first_once_a_server_is_back",),
    ),
    Mutant(
        name="requests are added to a damaged spool",
        breaks="I1",
        where="service/operator/spool.py",
        old='    if found != "ok":\n',
        new='    if found == "":\n',
        tests=("door/test_spool.py::test_a_damaged_file_is_named_and_nothing_is_added_to_it",),
    ),
    Mutant(
        name="one bad request of many keeps none of the others out",
        breaks="I1",
        where="service/http/requests.py",
        old="if refused and (not skip_bad or not good):",
        new="if refused and not good:",
        tests=(f"{POSTS}::test_one_bad_request_is_named_by_its_place_and_none_is_taken",),
    ),
    Mutant(
        name="a client may say what is the door's own to say",
        breaks="I1",
        where="service/operator/put.py",
        old="if name in _KEPT and value is not None",
        new="if value is not None",
        tests=(f"{POSTS}::test_every_member_of_a_payload_reaches_the_job_and_no_other",),
    ),
    Mutant(
        name="a member that no worker would read is put",
        breaks="I1",
        where="service/operator/put.py",
        old="            check_options(members)\n",
        new="            pass\n",
        tests=("fuzz/test_fuzz_posts.py::test_so_it_is_with_whatever_stands_in_a_request",),
    ),
    Mutant(
        name="who knows the beginning of a key has the key",
        breaks="F18",
        where="service/operator/keys.py",
        old="if key is None or not hmac.compare_digest(digest(text), key.sha256):",
        new="if key is None:",
        tests=("door/test_api_keys.py::test_with_a_key_every_request_needs_one",),
    ),
    Mutant(
        name="a key is good for everything",
        breaks="F18",
        where="service/http/callers.py",
        old="if each not in key.scopes]:",
        new="if each in {}]:",
        tests=("door/test_api_keys.py::test_a_key_without_the_scope_takes_nothing",),
    ),
    Mutant(
        name="the ids of two accounts meet",
        breaks="I8",
        where="service/worker/tubes/payload.py",
        old="return identity and operation_id(name, identity)",
        new="return name and identity",
        tests=("door/test_api_keys.py::test_an_accounts_ids_are_its_own",),
    ),
    Mutant(
        name="the spool takes the room that deletions need",
        breaks="I1",
        where="service/operator/spool.py",
        old="if room < SPARE_BYTES or",
        new="if",
        tests=(f"{DOOR}::test_a_door_without_a_server_is_not_ready_where_the_disk_has_no_room",),
    ),
    Mutant(
        name="what is put and cannot be deleted is put again and again",
        breaks="I11",
        where="service/http/backend/door.py",
        old="if each.id not in self._put]",
        new="if each.id]",
        tests=(f"{DOOR}::test_what_is_put_and_cannot_be_deleted_holds_nobody_up_and_is_put_once",),
    ),
)
