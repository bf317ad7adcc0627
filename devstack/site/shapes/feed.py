"""The feed of docs/couriers.md, for any slug: `GET /feed/{slug}/{number}`, `POST /feed/{slug}`.

The second asks for several numbers with `{"numbers": [...]}` and is answered by an object with a
value for each; null is one that is not known. No number, or one twice, is a 400.
"""

from __future__ import annotations

from collections.abc import Mapping

from devstack.site.shapes import parcel
from devstack.site.shapes.failures import Form, forms
from devstack.site.shapes.reply import Asked, Reply, encode

UNKNOWN = (404, encode({"error": "not found"}))
MALFORMED = (400, encode({"error": "numbers must be a list of texts, each once"}))
FAILURES = forms(
    auth=Form(403, {"error": "these credentials may not ask for it"}),
    limited=Form(429, {"error": "too many requests"}, "1"),
    down=Form(500, {"error": "out of order"}),
)


def read(asked: Asked) -> Reply | None:
    """Answer one request for a number's checkpoints, or for those of several."""
    match asked.method, asked.parts:
        case "GET", (slug, number):
            if not parcel.known(number):
                return Reply(slug, number, *UNKNOWN, unknown=UNKNOWN)
            return Reply(slug, number, 200, encode(_told(number)), unknown=UNKNOWN)
        case "POST", (slug,):
            return _several(slug, asked.json)
    return None


def _several(slug: str, body: object) -> Reply:
    match body:
        case {"numbers": [str(number), *riders]} if all(isinstance(each, str) for each in riders):
            numbers = (number, *riders)
        case _:
            return Reply(slug, "", *MALFORMED)
    if len(set(numbers)) < len(numbers):
        return Reply(slug, number, *MALFORMED, riders=tuple(riders))
    told = {each: _told(each) if parcel.known(each) else None for each in numbers}
    nobody = 200, encode(dict.fromkeys(numbers))
    return Reply(slug, number, 200, encode(told), unknown=nobody, riders=tuple(riders))


def _told(number: str) -> Mapping[str, object]:
    scans = parcel.scans(number)
    return {
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
