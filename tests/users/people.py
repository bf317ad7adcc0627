"""People of the accounts `acme` and `main`, for the tests of users."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from service.operator import users
from service.operator.audit import Operator, Via
from service.operator.connections import Collections
from service.operator.users import Role, new_user
from tracking.request import Account

ANNA, BEN, PASSWORD = "anna@acme.example", "ben@acme.example", "correct horse battery"
ACME, HERE = Account("acme"), Operator()
OWNER = Operator(account=ACME, via=Via.WEB, user=ANNA)


def add(
    stores: Collections,
    email: str = ANNA,
    account: Account = ACME,
    role: Role = Role.OWNER,
    password: str | None = PASSWORD,
) -> None:
    users.add_user(stores, HERE, new_user(email, account, role), password)


def at_once(act: Callable[..., Any], those: Iterable[Any]) -> list[Any]:
    """Do an act on each, all at the same time; what came of them."""
    every = list(those)
    with ThreadPoolExecutor(len(every)) as pool:
        return list(pool.map(act, every))
