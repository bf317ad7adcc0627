"""What each account asks a courier with, in the document of a parcel, and whose its answer is.

============= ==================================================================================
member        is
============= ==================================================================================
fields        what `main` asks with
accounts      account → fields, `main` too where it has asked; absent while nobody else has
answered_with `accounts` and `fields` of the newest answer; absent where `main` alone asked, with
              nothing but the number
============= ==================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracking.account import MAIN, Account, parse_account
from tracking.call import Call
from tracking.request import Origin

Document = dict[str, Any]
Fields = Mapping[str, str]

ANSWERED_WITH = "answered_with"

_OF_MAIN = (MAIN,)


def first_fields(call: Call) -> Document:
    """Begin a document with what its first call asks with."""
    fields = dict(call.request.fields)
    if call.accounts == _OF_MAIN:
        return {"fields": fields}
    own = fields if MAIN in call.accounts else {}
    return {"fields": own, "accounts": {each: dict(fields) for each in call.accounts}}


def with_fields(document: Document, call: Call) -> Document:
    """Keep what a courier was asked with, for re-checks: the newest values win and fill gaps.

    Those of a schedule only fill gaps: a re-check may have been put before the newest were stored.
    What one account says is never another's.
    """
    asked = dict(call.request.fields)
    older = call.request.origin is Origin.AUTOMATIC or call.granted_us < document["observed_us"]
    kept = document.get("fields") or {}
    if call.accounts == _OF_MAIN and "accounts" not in document:
        document["fields"] = asked | kept if older else kept | asked
        return document
    accounts = dict(document.get("accounts") or {MAIN: kept})
    for each in call.accounts:
        before = accounts.get(each) or {}
        accounts[each] = asked | before if older else before | asked
    document |= {"accounts": accounts, "fields": accounts.get(MAIN) or {}}
    return document


def with_answer_of(document: Document, call: Call) -> Document:
    """Note whose answer a document holds now."""
    fields = dict(call.request.fields)
    if fields or call.accounts != _OF_MAIN:
        document[ANSWERED_WITH] = {"accounts": list(call.accounts), "fields": fields}
    else:
        document.pop(ANSWERED_WITH, None)
    return document


def noted_of(document: Document) -> tuple[tuple[Account, ...], dict[str, str]]:
    """Read what `with_answer_of` noted: for whom an answer is, and what was asked with."""
    noted = document.get(ANSWERED_WITH) or {}
    return tuple(noted.get("accounts") or _OF_MAIN), noted.get("fields") or {}


def is_answer_for(document: Document, account: Account, fields: Fields) -> bool:
    """Tell whether an account that asks with these fields may have the stored answer."""
    whose, asked = noted_of(document)
    if ANSWERED_WITH not in document:  # perhaps of before anything was noted
        asked = document.get("fields") or {}
    return account in whose or asked == dict(fields)


def fields_for(document: Document | None, account: Account) -> dict[str, str]:
    """Find what an account asks with."""
    found = document or {}
    accounts = found.get("accounts") or {MAIN: found.get("fields")}
    return accounts.get(account) or {}


def asked_with(document: Document) -> Iterator[tuple[Account, Fields]]:
    """List what a parcel is asked with, each once, with the first account that does.

    Raises TypeError, ValueError for a document that this service did not write.
    """
    accounts = document.get("accounts") or {MAIN: document.get("fields")}
    if not isinstance(accounts, dict):
        raise TypeError("`accounts` is no object: write each account with its fields")
    seen: list[Fields] = []
    for account in sorted(accounts, key=lambda name: (name != MAIN, name)):
        fields = accounts[account] or {}
        if fields not in seen:
            seen.append(fields)
            yield parse_account(account), fields
