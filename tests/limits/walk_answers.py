"""The answers of a random walk's calls: what was asked with, and for whose account."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from limits_bench import verdict

from limits.keys import Record
from tracking.request import number_and_account


def verdict_by(said: dict[str, Any], observed: int, *, answered: bool) -> bytes:
    """Write a verdict that tells what was asked with, and for whom."""
    state = "SUCCESS" if answered else "ERROR"
    output = json.dumps({"by": said})
    fields = said["fields"]
    return verdict(observed, state=state, answered=answered, output=output, fields=fields)


def said_in(record: str) -> tuple[str, dict[str, Any]]:
    """Read the number of a call, and what was asked with, and for whom."""
    told = msgspec.json.decode(record, type=Record)
    return told.n, {"account": number_and_account(told.n)[1], "fields": told.fields}
