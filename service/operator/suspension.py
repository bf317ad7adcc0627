"""Suspension of accounts: for as long as it lasts nobody is served for one, and nothing is lost.

================ ===================================================================================
of the account   while it is suspended
================ ===================================================================================
keys, users      are refused with the reason (403)
links            are not found
parcels          are not checked again; what was taken before is answered
services         are paused: deliveries are held, and go when the account goes on
relays           requests are kept, `completed` for the reason `account_suspended`: resend them
================ ===================================================================================

The account remembers which services were active: these alone go on with it. Each step may be
repeated, so that a suspension that was broken off is done again as a whole.
"""

from __future__ import annotations

from service.operator.accounts import insist_on
from service.operator.audit import Operator, recorded
from service.operator.connections import Collections
from service.operator.services import Services
from service.worker.deliveries.service import Service, ServiceState
from service.worker.results.document import stored_now
from service.worker.results.queries import suspended_accounts
from tracking.errors import NotDone
from tracking.request import MAIN, Account


def suspension_of(stores: Collections, name: Account) -> str | None:
    """Say why an account is suspended; None where it is not. Raises PyMongoError."""
    return suspended_accounts(stores.accounts).get(name)


def suspend(services: Services, who: Operator, name: Account, why: str) -> int:
    """Suspend an account, or say another reason; tells how many services this pauses.

    Raises NotDone, PyMongoError: repeat it.
    """
    stores = services.stores
    with recorded(stores.audit, who, "account suspend", {"account": name, "why": why}) as outcome:
        if name == MAIN:
            raise NotDone(f"{MAIN} owns what comes by the tube, and is never suspended")
        insist_on(stores, name)
        active = _in(services, name, ServiceState.ACTIVE)
        change = {
            "$set": {"suspended.why": why},
            "$min": {"suspended.at": stored_now()},
            "$addToSet": {"suspended.services": {"$each": [each.id for each in active]}},
        }
        stores.accounts.update_one({"_id": name}, change)
        for each in active:
            services.change(who, name, each.name, {"state": ServiceState.PAUSED})
        outcome["services"] = len(active)
    return len(active)


def resume(services: Services, who: Operator, name: Account) -> int:
    """Serve an account again, with its services; tells how many of these go on.

    Raises NotDone, PyMongoError: repeat it.
    """
    stores = services.stores
    with recorded(stores.audit, who, "account resume", {"account": name}) as outcome:
        found = stores.accounts.find_one({"_id": name, "suspended": {"$exists": True}})
        if found is None:
            raise NotDone(f"{name} is not suspended: `account list` shows who is")
        ours = found["suspended"].get("services", ())
        paused = [each for each in _in(services, name, ServiceState.PAUSED) if each.id in ours]
        for each in paused:
            services.change(who, name, each.name, {"state": ServiceState.ACTIVE})
        stores.accounts.update_one({"_id": name}, {"$unset": {"suspended": ""}})
        outcome["services"] = len(paused)
    return len(paused)


def _in(services: Services, name: Account, state: ServiceState) -> list[Service]:
    return [each for each in services.of(name) if each.state is state]
