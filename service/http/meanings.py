"""What each status of a problem means and what to do: the page to which its `type` leads.

It is served beside `/docs`, to everybody: nothing in it is secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from http import HTTPStatus

PATH = "/docs/problems"

MEANINGS: Mapping[int, tuple[str, str]] = {
    400: (
        "The request is no HTTP or no JSON, or a parameter or header cannot be meant.",
        "Read `detail`, and correct it.",
    ),
    401: (
        "There is no key, or it is not known or has ended, or its signature is missing or wrong.",
        "Send a key that works in the header as-api-key.",
    ),
    403: (
        "The key lacks a scope, or its account is suspended or has used up its quota of parcels.",
        "Use another key, ask the operator, or forget parcels.",
    ),
    404: (
        "Nothing is here that this key may see: others' things look like what is not there.",
        "Look whether the path and the key are those that you mean.",
    ),
    405: ("This path takes other methods.", "The header Allow names them."),
    408: ("The body was not here in time.", "Send it again."),
    409: (
        "How things stand does not allow it: it has happened, cannot yet, or the id is taken.",
        "Read `reason`, and ask how things stand now.",
    ),
    413: ("The body is too large, or has too many requests.", "Send less at once."),
    414: ("The path with its query is too long.", "Send less."),
    415: (
        "The body is none of the types that this path takes, or is compressed.",
        "Send plain JSON in UTF-8.",
    ),
    417: ("The header Expect says something else than 100-continue.", "Leave it out."),
    421: ("The header Host names something that is not served here.", "Ask by a name that is."),
    422: (
        "The request is understood, and wrong.",
        "`parameter`, `index` and `errors` say where: correct it.",
    ),
    429: (
        "The key or its account was used too often, or holds too many replies.",
        "Come again after Retry-After; RateLimit tells what is left.",
    ),
    431: ("A header, or the number of headers, is too large.", "Send less."),
    500: ("This is a defect of the service.", "Report the X-Request-Id of the answer."),
    501: ("The body is in a transfer coding that is not read.", "Send it chunked, or whole."),
    502: ("The courier gave no answer.", "Read `reason`; ask again later."),
    503: (
        "A server behind this one does not answer, or too much is asked at once.",
        "Come again after Retry-After.",
    ),
}
"""Of each status that a problem has: what it means, and what to do."""


def type_of(status: int) -> str:
    """Name the type of a problem (RFC 9457): where it is explained."""
    return f"{PATH}#{status:d}"


def page() -> str:
    """Write the page."""
    parts = "".join(
        f'<section id="{status}"><h2>{status} {escape(HTTPStatus(status).phrase)}</h2>'
        f"<p>{escape(means)}</p><p>{escape(then)}</p></section>"
        for status, (means, then) in MEANINGS.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Problems</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'</head><body><main><h1>Problems</h1>{parts}<p><a href="/docs">All routes</a></p>'
        "</main></body></html>\n"
    )
