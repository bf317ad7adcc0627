"""Pushes: a courier says that something happened to a parcel, so its account asks for it at once.

What a push says is never taken for the answer: it is kept with the delivery, and an AUTOMATIC
request is put as the planner puts re-checks, only that no stored answer will do. It asks for
parcels that the account of the service follows, and for nobody else's. Its id is made of account,
parcel and the minute in which the push came: a push that is repeated, and one more in the same
minute, is one operation.

`judge` comes before the event of the request is written, as its member `push` says what it found;
`ask` comes behind that and before the job is deleted. Whatever fails, all of it is repeated.
What the member says is what was found at first.

======== =========================================================
`push`   is
======== =========================================================
courier  the slug of the courier that pushes to the service
verified whether the push is that courier's
why      why no parcel is asked for, "" where one is
parcels  the parcels that are asked for, each `<slug>:<number>`
======== =========================================================

`why` is a reason of `couriers.pushes`, `no_key` (no key of this process opens the secret) or
`not_followed` (the account follows none of the parcels, or no more: they came to an end, say).
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from pymongo.read_concern import ReadConcern

from couriers.pushes import Judgement, Push, judge
from service.worker.deliveries.foreign_request import ForeignRequest
from service.worker.deliveries.secret_box import SecretBox, Unreadable
from service.worker.deliveries.service import Service
from service.worker.results.database import Collections, Document
from service.worker.results.document import ASKED_ALONE, document_id, fields_in, id_of
from service.worker.results.shipments import no_longer_followed
from tracking.operation import recheck_id
from tracking.request import FIELDS, Account, Number, Origin, Slug, TrackingRequest

EXPIRES_AFTER = dt.timedelta(hours=6)
"""As of a re-check: its parcel has one on its own soon."""

NO_KEY = "no_key"
NOT_FOLLOWED = "not_followed"

Put = Callable[[Sequence[TrackingRequest]], Awaitable[None]]
"""Puts requests where re-checks are put (`Putter.put_rechecks`)."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What a push comes to: the requests that are to be put, or why there are none."""

    courier: Slug
    verified: bool
    why: str
    requests: tuple[TrackingRequest, ...] = ()

    @property
    def document(self) -> Document:
        """Write it as the member `push` of the event."""
        return {
            "courier": self.courier,
            "verified": self.verified,
            "why": self.why,
            "parcels": [id_of(each) for each in self.requests],
        }


class Pushes:
    """Has parcels asked for of which couriers push. One per process."""

    def __init__(self, box: SecretBox | None, put: Put) -> None:
        """`box`: None where no key is set: then nothing is verified."""
        self._box = box
        self._put = put

    def judge(self, stores: Collections, service: Service, request: ForeignRequest) -> Asking:
        """Find out which parcels a push to a service has asked for. Raises PyMongoError."""
        courier = Slug(service.ingest.courier)
        judged = self._verified(service, request)
        names = {document_id(f"{courier}:{each}", service.account): each for each in judged.numbers}
        requests = tuple(
            request_of(each, courier, names[each["_id"]], service.account, request.received_at)
            for each in (find_followed(stores, names) if names else ())
        )
        why = judged.why or ("" if requests else NOT_FOLLOWED)
        return Asking(courier, judged.verified, why, requests)

    async def ask(self, asking: Asking) -> None:
        """Have the parcels asked for. Raises TubesDown: repeat it."""
        if asking.requests:
            await self._put(asking.requests)

    def _verified(self, service: Service, request: ForeignRequest) -> Judgement:
        sealed = service.ingest.push_secret
        try:
            secret = self._opened(sealed, service.id) if sealed else ""
        except Unreadable:
            return Judgement(verified=False, why=NO_KEY)
        headers = {name.lower(): value for name, value in request.headers}
        return judge(Slug(service.ingest.courier), Push(headers, request.body), secret)

    def _opened(self, sealed: str, owner: str) -> str:
        if self._box is None:
            raise Unreadable(sealed.partition(":")[0])
        return self._box.opened(sealed, owner)


def find_followed(stores: Collections, names: Iterable[str]) -> list[Document]:
    """List those documents that their account follows, with what their courier is asked with.

    A majority has them: what a failover takes back was never followed. Raises PyMongoError.
    """
    durable = stores.tracking.with_options(read_concern=ReadConcern("majority"))
    wanted = {"_id": {"$in": list(names)}, "active": True}
    found = list(durable.find(wanted, {"fields": 1, ASKED_ALONE: 1}))
    if not found:
        return []
    left = no_longer_followed(stores.shipments, stores.operations, [each["_id"] for each in found])
    return [each for each in found if each["_id"] not in left]


def request_of(
    document: Document, courier: Slug, number: Number, account: Account, at: dt.datetime
) -> TrackingRequest:
    """Ask for a parcel because of a push that came `at` an instant."""
    minute = at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%MZ")
    key = f"push {document_id(f'{courier}:{number}', account)} {minute}"
    # As another program may have written it, too.
    fields = given if isinstance(given := fields_in(document), dict) else {}
    return TrackingRequest(
        slug=courier,
        number=number,
        given=number,
        id=recheck_id(account, hashlib.sha256(key.encode()).hexdigest()[:32]),
        origin=Origin.AUTOMATIC,
        max_age=0.0,
        expires_at=(at + EXPIRES_AFTER).timestamp(),
        fields={each: fields[each] for each in FIELDS if isinstance(fields.get(each), str)},
        alone=document.get(ASKED_ALONE) is True,
    )
