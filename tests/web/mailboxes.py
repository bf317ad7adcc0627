"""A mail server that takes all mails, and keeps them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from devstack.servers import free_port

MAIL_SECONDS = 30.0


class Mailbox:
    """What it took: to whom, and the text."""

    def __init__(self) -> None:
        self.mails: list[tuple[str, str]] = []
        self.port = free_port()

    async def handle_DATA(  # noqa: N802 - the library's name
        self, _: SMTP, __: Session, envelope: Envelope
    ) -> str:
        self.mails.append((envelope.rcpt_tos[0], (envelope.original_content or b"").decode()))
        return "250 OK"

    def link_to(self, email: str) -> str:
        """The path of the link in the mail that somebody was sent."""
        text = self.mail_to(email, "http").replace("=\r\n", "")
        link: str = re.findall(r"https?://\S+", text)[0]
        return urlsplit(link).path

    def mail_to(self, email: str, words: str) -> str:
        """The newest mail to somebody in which these words are."""
        deadline = time.monotonic() + MAIL_SECONDS
        while not (found := [text for to, text in self.mails if to == email and words in text]):
            assert time.monotonic() < deadline, f"a mail to {email}: {words}"
            time.sleep(0.1)
        return found[-1]

    @property
    def settings(self) -> dict[str, str]:
        """Those by which it is ours."""
        return {
            "TRACKER_MAIL__HOST": "127.0.0.1",
            "TRACKER_MAIL__PORT": f"{self.port}",
            "TRACKER_MAIL__TLS": "none",
            "TRACKER_MAIL__SENDER": "tracker@tracker.example",
        }


@contextmanager
def serving_mailbox() -> Iterator[Mailbox]:
    """Serve one, at a free port."""
    kept = Mailbox()
    controller = Controller(kept, hostname="127.0.0.1", port=kept.port)
    controller.start()
    try:
        yield kept
    finally:
        controller.stop()
