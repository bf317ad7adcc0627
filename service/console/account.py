"""`account` and `key`: accounts, and the API keys that belong to them.

A new key stands alone on standard output, so that it can be piped. Where requests with it are
signed with a secret, that is the second line.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path

from service import PROGRAM
from service.config import schema
from service.console import settings
from service.console.arguments import (
    Exit,
    Options,
    Parser,
    UsageError,
    account_of,
    add_actions,
    add_json,
    add_yes,
    lasting,
)
from service.console.output import agreed, moment, note, say, say_json, span, table, tell
from service.operator import (
    accounts,
    audit,
    connections,
    keys,
    quotas,
    services,
    signatures,
    suspension,
)
from tracking.request import MAIN

SCOPES = ("ingest", "read", "hooks", "admin")


def account_arguments(parser: Parser) -> None:
    """Add the actions of `account`."""
    removed = "Remove an account, end its keys and services; its name is not given again."
    actions = {
        "add": ("Add an account.", _add_account),
        "list": ("List all accounts.", _list_accounts),
        "remove": (removed, _remove_account),
        "suspend": ("Refuse an account's keys and hold its deliveries, until resume.", _suspend),
        "resume": ("Serve a suspended account again.", _resume),
        "set": (
            "Set where alerts go, how long relayed requests are kept, or quotas.",
            _set_account,
        ),
        "test-mail": ("Send a mail to where alerts go; says what the server answered.", _test_mail),
    }
    for action, each in add_actions(parser, actions, settings.on_stores).items():
        if action != "list":
            text = "1 to 20 of a-z 0-9"
            each.add_argument("name", type=account_of, metavar="NAME", help=text)
        if action == "remove":
            add_yes(each)
        if action == "suspend":
            text = "why, as refusals of its keys say it"
            each.add_argument("--reason", default="", metavar="TEXT", help=text)
        if action == "set":
            text = (
                "alerts=ADDRESS, the mailbox that hears of its webhooks' trouble, alerts=none for "
                "nobody; or inbox_keep_days=DAYS, 1 to 90 after their end, inbox_keep_days=none as "
                "the settings say; or a quota, NUMBER or none: calls_a_day=, to couriers on a UTC "
                "day; parcels=, that are followed; requests_a_minute=, with its keys"
            )
            each.add_argument("setting", metavar="NAME=VALUE", help=text)
        add_json(each)


def key_arguments(parser: Parser) -> None:
    """Add the actions of `key`."""
    listed = "List keys, by their first characters, with those that have ended."
    actions = {
        "add": ("Make a key and show it, this once.", _add_key),
        "list": (listed, _list_keys),
        "revoke": ("End a key now; doors notice within 5 seconds.", _revoke_key),
        "rotate": ("Make a key like another one, which works on for a while.", _rotate_key),
    }
    for action, each in add_actions(parser, actions, settings.on_stores).items():
        if action in {"add", "list"}:
            account = each.add_argument("account", type=account_of, metavar="ACCOUNT")
            account.help = "whose; main is always there"
            account.nargs = "?" if action == "list" else None
        else:
            each.add_argument("key", metavar="KEY", help="its first 15 characters, or all of it")
        if action == "add":
            _add_what_it_is(each)
        if action == "rotate":
            each.add_argument(
                "--keep",
                type=lasting,
                default=86_400.0,
                metavar="DURATION",
                help="how long the old key works on, like 90s, 15m, 2h or 3d; default: 1d",
            )
        add_json(each)


def _add_what_it_is(parser: Parser) -> None:
    text = "what it is good for: ingest, read, hooks, admin; several with commas"
    parser.add_argument("--scope", type=scopes_of, required=True, metavar="SCOPES", help=text)
    parser.add_argument(
        "--signature",
        choices=("hmac", "rsa"),
        help="refuse requests with it that are not signed as AfterShip's SDKs sign: with a "
        "secret that is shown this once, too (hmac), or a private key of theirs (rsa)",
    )
    parser.add_argument("--public-key", metavar="FILE", help="for rsa: the public key, in PEM")
    text = "how long it works, like 12h or 90d; default: until it is revoked"
    parser.add_argument("--ends", type=lasting, metavar="DURATION", help=text)
    text = "requests a second with it, in each process; default: [http] per_second"
    parser.add_argument("--per-second", type=float, metavar="NUMBER", help=text)


def scopes_of(text: str) -> tuple[str, ...]:
    """Read scopes, each once, in their usual order."""
    named = {each.strip() for each in text.split(",")}
    if wrong := named - set(SCOPES):
        words = ", ".join(map(repr, sorted(wrong)))
        raise argparse.ArgumentTypeError(f"{words}: a scope is one of {', '.join(SCOPES)}")
    return tuple(each for each in SCOPES if each in named)


def _add_account(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    accounts.add_account(stores, options.name)
    words = f"{options.name} is added; `{PROGRAM} key add {options.name} --scope ingest`"
    return tell({"account": options.name}, words, as_json=options.json)


def _list_accounts(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    found = accounts.accounts(stores)
    uses = quotas.quotas_of(config, stores, [each.name for each in found])
    if options.json:
        for each in found:
            members = {"account": each.name, "keys": each.keys, "alerts": each.alerts or None}
            members |= {"inbox_keep_days": each.inbox_keep_days}
            members |= {"quotas": {name: use._asdict() for name, use in uses[each.name].items()}}
            members |= {"suspended": each.suspended_why}
            say_json(members | {"made_at": each.made_at, "removed_at": each.removed_at})
        return Exit.DONE
    table(
        ("account", "keys that work", "added", "removed", "suspended", "alerts", "quotas"),
        [
            (
                each.name,
                each.keys,
                moment(each.made_at),
                moment(each.removed_at),
                "-" if each.suspended_why is None else each.suspended_why or "yes",
                each.alerts,
                ", ".join(quota_words(uses[each.name])),
            )
            for each in found
        ],
    )
    return Exit.DONE


def quota_words(uses: quotas.Uses) -> Iterator[str]:
    """Word each quota that is set, like `calls_a_day 12 of 1,000`."""
    for name, (allowed, used, _) in uses.items():
        if allowed is not None:
            yield f"{name} {allowed:,}" if used is None else f"{name} {used:,} of {allowed:,}"


def setting_of(text: str) -> tuple[str, str]:
    """Read `alerts=ADDRESS`, or a number under a name; "" for none. Raises UsageError."""
    name, _, value = text.partition("=")
    is_number = _NUMBER.fullmatch(value) is not None
    known = ("inbox_keep_days", *map(str, quotas.Quota))
    if not (name in known and is_number) and not (name == "alerts" and value):
        numbers = ", ".join(f"{each}=NUMBER" for each in known)
        why = f"write alerts=ADDRESS, or alerts=none, or one of {numbers}"
        raise UsageError(f"{text!r}: {why}")
    return name, "" if value == "none" else value


_NUMBER = re.compile("none|[0-9]{1,10}")


def _set_account(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    name, value = setting_of(options.setting)
    if name == "alerts":
        accounts.set_alerts(stores, audit.Operator(), options.name, value)
        where = f"go to {value}" if value else "go to nobody by mail"
        words = f"alerts about the webhooks of {options.name} {where}"
        told: object = value or None
    elif name in {*quotas.Quota}:
        told = most = int(value) if value else None
        wish = {quotas.Quota(name): most}
        quotas.set_quotas(config, stores, audit.Operator(), options.name, wish)
        words = f"{name} of {options.name}: {'any number' if most is None else f'{most:,}'}"
    else:
        told = days = int(value) if value else None
        accounts.set_inbox_keep_days(stores, audit.Operator(), options.name, days)
        kept = f"for {days} days" if days else "as long as [webhooks] inbox_keep_days says"
        words = f"relayed requests of {options.name} are kept {kept} after their end"
    return tell({"account": options.name, name: told}, words, as_json=options.json)


def _test_mail(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    answer = accounts.send_test_mail(config, stores, audit.Operator(), options.name)
    words = f"the mail is sent; {config.mail.host} answered: {answer}"
    return tell({"account": options.name, "answer": answer}, words, as_json=options.json)


def _remove_account(
    options: Options, config: schema.Config, stores: connections.Collections
) -> int:
    name, is_there = options.name, accounts.may_be_removed(stores, options.name)
    question = f"Remove the account {name} for ever, and end its keys and services?"
    if is_there and not agreed(question, yes=options.yes):
        return Exit.NEGATIVE
    # First, so that all is repeated where this fails; then those that somebody made meanwhile.
    who, of = audit.Operator(), services.Services(config, stores)
    gone = of.end(who, name) if is_there else 0
    ended = accounts.remove_account(stores, name)
    gone += of.end(who, name)
    words = f"{name} is removed; {ended} keys end, which doors notice within 5 s"
    words += f", and {gone} services" if gone else ""
    members = {"account": name, "keys_ended": ended, "services_ended": gone}
    return tell(members, words, as_json=options.json)


def _suspend(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    of, name = services.Services(config, stores), options.name
    paused = suspension.suspend(of, audit.Operator(), name, options.reason)
    words = f"{name} is suspended: doors refuse its keys within 5 s, and {paused} services pause"
    return tell({"account": name, "services_paused": paused}, words, as_json=options.json)


def _resume(options: Options, config: schema.Config, stores: connections.Collections) -> int:
    of, name = services.Services(config, stores), options.name
    going = suspension.resume(of, audit.Operator(), name)
    words = f"{name} goes on, with {going} services"
    return tell({"account": name, "services_resumed": going}, words, as_json=options.json)


def _add_key(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    scopes = tuple(map(keys.Scope, options.scope))
    terms = accounts.Terms(_signing_of(options), options.ends, options.per_second)
    made = accounts.add_key(stores, audit.Operator(), options.account, scopes, terms)
    what = f"a key of {options.account}, good for {', '.join(options.scope)}"
    what += "" if options.ends is None else f", for {span(options.ends)}"
    return _show(made, what, options)


def _list_keys(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    found = accounts.keys(stores, options.account)
    if options.json:
        for each in found:
            members = {"key": each.prefix, "account": each.account, "scopes": each.scopes}
            signed = {"signature": each.signature, "per_second": each.per_second}
            say_json(members | signed | {"made_at": each.made_at, "ends_at": each.ends_at})
        return Exit.DONE
    if not found:
        none = f"{options.account} has no keys" if options.account else "there are no keys"
        account = options.account or MAIN
        say(f"{none}; `{PROGRAM} key add {account} --scope ingest` makes one")
        return Exit.DONE
    now = dt.datetime.now(dt.UTC)
    table(
        ("key", "account", "good for", "signed", "a second", "made", "ends"),
        [
            (
                f"{each.prefix}…",
                each.account,
                ",".join(each.scopes),
                each.signature or "",
                "" if each.per_second is None else f"{each.per_second:g}",
                moment(each.made_at),
                "ended " * bool(each.ends_at and each.ends_at <= now) + moment(each.ends_at),
            )
            for each in found
        ],
    )
    return Exit.DONE


def _revoke_key(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    prefix = options.key[: keys.PREFIX_CHARACTERS]
    accounts.revoke_key(stores, audit.Operator(), prefix)
    words = f"{prefix}… has ended; doors notice within 5 s, while MongoDB answers them"
    return tell({"key": prefix, "revoked": True}, words, as_json=options.json)


def _rotate_key(options: Options, _: schema.Config, stores: connections.Collections) -> int:
    prefix = options.key[: keys.PREFIX_CHARACTERS]
    made = accounts.rotate_key(stores, audit.Operator(), prefix, options.keep)
    return _show(made, f"the successor of {prefix}…, which ends in {span(options.keep)}", options)


def _signing_of(options: Options) -> signatures.Signing | None:
    """Read what requests must be signed with. Raises UsageError."""
    file = options.public_key
    if (options.signature == "rsa") != bool(file):
        raise UsageError("--signature rsa and --public-key FILE go together")
    if options.signature == "hmac":
        return signatures.make_secret()
    try:
        return signatures.read_public_key(Path(file).read_bytes()) if file else None
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror})") from error
    except signatures.NoPublicKey as error:
        raise UsageError(
            f"{file}: {error}; `openssl rsa -in PRIVATE -pubout` writes one"
        ) from error


def _show(made: accounts.MadeKey, what: str, options: Options) -> int:
    secret = made.signing.secret if isinstance(made.signing, signatures.HmacSecret) else None
    if options.json:
        members = {"key": made.text, "prefix": made.text[: keys.PREFIX_CHARACTERS]}
        say_json(members | ({"secret": secret} if secret else {}))
        return Exit.DONE
    how = ", and the secret to sign with" if secret else ""
    note(f"{what}{how}; it is shown this once")
    for each in filter(None, (made.text, secret)):
        say(each)
    return Exit.DONE
