"""`key`: API keys. A new one stands alone on standard output, so that it can be piped."""

from __future__ import annotations

import argparse
import datetime as dt
import sys

from service.cli.account import act
from service.cli.exit_codes import Exit
from service.cli.output import moment, say, say_json, span, table
from service.client.accounts import add_key, keys, revoke_key, rotate_key
from service.client.connections import Collections
from service.client.keys import PREFIX_CHARACTERS, Scope


def run(options: argparse.Namespace) -> int:
    """Do what the action says."""
    return act(_ACTIONS[options.action], options)


def _add(stores: Collections, options: argparse.Namespace) -> int:
    made = add_key(stores, options.account, tuple(map(Scope, options.scope)))
    return _show(made, f"a key of {options.account}, good for {', '.join(options.scope)}", options)


def _list(stores: Collections, options: argparse.Namespace) -> int:
    found = keys(stores, options.account)
    if options.json:
        for each in found:
            said = {"key": each.prefix, "account": each.account, "scopes": each.scopes}
            say_json(said | {"made_at": each.made_at, "ends_at": each.ends_at})
        return Exit.DONE
    now = dt.datetime.now(dt.UTC)
    table(
        ("key", "account", "good for", "made", "ends"),
        [
            (
                f"{each.prefix}…",
                each.account,
                ",".join(each.scopes),
                moment(each.made_at),
                "ended " * bool(each.ends_at and each.ends_at <= now) + moment(each.ends_at),
            )
            for each in found
        ],
    )
    return Exit.DONE


def _revoke(stores: Collections, options: argparse.Namespace) -> int:
    prefix = options.key[:PREFIX_CHARACTERS]
    revoke_key(stores, prefix)
    if options.json:
        say_json({"key": prefix, "revoked": True})
    else:
        say(f"{prefix}… has ended; doors notice within 5 s, while MongoDB answers them")
    return Exit.DONE


def _rotate(stores: Collections, options: argparse.Namespace) -> int:
    prefix = options.key[:PREFIX_CHARACTERS]
    made = rotate_key(stores, prefix, options.keep)
    return _show(made, f"the successor of {prefix}…, which ends in {span(options.keep)}", options)


def _show(made: str, what: str, options: argparse.Namespace) -> int:
    if options.json:
        say_json({"key": made, "prefix": made[:PREFIX_CHARACTERS]})
    else:
        sys.stderr.write(f"worker.py: {what}; it is shown this once\n")
        say(made)
    return Exit.DONE


_ACTIONS = {"add": _add, "list": _list, "revoke": _revoke, "rotate": _rotate}
