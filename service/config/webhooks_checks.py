"""Checks of `[webhooks]`: its keys, its own names, and what accounts are allowed.

What keys mean is for the box that they open (service/worker/deliveries/secret_box.py); here it is
their form, so that a wrong one stops a start as every other setting does.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterator

from service import PROGRAM
from service.config.paths import Path
from service.config.problems import Finding, shown
from service.config.schema import Allowed, Config
from tracking.request import parse_account

KEY_BYTES = 32
_KEY = re.compile(r"([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/=]+)")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_KEYS: Path = ("webhooks", "keys")
_MAKE_KEY = f"`{PROGRAM} service key` prints a new one."


def webhooks_findings(config: Config) -> Iterator[Finding]:
    """Tell everything that is wrong in `[webhooks]` although its type is right."""
    yield from _keys(config.webhooks.keys)
    for name in config.webhooks.own_names:
        if not _HOST.fullmatch(name):
            fix = "Write it in lower case, without a scheme, a port and a path."
            yield Finding(("webhooks", "own_names"), shown(name), "the name of a host", fix)
    for account, allowed in config.webhooks.allowed.items():
        yield from _allowed(("webhooks", "allowed", account), account, allowed)


def _keys(text: str) -> Iterator[Finding]:
    names = list[str]()
    for position, word in enumerate(text.split(), start=1):
        found = key_in(word)
        if found is None:
            what, wanted = f"key {position} in another form", f"ID:BASE64 of {KEY_BYTES} bytes"
            yield Finding(_KEYS, what, wanted, f"Write each key as it was made: {_MAKE_KEY}")
        elif found[0] in names:
            fix = "Give the newer one another name before the colon."
            yield Finding(_KEYS, "two keys of one name", "a name for each key", fix)
        else:
            names.append(found[0])


def key_in(word: str) -> tuple[str, bytes] | None:
    """Read a key, with its id in front; None of what is none."""
    found = _KEY.fullmatch(word)
    try:
        key = base64.b64decode(found[2], validate=True) if found else b""
    except binascii.Error:
        return None
    return (found[1], key) if found and len(key) == KEY_BYTES else None


def _allowed(path: Path, account: str, allowed: Allowed) -> Iterator[Finding]:
    try:
        parse_account(account)
    except ValueError:
        fix = f"Write the account as `{PROGRAM} account list` shows it."
        yield Finding(path, shown(account), "the name of an account", fix)
    for network in allowed.networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            fix = 'Write it like "10.1.0.0/16", with zeros behind the prefix.'
            yield Finding((*path, "networks"), shown(network), "a network", fix)
