"""The figures at the end of the demo, each judged by what was promised. Pure."""

from __future__ import annotations

import base64
import hmac
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.console.demo.script import (
    CONCURRENT,
    COPIES,
    FAILING,
    HOOKED,
    PER_SECOND,
    POSTED,
    Request,
)

Summary = Mapping[str, Mapping[str, Any]]
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known at the end: from the producer, from MongoDB, and from the courier site."""

    put: Sequence[Request]
    stored: Sequence[Document]
    dead: Sequence[Document]
    site: Summary
    calls_for_copied: int
    killed: int
    exit_code: int
    door_exit_code: int
    taken: int
    webhooks: Sequence[Document]
    secret: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the proof."""

    name: str
    value: str
    promised: str
    kept: bool


def lost(evidence: Evidence) -> list[Request]:
    """Requests that were acknowledged and are neither stored nor dead with a reason."""
    stored = {(each["slug"], each["tracking_number"]) for each in evidence.stored}
    dead = {(each["slug"], each["number"]) for each in evidence.dead if each.get("job") is None}
    return [request for request in dict.fromkeys(evidence.put) if request not in stored | dead]


def figures(evidence: Evidence) -> Iterator[Figure]:
    """Every figure of the proof, judged."""
    wanted = set(evidence.put)
    answered = sum(each["last_checked_at"] is not None for each in evidence.stored)
    dead = Counter(each["reason"] for each in evidence.dead)
    yield Figure("requests put, one of them malformed", f"{len(evidence.put) + 1}", "", kept=True)
    yield Figure("different parcels", f"{len(wanted)}", "", kept=True)
    posted = sum(slug in POSTED for slug, _ in evidence.put)
    yield _exactly("posted over HTTP and taken (202)", evidence.taken, posted)
    yield _exactly("answered and stored", answered, len(wanted) - 1)
    yield _exactly(f"dead: courier_down ({FAILING[0]})", dead.pop("courier_down", 0), 1)
    yield _exactly("dead: bad_number (the malformed one)", dead.pop("bad_number", 0), 1)
    yield _exactly("dead for another reason", dead.total(), 0)
    yield _exactly("lost", len(lost(evidence)), 0)
    yield from _limits(evidence.site)
    yield _exactly(f"calls for the number put {COPIES} times", evidence.calls_for_copied, 1)
    yield from _webhooks(evidence)
    yield _exactly("worker processes killed with -9", evidence.killed, 1)
    yield _exactly("exit code of the worker", evidence.exit_code, 0)
    yield _exactly("exit code of the door", evidence.door_exit_code, 0)


def _webhooks(evidence: Evidence) -> Iterator[Figure]:
    """How many parcels the receiver heard of, by requests that are genuine."""
    wanted = len({request for request in evidence.put if request[0] == HOOKED})
    numbers = {parcel_of(each) for each in evidence.webhooks}
    genuine = {parcel_of(each) for each in evidence.webhooks if is_genuine(each, evidence.secret)}
    yield _exactly(f"parcels that webhooks told of ({HOOKED})", len(numbers), wanted)
    yield _exactly("of these with a valid signature", len(genuine), wanted)


def parcel_of(webhook: Document) -> str:
    """Read of which parcel a webhook tells."""
    return str(json.loads(base64.b64decode(webhook["body"]))["data"]["number"])


def is_genuine(webhook: Document, secret: str) -> bool:
    """Check a signature as a receiver does, by Standard Webhooks."""
    headers, body = webhook["headers"], base64.b64decode(webhook["body"])
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    given = headers["webhook-signature"].split(" ")
    return any(hmac.compare_digest(expected, each) for each in given)


def _exactly(name: str, measured: int, promised: int) -> Figure:
    return Figure(name, f"{measured}", f"{promised}", kept=measured == promised)


def _at_most(name: str, measured: int, promised: int) -> Figure:
    return Figure(name, f"{measured}", f"at most {promised}", kept=measured <= promised)


def _limits(site: Summary) -> Iterator[Figure]:
    in_flight = max((each["most_in_flight"] for each in site.values()), default=0)
    starts = max((each["most_starts_in_any_second"] for each in site.values()), default=0)
    share = site.get("usps", {}).get("rate_share", 0.0)
    yield _at_most("most calls in flight at a courier", in_flight, CONCURRENT)
    yield _at_most("most starts in any second at a courier", starts, PER_SECOND)
    yield Figure("usps' allowed rate used, despite the kill", f"{share:.1%}", "", kept=True)
