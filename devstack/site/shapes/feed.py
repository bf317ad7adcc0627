"""The feed of docs/couriers.md: `GET /feed/{slug}/{number}`, for any slug."""

from __future__ import annotations

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode

UNKNOWN = (404, encode({"error": "not found"}))
FAILURES = forms(
    auth=Form(403, {"error": "these credentials may not ask for it"}),
    limited=Form(429, {"error": "too many requests"}, "1"),
    down=Form(500, {"error": "out of order"}),
)


def read(asked: Asked) -> Reply | None:
    """Answer one request for a number's checkpoints."""
    if asked.method != "GET" or len(asked.parts) != 2:  # noqa: PLR2004 - slug and number
        return None
    slug, number = asked.parts
    scans = parcel.scans(number)
    body = {
        "tag": scans[-1].stage,
        "checkpoints": [
            {
                "checkpoint_time": scan.at.isoformat(),
                "message": scan.message,
                "city": scan.city,
                "country_name": "UNITED STATES",
                "tag": scan.stage,
            }
            for scan in scans
        ],
    }
    if not parcel.known(number):
        return Reply(slug, number, *UNKNOWN, unknown=UNKNOWN)
    return Reply(slug, number, 200, encode(body), unknown=UNKNOWN)
