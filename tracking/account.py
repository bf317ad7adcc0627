"""Who asks: an account, and what sets its ids apart from those of others."""

from __future__ import annotations

import re
from typing import Final, NewType

Account = NewType("Account", str)
"""A checked name: 1 to 20 of a-z and 0-9, as it may be part of a host's name."""

MAIN: Final = Account("main")
"""Owns what comes by the tube; its ids stand bare everywhere."""

NAME: Final = re.compile(r"[a-z0-9]{1,20}")


def parse_account(text: str) -> Account:
    """Check the name of an account. Raises ValueError, for a person."""
    if not NAME.fullmatch(text):
        raise ValueError(f"{text[:40]!r} names no account: write 1 to 20 of a-z and 0-9")
    return Account(text)


def operation_id(account: Account, identity: str) -> str:
    """Make the id by which the whole system knows an operation: no producer's id contains `/`."""
    return identity if account == MAIN else f"{account}/{identity}"


def own_number(number: str, account: Account) -> str:
    """Name an account's number as Redis has it: as if it were another one. No number holds `@`."""
    return number if account == MAIN else f"{number}@{account}"


def number_and_account(name: str) -> tuple[str, Account]:
    """Take apart what `own_number` made."""
    number, _, account = name.partition("@")
    return number, Account(account or MAIN)


def account_and_id(operation: str) -> tuple[Account, str]:
    """Take the id of an operation apart: whose it is, and what its producer calls it."""
    account, slash, identity = operation.partition("/")
    # The id of requests without one of their own holds a number, which may contain `/`: after `:`.
    return (Account(account), identity) if slash and NAME.fullmatch(account) else (MAIN, operation)
