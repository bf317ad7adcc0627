"""Takes relayed requests and checks the signature of the relay; needs Python alone.

RELAY_SECRET=whsec_… python examples/verify_relay.py 8000
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer

TOLERANCE_SECONDS = 300
"""A request that is older, or of the future, may be one that somebody recorded and sends again."""


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Check that the relay sent this; `body` is what arrived, before anything reads it.

    It says nothing of who sent it to the relay: for that, check the sender's own signature too.
    """
    name, sent_at = headers.get("relay-id", ""), headers.get("relay-timestamp", "")
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > TOLERANCE_SECONDS:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{name}.{sent_at}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    # Several while a secret is changed. Compared in constant time: no answer comes sooner.
    given = headers.get("relay-signature", "").split(" ")
    return any(hmac.compare_digest(expected.encode(), each.encode()) for each in given)


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to a request that the relay sent: another answer, and it comes again."""

    def do_POST(self) -> None:
        """Take one request; other methods come too, where the sender uses them."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not verify(secret, self.headers, body):
            self.send_error(401, "the signature is not right")
            return
        # The same relay-id may come twice: do what it asks for once, after this answer. It is as
        # old as relay-received-at says, and its sender addressed it to relay-original-url.
        print(f"{self.headers['relay-id']} {self.command} {len(body)} bytes", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing of requests that are not genuine."""


secret = os.environ.get("RELAY_SECRET", "")
try:
    if not base64.b64decode(secret.removeprefix("whsec_"), validate=True):
        raise binascii.Error  # noqa: TRY301 - an empty secret is none
except binascii.Error:
    sys.exit("RELAY_SECRET is not set: write the whsec_… that was shown when the relay was made")
if len(sys.argv) != 2:  # noqa: PLR2004 - the program and its argument
    sys.exit("usage: verify_relay.py PORT")
HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
