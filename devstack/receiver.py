"""A receiver of webhooks on the courier site: what was delivered to it, and how it behaves.

It records each request as it arrives, on the clock by which couriers' calls are judged, so
`devstack.judge` says of deliveries what it says of calls. It misbehaves as a courier does
(`devstack.site.behaviour`): `behave(fault="status", status=410)`, `behave(latency=2.0)`,
`behave(fault="hang")`, "reset", "redirect", "drip", "huge", "gzip_bomb", "garbage", each for the
`first` requests only where that is said.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from devstack.judge import Call
from devstack.site.remote import CourierSite, call_of


@dataclass(frozen=True, slots=True)
class Received:
    """A request that arrived: its `call.number` is the delivery's id; names in lower case."""

    call: Call
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Read the body."""
        return json.loads(self.body)


class Receiver:
    """The receiver of one name. `url` is its destination."""

    def __init__(self, site: CourierSite, name: str) -> None:
        self._site = site
        self.name = name
        self.url = f"{site.url}/hook/{name}"

    def behave(self, **behaviour: object) -> None:
        """Set how it behaves; what is not given goes back to normal."""
        self._site.behave(self.name, **behaviour)

    def received(self) -> list[Received]:
        """List what arrived since the last reset of the site, oldest first."""
        return [
            Received(call_of(entry), entry["headers"], base64.b64decode(entry["body"]))
            for entry in self._site.entries(self.name)
        ]
