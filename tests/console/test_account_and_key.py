"""`account` and `key`, against a real MongoDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Run

from service import PROGRAM
from service.operator.keys import digest

PUBLIC_KEY = """\
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEArTAxHdEEkTrF1bE3uVmO
d64e3vlpNU45DQret1xn5aAKkVltjtGc5foXe1Mc2P1xTD1OtiUc/iXGMaG7S53k
RG+TU0yAg5oiGPWL7EWg8zYXODDqFz/X8d2lpNyRX7Jr7bYt2XoPvw+KmnPEHpS/
BzuaBKphASKkvzszpCnIbi0DyOXeTh8s/xWLArWu6CwQqgBLiOh98r+ibN42l6OC
QOP/YdXSqTVZqL638oHOUBMwCf7XnyfayCDv6RWApsP9BCvhFL7WngxWwjIkBHAD
kIXWOE1V9mkgQDnt896/lwCRiwB8pyyO4JK0HJoaqlinmy8GIycj+wiLP2UslNeo
fwIDAQAB
-----END PUBLIC KEY-----
"""


def test_a_key_is_shown_once_and_only_its_hash_is_kept(run: Run, collections: Any) -> None:
    done = run("key", "add", "main", "--scope", "read,ingest,read")

    assert done.code == 0
    [key] = done.lines
    assert "shown this once" in done.err
    [kept] = collections.keys.find()
    assert key not in str(kept)
    assert (kept["_id"], kept["account"], kept["scopes"]) == (key[:15], "main", ["ingest", "read"])
    assert kept["sha256"] == digest(key)
    assert kept["ends_at"] is None
    listed = run("key", "list")
    assert key[:15] in listed.out
    assert key not in listed.out


def test_a_list_without_keys_says_so_and_how_one_is_made(run: Run) -> None:
    run("account", "add", "shop")
    every, of_one, for_machines = (
        run("key", "list", *which) for which in ([], ["shop"], ["--json"])
    )
    of_none = run("key", "list", "nope")

    made = f"`{PROGRAM} key add {{}} --scope ingest` makes one"
    assert every.lines == [f"there are no keys; {made.format('main')}"]
    assert of_one.lines == [f"shop has no keys; {made.format('shop')}"]
    assert (for_machines.out, every.code, of_one.code, for_machines.code) == ("", 0, 0, 0)
    assert (of_none.code, "there is no account nope" in of_none.err) == (2, True)


def test_a_key_may_end_by_itself_and_have_a_rate_of_its_own(run: Run) -> None:
    done = run("key", "add", "main", "--scope", "read", "--ends", "90d", "--per-second", "20")
    wrong = run("key", "add", "main", "--scope", "read", "--per-second", "0")
    [listed] = run("key", "list", "--json").json

    assert "good for read, for 90 d" in done.err
    assert listed["per_second"] == 20.0
    assert listed["ends_at"] is not None
    assert (wrong.code, "no number of requests a second" in wrong.err) == (2, True)


def test_a_key_for_hooks_reads_too(run: Run, collections: Any) -> None:
    alone = run("key", "add", "main", "--scope", "hooks")

    assert (alone.code, "hooks goes with read" in alone.err) == (2, True)
    assert collections.keys.find_one({}) is None
    assert run("key", "add", "main", "--scope", "hooks,read").code == 0


def test_an_account_is_suspended_with_a_reason_until_it_is_resumed(
    run: Run, collections: Any
) -> None:
    run("account", "add", "shop")

    done = run("account", "suspend", "shop", "--reason", "unpaid")
    listed, kept = run("account", "list"), collections.accounts.find_one({"_id": "shop"})
    resumed, again = run("account", "resume", "shop"), run("account", "resume", "shop")

    assert done.lines == [
        "shop is suspended: doors refuse its keys within 5 s, and 0 services pause"
    ]
    assert "unpaid" in listed.out
    assert kept["suspended"]["why"] == "unpaid"
    assert (resumed.lines, again.code) == (["shop goes on, with 0 services"], 2)
    assert [each["act"] for each in collections.audit.find().sort("at")] == [
        *("account add", "account suspend", "account resume", "account resume")
    ]
    assert run("account", "suspend", "nope").code == 2


def test_a_key_has_192_random_bits(run: Run) -> None:
    [one], [other] = (run("key", "add", "main", "--scope", "read").lines for _ in "12")

    assert one[:3] == other[:3] == "tk_"
    assert len(one) == 64
    assert len(set(one[16:]) | set(other[16:])) > 8
    assert one[16:] != other[16:]


def test_an_account_is_not_added_while_an_index_lets_only_one_have_a_parcel(
    run: Run, collections: Any
) -> None:
    alone = collections.tracking.create_index(["slug", "tracking_number"], unique=True)
    collections.tracking.create_index(["slug", "tracking_number", "account"], unique=True)

    refused = run("account", "add", "shop")
    assert (refused.code, f"unique index {alone}" in refused.err) == (2, True)
    assert collections.accounts.find_one({}) is None

    collections.tracking.drop_index(alone)
    assert run("account", "add", "shop").code == 0


@pytest.mark.parametrize("account", ["main", "shop"])
def test_alerts_of_an_account_go_where_it_says(run: Run, collections: Any, account: str) -> None:
    run("account", "add", "shop")

    done = run("account", "set", account, "alerts=orders@shop.example")

    assert (done.code, "go to orders@shop.example" in done.out) == (0, True)
    assert collections.accounts.find_one({"_id": account})["alerts"] == "orders@shop.example"
    assert "orders@shop.example" in run("account", "list").out
    assert run("account", "set", account, "alerts=none").code == 0
    assert collections.accounts.find_one({"_id": account})["alerts"] == ""


def test_a_test_mail_needs_a_server_that_takes_mails(run: Run) -> None:
    done = run("account", "test-mail", "main")

    assert (done.code, "[mail] host names no server" in done.err) == (2, True)


def test_alerts_go_to_a_mailbox_of_an_account_that_is_there(run: Run) -> None:
    wrong = run("account", "set", "main", "alerts=Shop <orders@shop.example>")
    nobody = run("account", "set", "nope", "alerts=orders@shop.example")
    unclear = run("account", "set", "main", "mail=orders@shop.example")

    assert (wrong.code, "no address of a mailbox" in wrong.err) == (2, True)
    assert (nobody.code, "there is no account nope" in nobody.err) == (2, True)
    assert (unclear.code, "write alerts=ADDRESS" in unclear.err) == (2, True)


def test_an_account_is_added_before_its_keys_and_its_name_is_given_once(
    run: Run, collections: Any
) -> None:
    nobody = run("key", "add", "shop", "--scope", "ingest")
    assert (nobody.code, "account add shop" in nobody.err) == (2, True)
    assert run("account", "add", "shop").code == 0
    assert "already" in run("account", "add", "shop").err
    [key] = run("key", "add", "shop", "--scope", "ingest").lines
    said = {"account": "shop", "deleted": False, "words": {"title": "J. Doe"}}
    collections.shipments.insert_many([said, said | {"account": "other"}])
    collections.links.insert_many([{"account": "shop"}, {"account": "other"}])

    [removed] = run("account", "remove", "shop", "--yes", "--json").json

    assert removed == {"account": "shop", "keys_ended": 1, "services_ended": 0}
    assert [each["words"] for each in collections.shipments.find(sort=["account"])] == [
        {"title": "J. Doe"},
        {},
    ]
    assert [each["account"] for each in collections.links.find()] == ["other"]
    [listed] = run("key", "list", "shop", "--json").json
    assert listed["ends_at"]
    assert "not given again" in run("account", "add", "shop").err
    assert run("key", "add", "shop", "--scope", "ingest").code == 2
    assert "has ended" in run("key", "rotate", key).err


def test_main_is_always_there(run: Run) -> None:
    assert [each["account"] for each in run("account", "list", "--json").json] == ["main"]
    assert "stays" in run("account", "remove", "main", "--yes").err
    assert "main" in run("account", "list").out


def test_of_an_account_that_cannot_be_removed_nobody_is_asked(run: Run, collections: Any) -> None:
    run("account", "add", "shop")
    asked = run("account", "remove", "shop", stdin="n\n", at_terminal=True)
    run("account", "remove", "shop", "--yes")

    refused = {
        name: run("account", "remove", name, stdin="y\n", at_terminal=True)
        for name in ("nope", "shop", "main")
    }

    assert (asked.code, "Remove the account shop" in asked.err) == (1, True)
    assert {each.code for each in refused.values()} == {2}
    assert not [each.err for each in refused.values() if "[y/N]" in each.err]
    assert "there is no account nope: `account list` shows them" in refused["nope"].err
    assert "there is no account shop" in refused["shop"].err
    assert "stays" in refused["main"].err
    recorded = [
        each["target"]["account"]
        for each in collections.audit.find({"outcome.error": {"$exists": True}})
    ]
    assert recorded == ["nope", "shop", "main"]


def test_a_rotated_key_works_on_for_a_while_and_a_revoked_one_does_not(run: Run) -> None:
    [old] = run("key", "add", "main", "--scope", "ingest,read").lines

    [new] = run("key", "rotate", old[:15], "--keep", "1h", "--json").json
    first, second = run("key", "list", "main", "--json").json

    assert (first["key"], second["key"]) == (old[:15], new["prefix"])
    assert (first["ends_at"] is None, second["ends_at"]) == (False, None)
    assert second["scopes"] == ["ingest", "read"]
    assert run("key", "revoke", old).code == 0
    assert "has ended" in run("key", "revoke", old).err
    assert "there is no key" in run("key", "revoke", "tk_000000000000").err


def test_what_seals_proofs_is_no_key_that_somebody_could_rotate(run: Run, collections: Any) -> None:
    collections.keys.insert_one({"_id": "proof", "key": b"sealed"})

    for verb in ("rotate", "revoke"):
        assert "there is no key proof" in run("key", verb, "proof").err


def test_a_key_may_demand_signatures_and_its_successor_does_too(run: Run, collections: Any) -> None:
    key, secret = run("key", "add", "main", "--scope", "read", "--signature", "hmac").lines
    [new] = run("key", "rotate", key, "--json").json

    assert (key[:3], secret[:3], new["secret"][:3]) == ("tk_", "ts_", "ts_")
    assert new["secret"] != secret
    assert [each["signing"] for each in collections.keys.find(sort=["made_at"])] == [
        {"kind": "hmac", "secret": secret},
        {"kind": "hmac", "secret": new["secret"]},
    ]
    listed = run("key", "list", "--json")
    assert [each["signature"] for each in listed.json] == ["hmac", "hmac"]
    told = listed.out + run("key", "list").out + str(list(collections.audit.find()))
    assert "ts_" not in told


def test_a_key_may_demand_signatures_of_a_key_pair(
    run: Run, collections: Any, tmp_path: Path
) -> None:
    file = tmp_path / "public.pem"
    file.write_text(PUBLIC_KEY)
    signed = ("--signature", "rsa", "--public-key", str(file))
    [key] = run("key", "add", "main", "--scope", "read", *signed).lines
    [new] = run("key", "rotate", key).lines

    kept = {each["_id"]: each["signing"] for each in collections.keys.find()}
    same = {"kind": "rsa", "public_key": PUBLIC_KEY}
    assert kept == {key[:15]: same, new[:15]: same}
    assert run("key", "list").out.count("rsa") == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--signature", "rsa"], "go together"),
        (["--public-key", "x"], "go together"),
        (["--signature", "hmac", "--public-key", "x"], "go together"),
        (["--signature", "rsa", "--public-key", "/nowhere"], "/nowhere cannot be read (No such"),
        (["--signature", "rsa", "--public-key", "/dev/null"], "no public key in PEM; `openssl rsa"),
        (["--signature", "aes"], "hmac"),
    ],
)
def test_what_no_signature_can_be_checked_with_is_refused(
    run: Run, options: list[str], says: str
) -> None:
    done = run("key", "add", "main", "--scope", "read", *options)

    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize("name", ["", "Shop", "my-shop", "x" * 21, "a/b", "ä"])
def test_a_name_that_no_host_may_have_is_refused(offline: Run, name: str) -> None:
    done = offline("account", "add", name)

    assert done.code == 2
    assert "1 to 20 of a-z and 0-9" in done.err


def test_operators_keys_are_of_main_alone(run: Run, collections: Any) -> None:
    run("account", "add", "shop")

    for scopes in ("admin", "read,admin"):
        done = run("key", "add", "shop", "--scope", scopes)
        assert (done.code, "admin is for keys of main" in done.err) == (2, True)

    assert collections.keys.count_documents({}) == 0
    assert run("key", "add", "main", "--scope", "admin").code == 0


def test_an_unknown_scope_is_refused(offline: Run) -> None:
    done = offline("key", "add", "main", "--scope", "ingest,write")

    assert done.code == 2
    assert "ingest, read, hooks, admin" in done.err


def test_while_mongodb_is_away_nothing_is_promised(offline: Run) -> None:
    assert offline("key", "add", "main", "--scope", "ingest").code == 3


def test_each_act_is_recorded_with_what_came_of_it_and_no_key_stands_there(
    run: Run, collections: Any
) -> None:
    run("account", "add", "shop")
    [key] = run("key", "add", "shop", "--scope", "read").lines
    run("key", "revoke", key)
    run("key", "revoke", key)
    run("key", "list")

    acts = list(collections.audit.find())

    assert [(each["act"], each["target"], each["outcome"]) for each in acts] == [
        ("account add", {"account": "shop"}, {}),
        ("key add", {"account": "shop", "scopes": ["read"]}, {"key": key[:15]}),
        ("key revoke", {"key": key[:15]}, {}),
        ("key revoke", {"key": key[:15]}, {"error": f"the key {key[:15]} has ended"}),
    ]
    assert {(each["account"], each["key"]) for each in acts} == {("main", None)}
    assert key not in str(acts)


def test_an_act_is_recorded_before_it_is_done(run: Run, collections: Any) -> None:
    collections.create_collection("audit", validator={"act": "nothing"})

    assert run("account", "add", "shop").code == 3

    assert collections.accounts.find_one({"_id": "shop"}) is None
