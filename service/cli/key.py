"""`key`: API keys. A new one stands alone on standard output, so that it can be piped.

Where requests with it are signed with a secret, that is the second line.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path

from service.cli.account import act
from service.cli.exit_codes import Exit, UsageError
from service.cli.output import moment, say, say_json, span, table
from service.client.accounts import MadeKey, add_key, keys, revoke_key, rotate_key
from service.client.connections import Collections
from service.client.keys import PREFIX_CHARACTERS, Scope
from service.client.signatures import (
    HmacSecret,
    NoPublicKey,
    Signing,
    make_secret,
    read_public_key,
)
from tracking.account import MAIN


def run(options: argparse.Namespace) -> int:
    """Do what the action says."""
    return act(_ACTIONS[options.action], options)


def _add(stores: Collections, options: argparse.Namespace) -> int:
    made = add_key(stores, options.account, tuple(map(Scope, options.scope)), _signing_of(options))
    return _show(made, f"a key of {options.account}, good for {', '.join(options.scope)}", options)


def _list(stores: Collections, options: argparse.Namespace) -> int:
    found = keys(stores, options.account)
    if options.json:
        for each in found:
            said = {"key": each.prefix, "account": each.account, "scopes": each.scopes}
            signed = {"signature": each.signature}
            say_json(said | signed | {"made_at": each.made_at, "ends_at": each.ends_at})
        return Exit.DONE
    if not found:
        none = f"{options.account} has no keys" if options.account else "there are no keys"
        whose = options.account or MAIN
        say(f"{none}; `python worker.py key add {whose} --scope ingest` makes one")
        return Exit.DONE
    now = dt.datetime.now(dt.UTC)
    table(
        ("key", "account", "good for", "signed", "made", "ends"),
        [
            (
                f"{each.prefix}…",
                each.account,
                ",".join(each.scopes),
                each.signature or "",
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


def _signing_of(options: argparse.Namespace) -> Signing | None:
    """Read what requests must be signed with. Raises UsageError."""
    file = options.public_key
    if (options.signature == "rsa") != bool(file):
        raise UsageError("--signature rsa and --public-key FILE go together")
    if options.signature == "hmac":
        return make_secret()
    try:
        return read_public_key(Path(file).read_bytes()) if file else None
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror})") from error
    except NoPublicKey as error:
        raise UsageError(
            f"{file}: {error}; `openssl rsa -in PRIVATE -pubout` writes one"
        ) from error


def _show(made: MadeKey, what: str, options: argparse.Namespace) -> int:
    secret = made.signing.secret if isinstance(made.signing, HmacSecret) else None
    if options.json:
        said = {"key": made.text, "prefix": made.text[:PREFIX_CHARACTERS]}
        say_json(said | ({"secret": secret} if secret else {}))
        return Exit.DONE
    how = ", and the secret to sign with" if secret else ""
    sys.stderr.write(f"worker.py: {what}{how}; it is shown this once\n")
    for each in filter(None, (made.text, secret)):
        say(each)
    return Exit.DONE


_ACTIONS = {"add": _add, "list": _list, "revoke": _revoke, "rotate": _rotate}
