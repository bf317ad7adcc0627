"""The arguments of `account` and `key`. Imports nothing of weight, so that `--help` is instant."""

from __future__ import annotations

import argparse

from service.cli.arguments import Verbs, a_verb, offer_json
from service.cli.pausing import lasting
from tracking.account import Account, parse_account

SCOPES = ("ingest", "read", "admin")


def offer_accounts(verbs: Verbs) -> None:
    """Add both verbs."""
    made = a_verb(verbs, "account", "Add, list or remove accounts, to which API keys belong.")
    actions = made.add_subparsers(title="actions", metavar="ACTION", required=True)
    for action, text in {
        "add": "Add an account.",
        "list": "List all accounts.",
        "remove": "Remove an account and end its keys; its name is not given again.",
    }.items():
        each = a_verb(actions, action, text, module="account")
        each.set_defaults(action=action)
        if action != "list":
            each.add_argument("name", type=account_of, metavar="NAME", help="1 to 20 of a-z 0-9")
        if action == "remove":
            each.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        offer_json(each)
    _keys(verbs)


def _keys(verbs: Verbs) -> None:
    made = a_verb(verbs, "key", "Add, list, revoke or rotate the API keys of accounts.")
    actions = made.add_subparsers(title="actions", metavar="ACTION", required=True)
    for action, text in {
        "add": "Make a key and show it, this once.",
        "list": "List keys, by their first characters, with those that have ended.",
        "revoke": "End a key now; doors notice within 5 seconds.",
        "rotate": "Make a key like another one, which works on for a while.",
    }.items():
        each = a_verb(actions, action, text, module="key")
        each.set_defaults(action=action)
        if action in {"add", "list"}:
            whose = each.add_argument("account", type=account_of, metavar="ACCOUNT")
            whose.help = "whose; main is always there"
            whose.nargs = "?" if action == "list" else None
        else:
            each.add_argument("key", metavar="KEY", help="its first 15 characters, or all of it")
        if action == "add":
            _what_it_is(each)
        if action == "rotate":
            each.add_argument(
                "--keep",
                type=lasting,
                default=86_400.0,
                metavar="DURATION",
                help="how long the old key works on, like 90s, 15m, 2h or 3d; default: 1d",
            )
        offer_json(each)


def _what_it_is(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--scope",
        type=scopes_of,
        required=True,
        metavar="SCOPES",
        help="what it is good for: ingest, read, admin; several with commas",
    )
    made.add_argument(
        "--signature",
        choices=("hmac", "rsa"),
        help="refuse requests with it that are not signed as AfterShip's SDKs sign: with a "
        "secret that is shown this once, too (hmac), or a private key of theirs (rsa)",
    )
    made.add_argument("--public-key", metavar="FILE", help="for rsa: the public key, in PEM")


def account_of(text: str) -> Account:
    """Read the name of an account."""
    try:
        return parse_account(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def scopes_of(text: str) -> tuple[str, ...]:
    """Read scopes, each once, in their usual order."""
    named = {each.strip() for each in text.split(",")}
    if wrong := named - set(SCOPES):
        told = ", ".join(map(repr, sorted(wrong)))
        raise argparse.ArgumentTypeError(f"{told}: a scope is one of {', '.join(SCOPES)}")
    return tuple(each for each in SCOPES if each in named)
