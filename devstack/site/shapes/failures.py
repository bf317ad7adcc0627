"""How each courier fails, in its own form: what it says instead of the story of a parcel.

=================== ======== ========================================================
a number beginning  is a     and the courier
=================== ======== ========================================================
`000003`            INVALID  says that this can be no number of its own
`000004`            AUTH     does not accept the credentials
`000005`            LIMITED  wants fewer calls
`000006`            DOWN     is out of order
`000007`            CHANGED  answers 200 with JSON (XML) that says something else
`000008`            --       never answers, whichever courier it is
=================== ======== ========================================================

A call for several numbers goes as the first of them that begins so. A courier without an entry has
no such answer: some do not tell an invalid number from an unknown one. In a body, `{N}` stands for
the number. Written after the couriers' references, in each courier's `shape.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from devstack.site.shapes.reply import Kind, Reply, encode


class Failure(StrEnum):
    """What goes wrong; the value begins the numbers it befalls."""

    INVALID = "000003"
    AUTH = "000004"
    LIMITED = "000005"
    DOWN = "000006"
    CHANGED = "000007"


@dataclass(frozen=True, slots=True)
class Form:
    """An answer: its status, its body (XML as text, else JSON), a Retry-After where it has one."""

    status: int
    body: object
    retry_after: str | None = None


SILENT = "000008"
PAUSE = "120"
MAINTENANCE = {"notice": "This service has a new address."}


def listed(code: str, words: str) -> dict[str, object]:
    """Write a list of one error, as several couriers do."""
    return {"errors": [{"code": code, "message": words}]}


def apigee(words: str, code: str) -> dict[str, object]:
    """Write a fault of Apigee, the gateway before several couriers."""
    return {"fault": {"faultstring": words, "detail": {"errorcode": code}}}


def forms(
    auth: Form,
    limited: Form,
    down: Form,
    invalid: Form | None = None,
    changed: object = MAINTENANCE,
) -> Mapping[Failure, Form]:
    """Say how a courier fails; `invalid` is None for one that tells no invalid numbers."""
    listed = {Failure.AUTH: auth, Failure.LIMITED: limited, Failure.DOWN: down}
    listed[Failure.CHANGED] = Form(200, changed)
    return MappingProxyType(listed if invalid is None else listed | {Failure.INVALID: invalid})


def instead(reply: Reply, failures: Mapping[Failure, Form]) -> Reply:
    """Give what the courier answers to the numbers of `reply`: mostly the very reply."""
    if reply.kind is not Kind.CALL:
        return reply
    befallen = (
        (form, number)
        for start, form in failures.items()
        for number in reply.numbers
        if number.startswith(start)
    )
    form, number = next(befallen, (None, ""))
    if form is None:
        return reply
    given = form.body.encode() if isinstance(form.body, str) else encode(form.body)
    headers = dict(reply.headers)
    if form.retry_after is not None:
        headers["Retry-After"] = form.retry_after
    body = given.replace(b"{N}", number.encode())
    return replace(reply, status=form.status, body=body, headers=headers)
