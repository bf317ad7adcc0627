"""`user`, against a real MongoDB."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import Run

EMAIL = "anna@acme.example"


def test_the_link_for_the_first_owner_stands_alone_on_standard_output(
    run: Run, collections: Any
) -> None:
    done = run("user", "add", "--first")

    [link] = done.lines
    assert (done.code, "30 minutes" in done.err) == (0, True)
    start, _, token = link.rpartition("/")
    assert start == "http://127.0.0.1:8080/welcome"
    [kept] = collections.invitations.find()
    assert (kept["_id"], kept["role"]) == ("first:main:", "owner")
    assert token not in str(kept)


def test_a_user_is_added_and_chooses_the_password_by_a_link(run: Run, collections: Any) -> None:
    done = run("user", "add", "Anna@Acme.example", "--role", "owner", "--json")

    assert done.json[0]["link"].startswith("http://127.0.0.1:8080/welcome/")
    [kept] = collections.users.find()
    assert (kept["_id"], kept["account"], kept["role"]) == (EMAIL, "main", "owner")
    assert kept["password"] is None
    assert run("user", "add", "--first").code == 2
    again = run("user", "add", EMAIL)
    assert (again.code, f"there is a user {EMAIL} already" in again.err) == (2, True)


def test_users_are_listed_for_people_and_for_machines(run: Run) -> None:
    none = run("user", "list")
    run("account", "add", "acme")
    run("user", "add", EMAIL, "--account", "acme", "--role", "member")

    assert "user add --first" in none.out
    assert EMAIL in run("user", "list").out
    [listed] = run("user", "list", "acme", "--json").json
    assert (listed["email"], listed["account"], listed["role"]) == (EMAIL, "acme", "member")
    assert run("user", "list", "main", "--json").out == ""


def test_roles_sessions_passwords_and_users_are_changed(run: Run, collections: Any) -> None:
    for email in ("op@tracker.example", EMAIL):
        run("user", "add", email, "--role", "owner")
    before = collections.users.find_one({"_id": EMAIL})["stamp"]

    assert run("user", "sign-out", EMAIL).code == 0
    assert collections.users.find_one({"_id": EMAIL})["stamp"] != before
    assert run("user", "role", EMAIL, "viewer", "--json").json == [
        {"email": EMAIL, "role": "viewer"}
    ]
    assert "/welcome/" in run("user", "password-link", EMAIL).out
    refused = run("user", "remove", EMAIL)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert run("user", "remove", EMAIL, "--yes").code == 0
    assert run("user", "password-link", EMAIL).code == 2
    acts = [each["act"] for each in collections.audit.find() if each["via"] == "cli"]
    assert acts[-5:] == [
        *("user sign-out", "user role", "user password-link", "user remove", "user password-link"),
    ]


def test_an_invitation_is_printed_or_mailed(
    run: Run, collections: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = run("user", "invite", EMAIL)
    without = run("user", "invite", EMAIL, "--mail")
    monkeypatch.setenv("TRACKER_MAIL__HOST", "127.0.0.1")
    monkeypatch.setenv("TRACKER_MAIL__SENDER", "tracker@tracker.example")
    mailed = run("user", "invite", EMAIL, "--mail")

    assert "/welcome/" in printed.out
    assert (without.code, "mail.host" in without.err) == (2, True)
    assert (mailed.code, "/welcome/" in mailed.out) == (0, False)
    [mail] = collections.mails.find()
    assert mail["to"] == EMAIL
    assert "/welcome/" in mail["text"]


@pytest.mark.parametrize(
    "words", [("add",), ("add", EMAIL, "--first"), ("add", "anna"), ("role", EMAIL, "king")]
)
def test_what_cannot_be_meant_is_a_mistake_in_the_command(run: Run, words: tuple[str, ...]) -> None:
    assert run("user", *words).code == 2


def test_the_help_shows_examples(run: Run) -> None:
    assert "user invite ben@example.com --role member --mail" in run("user", "invite", "-h").out
