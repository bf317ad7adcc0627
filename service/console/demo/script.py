"""The requests of the demo, and the behaviour of its made-up couriers. Data, no I/O."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

CALL_TIMEOUT_SECONDS = 5
LEASE_SECONDS = 10
PROCESSES = 2
KILL_AFTER_SECONDS = 4.0
PATIENCE_SECONDS = 55.0
FURTHER_SECONDS = 1.0
PER_SECOND = 2
CONCURRENT = 20

SLOW = "north-freight"
"""It is asked once a worker process is gone: what a dead process leases would keep its places."""
SLOW_SECONDS = 11.0
"""How long it takes: at two starts a second all its places are taken before the first is free."""
SLOW_TIMEOUT_SECONDS = 14

COPIES = 20
"""How often one and the same request is put: the courier must be asked once."""

MALFORMED = b'{"type":"requests_flow","payload":{"slug":"acme-post"}}'
"""A job without a number: recorded with its reason and buried, and nobody else is disturbed."""

Behaviour = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Courier:
    """A courier of the demo: how many parcels it has, and how it behaves at the courier site."""

    slug: str
    parcels: int
    note: str = ""
    behaviour: Behaviour = field(default_factory=dict)
    path: str = "feed"

    @property
    def numbers(self) -> list[str]:
        """Its parcels' numbers; the courier site makes up a history for each."""
        return [f"{self.slug[:2].upper()}{index:07d}" for index in range(1, self.parcels + 1)]


FAILING = ("moody-express", "MO0000002")
COURIERS = (
    Courier("usps", 44, "gets most", {"latency": 0.3}, path="usps"),
    Courier("acme-post", 36, f"gets one number {COPIES} times", {"latency": 2.0, "jitter": 1.0}),
    Courier("blue-courier", 32, "", {"latency": 0.1}),
    Courier(SLOW, 22, f"takes {SLOW_SECONDS:.0f} s for an answer", {"latency": SLOW_SECONDS}),
    Courier("island-mail", 36, "does not know one number", {"latency": 0.2}),
    Courier(
        FAILING[0],
        24,
        "always answers 500 for one number",
        {"fault": "status", "status": 500, "numbers": FAILING[1:]},
    ),
)
UNKNOWN = ("island-mail", "UNKNOWN0001")
COPIED = ("acme-post", "AC9999990")

HOOK = "shop"
"""The service that hears of one courier's parcels, and its receiver at the courier site."""
HOOKED = "blue-courier"

USER = "demo@example.com"
"""Who may look at the pages."""

POSTED = frozenset({"blue-courier", "island-mail"})
"""Couriers whose requests go over HTTP, through a door; the others' are put on the tube."""

Request = tuple[str, str]


def requests() -> Iterator[Request]:
    """Every request in the order of the puts: the couriers mixed, one wave after the other."""
    yield from [COPIED] * (COPIES // 2)
    for wave in range(max(courier.parcels for courier in COURIERS)):
        for courier in COURIERS:
            if wave < courier.parcels:
                yield courier.slug, courier.numbers[wave]
    yield UNKNOWN
    yield from [COPIED] * (COPIES // 2)


def further() -> Iterator[Request]:
    """Requests without end, for parcels that nobody asked for before."""
    for number in itertools.count(len(list(requests()))):
        for courier in COURIERS:
            yield courier.slug, f"{courier.slug[:2].upper()}{number:07d}"


def body(request: Request) -> bytes:
    """The job of one request."""
    return json.dumps({"type": "requests_flow", "payload": posted(request)}).encode()


def posted(request: Request) -> dict[str, str]:
    """What is posted for one request."""
    slug, number = request
    return {"slug": slug, "number": number}


def service(site: str) -> dict[str, object]:
    """What the service wants, and where its receiver is."""
    return {
        "destination": f"{site}/hook/{HOOK}",
        "events": ["parcel.changed"],
        "slugs": [HOOKED],
    }


def settings(site: str, sealing: str) -> dict[str, str]:
    """The worker's settings, beside the addresses of its servers; `site` is the courier site.

    `sealing`: the key that encrypts the service's secret.
    """
    slow = {
        "call_timeout_seconds": SLOW_TIMEOUT_SECONDS,
        "lease_seconds": 2 * SLOW_TIMEOUT_SECONDS,
    }
    chosen = {
        "WORKER__PROCESSES": PROCESSES,
        "WORKER__GRACE_SECONDS": CALL_TIMEOUT_SECONDS + 1,
        "LIMITS__CALL_TIMEOUT_SECONDS": CALL_TIMEOUT_SECONDS,
        "LIMITS__LEASE_SECONDS": LEASE_SECONDS,
        "LIMITS__SLUGS": json.dumps({SLOW: slow}),
        # A failure counts only once others of its courier were answered since the last one.
        "RETRY__ATTEMPTS": 1,
        "RETRY__FIRST_SECONDS": 1,
        "RETRY__CAP_SECONDS": 3,
        "LOG__FORMAT": "json",
        "WEBHOOKS__KEYS": sealing,
        # The receiver is on this machine, whither nobody's webhooks go who is not allowed to.
        "WEBHOOKS__ALLOWED__MAIN__NETWORKS": '["127.0.0.0/8"]',
        "WEBHOOKS__ALLOWED__MAIN__HTTP": "true",
        "WEBHOOKS__ALLOWED__MAIN__PORTS": json.dumps([urlsplit(site).port]),
        "COURIERS__USPS__CLIENT_ID": "demo",
        "COURIERS__USPS__CLIENT_SECRET": "demo",
        "COURIERS__USPS__TOKEN_URL": f"{site}/usps/oauth2/v3/token",
    }
    for courier in COURIERS:
        name = courier.slug.upper().replace("-", "_")
        chosen[f"COURIERS__{name}__BASE_URL"] = f"{site}/{courier.path}"
        if courier.path == "feed":
            chosen[f"COURIERS__{name}__MODULE"] = "json_feed"
    return {f"TRACKER_{name}": str(value) for name, value in chosen.items()}
