"""How each courier fails, in its own form: what it says instead of the story of a parcel.

=================== ======== ========================================================
a number beginning  is a     and the courier
=================== ======== ========================================================
`000003`            INVALID  says that this can be no number of its own
`000004`            AUTH     does not accept the credentials
`000005`            LIMITED  wants fewer calls
`000006`            DOWN     is out of order
`000007`            CHANGED  answers 200 with JSON (XML) that says something else
=================== ======== ========================================================

A courier without an entry has no such answer: `dhl` and `dpd-uk` do not tell an invalid number from
an unknown one. In a body, `{N}` stands for the number. Written after the couriers' references.
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


PAUSE = "120"
MAINTENANCE = {"notice": "This service has a new address."}


def _canada(code: str, words: str) -> str:
    message = f"<message><code>{code}</code><description>{words}</description></message>"
    return f'<messages xmlns="http://www.canadapost.ca/ws/messages">{message}</messages>'


def _usps(status: int, detail: str = "") -> dict[str, object]:
    errors = [{"code": detail, "title": "Not trackable", "status": str(status)}] if detail else []
    error = {"code": str(status), "message": "The request failed.", "errors": errors}
    return {"apiVersion": "/tracking/v3r2", "error": error}


def _ups(code: str, words: str) -> dict[str, object]:
    return {"response": {"errors": [{"code": code, "message": words}]}}


def _listed(code: str, words: str) -> dict[str, object]:
    return {"errors": [{"code": code, "message": words}]}


def _fedex_inside(code: str) -> dict[str, object]:
    result = {"error": {"code": code, "message": "The request failed."}}
    complete = [{"trackingNumber": "{N}", "trackResults": [result]}]
    return {"output": {"completeTrackResults": complete}}


def _royal(status: int, code: str, words: str) -> dict[str, object]:
    error = {"errorCode": code, "errorDescription": words}
    return {"httpCode": str(status), "httpMessage": words, "errors": [error]}


def _auspost_inside(code: str, words: str) -> dict[str, object]:
    error = {"code": code, "name": words, "message": words}
    return {"tracking_results": [{"tracking_id": "{N}", "errors": [error]}]}


def _apigee(words: str, code: str) -> dict[str, object]:
    return {"fault": {"faultstring": words, "detail": {"errorcode": code}}}


def _problem(status: int, title: str) -> dict[str, object]:
    return {"title": title, "status": status, "detail": title}


def _bring(code: int, words: str) -> dict[str, object]:
    return {"apiVersion": "2", "consignmentSet": [{"error": {"code": code, "message": words}}]}


def _gls(code: str) -> dict[str, object]:
    parcel = {"requested": "{N}", "errorCode": code, "errorMessage": "The request failed."}
    return {"parcels": [parcel]}


def _postnord(code: str, words: str) -> dict[str, object]:
    return {"compositeFault": {"faults": [{"faultCode": code, "explanationText": words}]}}


def _laposte(code: int, words: str) -> dict[str, object]:
    return {"returnCode": code, "returnMessage": words, "idShip": "{N}"}


def _forms(
    auth: Form,
    limited: Form,
    down: Form,
    invalid: Form | None = None,
    changed: object = MAINTENANCE,
) -> Mapping[Failure, Form]:
    forms = {Failure.AUTH: auth, Failure.LIMITED: limited, Failure.DOWN: down}
    forms[Failure.CHANGED] = Form(200, changed)
    return MappingProxyType(forms if invalid is None else forms | {Failure.INVALID: invalid})


FORMS: Mapping[str, Mapping[Failure, Form]] = MappingProxyType(
    {
        "australia-post": _forms(
            Form(401, _listed("API_001", "Unauthenticated")),
            Form(429, {"errors": [{"error_code": "API_002", "message": "Too many requests"}]}),
            Form(200, _auspost_inside("ESB-20050", "System Error")),
            Form(200, _auspost_inside("ESB-10001", "Invalid tracking ID")),
        ),
        "bring": _forms(
            Form(401, {"message": "Authentication failed"}),
            Form(429, {"message": "Too many requests"}, PAUSE),
            Form(200, _bring(500, "Tracking is not available")),
            Form(200, _bring(400, "Invalid query")),
        ),
        "canada-post": _forms(
            Form(401, _canada("E002", "AAA Authentication Failure")),
            Form(500, _canada("Server", "Rejected by SLM Monitor")),
            Form(500, _canada("Server", "Internal error")),
            Form(400, _canada("9105", "Invalid PIN")),
            "<notice>This service has a new address.</notice>",
        ),
        "dhl": _forms(
            Form(401, _problem(401, "Unauthorized")),
            Form(429, _problem(429, "Too Many Requests")),
            Form(503, _problem(503, "Service Unavailable")),
        ),
        "dpd-uk": _forms(
            Form(403, {"message": "Forbidden"}),
            Form(429, {"message": "Too Many Requests"}, PAUSE),
            Form(502, {"message": "Bad Gateway"}),
        ),
        "fedex": _forms(
            Form(401, _listed("NOT.AUTHORIZED.ERROR", "Access token expired.")),
            Form(429, _listed("RATE.LIMIT.EXCEEDED", "We have received too many requests.")),
            Form(200, _fedex_inside("SYSTEM.UNAVAILABLE.EXCEPTION")),
            Form(200, _fedex_inside("TRACKING.TRACKINGNUMBER.INVALID")),
        ),
        "gls": _forms(
            Form(401, _apigee("Token expired", "steps.jwt.TokenExpired")),
            Form(429, _apigee("Rate limit", "policies.ratelimit.QuotaViolation")),
            Form(200, _gls("E_500_01")),
            Form(200, _gls("E_400_01")),
        ),
        "hong-kong-post": _forms(
            Form(401, {"message": "Unauthorized"}),
            Form(429, {"message": "Too many requests"}, PAUSE),
            Form(500, {"message": "System error"}),
            Form(400, {"message": "Invalid Mail Number"}),
        ),
        "la-poste-colissimo": _forms(
            Form(401, {"code": "UNAUTHORIZED", "message": "Invalid key"}),
            Form(429, {"message": "Too many requests"}, PAUSE),
            Form(500, _laposte(500, "Internal error")),
            Form(400, _laposte(400, "Invalid number")),
        ),
        "postnl": _forms(
            Form(401, _apigee("Invalid ApiKey", "oauth.v2.InvalidApiKey")),
            Form(429, _apigee("Rate limit quota violation", "policies.ratelimit.QuotaViolation")),
            Form(500, _apigee("Internal server error", "InternalServerError")),
            Form(400, {"Errors": [{"Message": "Invalid barcode", "Code": "5"}]}),
        ),
        "postnord": _forms(
            Form(403, _postnord("forbidden", "Invalid apikey")),
            Form(429, _postnord("tooManyRequests", "Rate limit exceeded"), PAUSE),
            Form(500, _postnord("internalError", "Internal error")),
            Form(400, _postnord("invalidIdentifier", "The identifier is invalid")),
        ),
        "royal-mail": _forms(
            Form(401, {"httpCode": "401", "httpMessage": "Unauthorized"}),
            Form(429, _royal(429, "E0010", "Too Many Requests")),
            Form(200, _royal(503, "E1307", "The service is unavailable")),
            Form(400, _royal(400, "E1142", "Barcode reference isn't recognised")),
        ),
        "ups": _forms(
            Form(401, _ups("250003", "Invalid Access License number")),
            Form(429, _ups("10429", "Quota Limit Exceeded")),
            Form(503, _ups("10503", "Service unavailable")),
            Form(400, _ups("TV1002", "Invalid inquiry number")),
        ),
        "usps": _forms(
            Form(401, _usps(401)),
            Form(429, _usps(429), PAUSE),
            Form(503, _usps(503)),
            Form(400, _usps(400, "150008")),
        ),
    }
)


def instead(reply: Reply) -> Reply:
    """Give what the courier answers to the number of `reply`: mostly the very reply."""
    if reply.kind is not Kind.CALL:
        return reply
    forms = FORMS.get(reply.slug, {})
    form = next((form for start, form in forms.items() if reply.number.startswith(start)), None)
    if form is None:
        return reply
    given = form.body.encode() if isinstance(form.body, str) else encode(form.body)
    headers = dict(reply.headers)
    if form.retry_after is not None:
        headers["Retry-After"] = form.retry_after
    body = given.replace(b"{N}", reply.number.encode())
    return replace(reply, status=form.status, body=body, headers=headers)
