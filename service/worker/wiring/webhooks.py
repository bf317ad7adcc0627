"""The webhooks of one worker process: its parts, and how they are put together.

::

    a change is stored → Outbox ─inserted→ Filler.bring → Bringing → a call on the service's line
    a door took a request → RelayIntake ──────────────┤                        │
    what is due in MongoDB → Filler.run ──────────────┘                        │
                                                  Sender ← DeliveryWork ←──────┘

The outbox is needed by what stores answers, before there is a flow into which anything is brought:
so `Webhooks` is made first, and joined to the flow when that is there.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Sequence

from limits.window import Windows
from limits.workers import Planners
from service.config.schema import Config
from service.observe.background import Background
from service.worker.deliveries.delivery import Delivery
from service.worker.deliveries.filler import LEASE_SECONDS, Filler
from service.worker.deliveries.health_notes import Healths
from service.worker.deliveries.operation_ends import OperationEnds
from service.worker.deliveries.outbox import (
    Outbox,
    Steps,
    insert,
    insert_deliveries,
    insert_events,
    pull,
)
from service.worker.deliveries.pushes import Pushes
from service.worker.deliveries.relay_intake import RelayIntake, RelaySteps
from service.worker.deliveries.secret_box import SecretBox
from service.worker.deliveries.signing import Signer
from service.worker.deliveries.store import Deliveries, Due
from service.worker.deliveries.subscriptions import PERIOD_SECONDS, Keeping, announce
from service.worker.deliveries.work import DeliveryWork
from service.worker.flow.bring import Bringing
from service.worker.flow.drain import Drainer
from service.worker.wiring.connect import Parts
from service.worker.wiring.failpoints import FailPoints


class Webhooks:
    """What a worker has for deliveries.

    `outbox` hears of changes, `ends` of requests that are not taken, `intake` takes what doors took
    for relays; `work` makes the attempts.
    """

    def __init__(self, config: Config, parts: Parts, points: FailPoints) -> None:
        keys, store, hooked = config.webhooks.keys, parts.store, parts.hooked
        self._store, self._hooked = store, hooked
        leases = Planners(hooked.redis, secrets.token_hex(8), LEASE_SECONDS)
        self._leases = points.port("leases", leases)
        self._filler: Filler | None = None
        steps = Steps(points.step("outbox.insert", insert), points.step("outbox.pull", pull))
        self.outbox = Outbox(store, hooked.subscriptions, self._bring_in, steps)
        self.ends = OperationEnds(store, hooked.subscriptions, self._bring_in)
        relay_steps = RelaySteps(
            points.step("relay.events", insert_events),
            points.step("relay.deliveries", insert_deliveries),
        )
        box = SecretBox.of(keys) if keys else None
        pushes = Pushes(box, points.step("pushes.put", parts.putter.put_rechecks))
        self.intake = RelayIntake(store, hooked.subscriptions, self._bring_in, relay_steps, pushes)
        self.work = DeliveryWork(
            points.port("deliveries", Deliveries(store)),
            hooked.subscriptions.by_line,
            points.port("sends", hooked.sender),
            Signer(box),
            Healths(store, functools.partial(announce, store, hooked.redis)),
        )

    def join(self, bringing: Bringing, drainer: Drainer, background: Background) -> None:
        """Bring deliveries into the flow, and start what runs in the background."""
        known, windows = self._hooked.subscriptions, Windows(self._hooked.redis)
        filler = Filler(Due(self._store), known, windows, self._leases, bringing.bring)
        self._filler = filler
        self.work.over, drainer.claimed = filler.over, filler.wake
        keeping = Keeping(self._store, known.leftovers, self._hooked.learn)
        background.keep_looking("services", keeping.look, PERIOD_SECONDS)
        background.start("deliveries", filler.run)
        background.start("changes", self.outbox.run)

    def _bring_in(self, new: Sequence[Delivery]) -> None:
        if self._filler is not None:  # else it finds them itself
            self._filler.bring(new)
