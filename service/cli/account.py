"""`account`: who has API keys."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from service.cli.exit_codes import Exit, UsageError
from service.cli.output import agreed, moment, say, say_json, table
from service.cli.settings import loaded
from service.client.accounts import (
    NotDone,
    accounts,
    add_account,
    may_be_removed,
    remove_account,
)
from service.client.connections import Collections, collections_of

Action = Callable[[Collections, argparse.Namespace], int]


def run(options: argparse.Namespace) -> int:
    """Do what the action says."""
    return act(_ACTIONS[options.action], options)


def act(action: Action, options: argparse.Namespace) -> int:
    """Do one action on the collections of MongoDB; what it refuses is a mistake in the command."""
    config = loaded(options).config
    try:
        with collections_of(config) as stores:
            return action(stores, options)
    except NotDone as error:
        raise UsageError(str(error)) from error


def _add(stores: Collections, options: argparse.Namespace) -> int:
    add_account(stores, options.name)
    if options.json:
        say_json({"account": options.name})
    else:
        say(f"{options.name} is added; `python worker.py key add {options.name} --scope ingest`")
    return Exit.DONE


def _list(stores: Collections, options: argparse.Namespace) -> int:
    found = accounts(stores)
    if options.json:
        for each in found:
            said = {"account": each.name, "keys": each.keys}
            say_json(said | {"made_at": each.made_at, "removed_at": each.removed_at})
        return Exit.DONE
    table(
        ("account", "keys that work", "added", "removed"),
        [(each.name, each.keys, moment(each.made_at), moment(each.removed_at)) for each in found],
    )
    return Exit.DONE


def _remove(stores: Collections, options: argparse.Namespace) -> int:
    question = f"Remove the account {options.name} for ever, and end its keys?"
    if may_be_removed(stores, options.name) and not agreed(question, yes=options.yes):
        return Exit.NEGATIVE
    ended = remove_account(stores, options.name)
    if options.json:
        say_json({"account": options.name, "keys_ended": ended})
    else:
        say(f"{options.name} is removed; {ended} keys end, which doors notice within 5 s")
    return Exit.DONE


_ACTIONS = {"add": _add, "list": _list, "remove": _remove}
