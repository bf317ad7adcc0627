"""The answers of a random walk's calls: what was asked with, and for whom they are stored."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from limits_bench import verdict

from limits.codec import Record, accounts_in
from tracking.account import account_and_id


def verdict_by(said: dict[str, Any], observed: int, *, answered: bool) -> bytes:
    """Write a verdict that tells what was asked with, and for whom it is stored."""
    state = "SUCCESS" if answered else "ERROR"
    output = json.dumps({"by": said})
    return verdict(observed, state=state, answered=answered, output=output, **said)


def said_in(record: str) -> tuple[str, dict[str, Any]]:
    """Read the number of a call, and what was asked with, and for whom."""
    told = msgspec.json.decode(record, type=Record)
    return told.n, {"accounts": [*accounts_in(told)], "fields": told.fields}


def borrowed(request: bytes, observed: int) -> bytes:
    """Write the answer of others as it is stored for who sends this request."""
    told = json.loads(request)
    account, _ = account_and_id(told.get("id", ""))
    said = {"accounts": [account], "fields": told.get("fields", {})}
    return verdict_by(said, observed, answered=True)
