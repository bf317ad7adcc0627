"""A mail server on loopback that keeps what it takes, for the tests of alerts and mails."""

from __future__ import annotations

import asyncio
import email
import email.policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session
from pymongo.collection import Collection

from service.worker.results.database import Document

OPERATORS = "operators@tracker.example"
SHOP = "orders@shop.example"


def waiting_mails(mails: Collection[Document]) -> list[Document]:
    """The mails that are not sent, the oldest first."""
    return list(mails.find({"ended_at": None}).sort("made_at"))


class Post:
    """A mail server that keeps what it takes; `answer` is what it says to the next mails."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answer = "250 OK"
        self.port = 0

    async def handle_DATA(  # noqa: N802 - the library's name
        self, _: SMTP, __: Session, envelope: Envelope
    ) -> str:
        if self.answer.startswith("250"):
            taken = email.message_from_bytes(
                bytes(envelope.content or b""), policy=email.policy.default
            )
            assert isinstance(taken, EmailMessage)
            self.mails.append(taken)
        return self.answer

    @property
    def subjects(self) -> list[str]:
        return [str(each["Subject"]) for each in self.mails]

    def to(self, address: str) -> list[str]:
        return [str(each["Subject"]) for each in self.mails if each["To"] == address]


async def serving(post: Post, **options: Any) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(post, **options), "127.0.0.1", 0)
    post.port = server.sockets[0].getsockname()[1]
    return server
