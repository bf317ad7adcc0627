"""One parcel's story by AfterShip's own Python SDK: aftership_story.py ADDRESS KEY SLUG NUMBER.

Signed where AES or RSA follows, and the secret or the private key. Runs where that SDK is
installed, far from this project's packages. Writes a line of JSON a step.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from tracking import Client, Configuration, exceptions

UNKNOWN = "0" * 32
TRIES_MOST = 500


def refusal(step: Callable[[], Any]) -> dict[str, Any]:
    try:
        step()
    except exceptions.ApiException as error:
        return {
            "raised": type(error).__name__,
            "code": error.code.value,
            "meta_code": error.meta_code,
            "status": error.status_code,
        }
    return {"raised": None}


def limited(step: Callable[[], Any]) -> dict[str, Any]:
    """Ask until it is too often, then wait as the headers say."""
    for _ in range(TRIES_MOST):
        try:
            step()
        except exceptions.TooManyRequestsError as error:
            headers = error.response_header or {}
            time.sleep(max(0.0, int(headers["x-ratelimit-reset"][0]) - time.time()))
            return refusal_of(error) | {"remaining": headers["x-ratelimit-remaining"]}
    return {"raised": None}


def refusal_of(error: exceptions.ApiException) -> dict[str, Any]:
    return {"raised": type(error).__name__, "code": error.code.value, "meta_code": error.meta_code}


def main(address: str, key: str, slug: str, number: str, *signing: str) -> None:
    signed = dict(zip(("authentication_type", "api_secret"), signing, strict=False))
    client = Client(Configuration(domain=address, api_key=key, max_retry=0, **signed))
    trackings = client.tracking

    def say(step: str, **what: Any) -> None:
        sys.stdout.write(json.dumps({"step": step, **what}) + "\n")

    couriers = client.courier.get_couriers().data
    say("couriers", total=couriers.total == len(couriers.couriers))
    found = client.courier.detect_courier({"tracking_number": number}).data
    say("detect", slug=found.couriers[0].slug)
    wanted = {"tracking_number": number, "title": "Order 7", "customers": [{"name": "A. Buyer"}]}
    made = trackings.create_tracking(wanted).data
    say("create", slug=made.slug, number=made.tracking_number, title=made.title)
    listed = trackings.get_trackings(keyword="order 7", limit=10, slug=slug).data
    page = listed.pagination
    say("list", ids=[each.id == made.id for each in listed.trackings], total=page.total)
    got = trackings.get_tracking_by_id(made.id).data
    last = got.checkpoints[-1]
    say("get", tag=got.tag.value, at=last.checkpoint_time, name=got.customers[0].name)
    changed = trackings.update_tracking_by_id(made.id, {"note": "fragile"}).data
    say("update", note=changed.note, title=changed.title)
    say("duplicate", **refusal(lambda: trackings.create_tracking(wanted | {"slug": slug})))
    say("unknown", **refusal(lambda: trackings.get_tracking_by_id(UNKNOWN)))
    say("not offered", **refusal(client.courier_connection.get_courier_connections))
    ended = trackings.mark_tracking_completed_by_id(made.id, {"reason": "DELIVERED"}).data
    say("complete", tag=ended.tag.value, active=ended.active)
    again = trackings.retrack_tracking_by_id(made.id).data
    say("retrack", tag=again.tag.value, active=again.active)
    say("limited", **limited(lambda: trackings.get_tracking_by_id(made.id)))
    say("delete", id=trackings.delete_tracking_by_id(made.id).data.id == made.id)
    say("gone", **refusal(lambda: trackings.get_tracking_by_id(made.id)))
    nobody = Client(Configuration(domain=address, api_key="tk_nobody", max_retry=0))
    say("no key", **refusal(nobody.courier.get_couriers))
    unsigned = Client(Configuration(domain=address, api_key=key, max_retry=0))
    say("unsigned", **refusal(unsigned.courier.get_couriers))


if __name__ == "__main__":
    main(*sys.argv[1:])
