"""Receivers of webhooks: `POST /hook/{name}` is taken with 200, whatever is posted.

A receiver behaves as a courier does, by its name; the number of a call is its `webhook-id`. The
site keeps the headers and the body of each.
"""

from __future__ import annotations

from devstack.site.shapes.reply import Asked, Reply, encode

ID = "webhook-id"


def read(asked: Asked) -> Reply | None:
    """Take what is posted to a receiver."""
    if asked.method != "POST" or not asked.parts:
        return None
    number = asked.headers.get(ID, "")
    return Reply(asked.parts[0], number, 200, encode({"taken": True}), keeps=True)
