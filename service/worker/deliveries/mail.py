"""Mails: written down in the collection `mails`, and sent by one process at a time.

========== =====================================================================================
member     is
========== =====================================================================================
`_id`      names what the mail is about, so that the same mail is written once; its Message-ID
`account`, `about` of an alert: who hears, "" for operators, and of what (`alerts` has its `_id`)
`to`, `subject`, `text`; the text of a mail with a link goes when it ends
`made_at`  when it was written down
`next_at`  when it is tried next; a sender moves that ahead first, so that no other one tries it
`tries`    how often it was tried
`ended_at` when the server took it, or it was given up; 30 days later it goes
`error`    why it was given up, or was not taken the last time
========== =====================================================================================

A process that vanishes between the server's acceptance and its note leaves the mail to be sent once
more, under the same Message-ID.
"""

from __future__ import annotations

import datetime as dt
from email.message import EmailMessage
from email.utils import format_datetime
from typing import NamedTuple

from pymongo import ReturnDocument
from pymongo.collection import Collection

from service.config.schema import Mail
from service.observe.events import Event
from service.observe.log import emit
from service.worker.results.connection import Store
from service.worker.results.database import Document

LINKS = "link-"
"""The beginning of the name of a mail with a link that opens something: once it is sent, or given
up, its text goes."""

PERIOD_SECONDS = 5.0
TIMEOUT_SECONDS = 30.0
"""How long a server may take for one mail."""

CLAIM = dt.timedelta(minutes=2)
"""For so long nobody else tries a mail that is being sent."""

FIRST = dt.timedelta(minutes=1)
CAP = dt.timedelta(hours=2)
GIVE_UP_AFTER = dt.timedelta(days=3)
"""A mail is tried after 1, 2, 4 … minutes, then every two hours: 40 times in three days."""

TOGETHER_MOST = 50
"""Mails of one look: a server that answers slowly keeps none longer from being claimed again."""


class MailText(NamedTuple):
    """What a mail says."""

    subject: str
    text: str


class About(NamedTuple):
    """Of what people are alerted by a mail: the id of its alert, or `digest`, and the account."""

    alert: str
    account: str


def write_mail(
    mails: Collection[Document], name: str, to: str, says: MailText, about: About | None = None
) -> None:
    """Write a mail down, once. Raises PyMongoError: repeat it."""
    now = dt.datetime.now(dt.UTC)
    mail = {"to": to, **says._asdict(), "made_at": now, "next_at": now}
    made: Document = mail | {"tries": 0, "ended_at": None, "error": ""}
    if about:
        made |= {"account": about.account, "about": about.alert}
    mails.update_one({"_id": name}, {"$setOnInsert": made}, upsert=True)


class Mailer:
    """Sends what is written down."""

    def __init__(self, store: Store, smtp: Mail) -> None:
        self._store = store
        self._smtp = smtp

    async def look(self) -> None:
        """Send the mails that are due. Raises ResultsDown."""
        mails = self._store.mails
        for _ in range(TOGETHER_MOST):
            mail = await self._store.in_background(claim, mails, dt.datetime.now(dt.UTC))
            if mail is None:
                return
            error = await send(self._smtp, mail)
            now = dt.datetime.now(dt.UTC)
            given_up = bool(error) and now - mail["made_at"] >= GIVE_UP_AFTER
            if error:
                event = Event.MAIL_LOST if given_up else Event.MAIL_WAITS
                emit(event, mail=mail["_id"], error=error, server=self._smtp.host)
            ended_at = now if given_up or not error else None
            next_at = now + min(CAP, FIRST * 2 ** min(mail["tries"] - 1, 10))
            change: Document = {"ended_at": ended_at, "next_at": next_at, "error": error}
            if ended_at and mail["_id"].startswith(LINKS):
                change["text"] = ""
            await self._store.in_background(note_sent, mails, mail["_id"], change)


def claim(mails: Collection[Document], now: dt.datetime) -> Document | None:
    """Take the oldest mail that is due, for a while; None: none is. Raises PyMongoError."""
    due = {"ended_at": None, "next_at": {"$lte": now}}
    change = {"$set": {"next_at": now + CLAIM}, "$inc": {"tries": 1}}
    return mails.find_one_and_update(
        due, change, sort=[("next_at", 1)], return_document=ReturnDocument.AFTER
    )


def note_sent(mails: Collection[Document], name: str, change: Document) -> None:
    """Note what became of a try. Raises PyMongoError."""
    mails.update_one({"_id": name}, {"$set": change})


class NotTaken(Exception):
    """The server did not take a mail; the text says why."""


async def send(smtp: Mail, mail: Document) -> str:
    """Hand a mail to the server; tells why it was not taken, "" if it was."""
    try:
        await hand_over(smtp, mail)
    except NotTaken as error:
        return f"{error}"
    return ""


async def hand_over(smtp: Mail, mail: Document, seconds: float = TIMEOUT_SECONDS) -> str:
    """Hand a mail to the server; gives what it answered. Raises NotTaken."""
    # Many processes have no mail to send.
    import aiosmtplib  # noqa: PLC0415 - see above

    try:
        _, answer = await aiosmtplib.send(
            message_of(smtp, mail),
            hostname=smtp.host,
            port=smtp.port,
            use_tls=smtp.tls == "tls",
            start_tls=smtp.tls == "starttls",
            username=smtp.user or None,
            password=smtp.password or None,
            timeout=seconds,
        )
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        raise NotTaken(f"{type(error).__name__}: {error}"[:500]) from error
    return answer


def message_of(smtp: Mail, mail: Document) -> EmailMessage:
    """Make the message of a mail: plain text, the same for each try."""
    message = EmailMessage()
    message["From"] = smtp.sender
    message["To"] = mail["to"]
    message["Subject"] = mail["subject"]
    message["Date"] = format_datetime(mail["made_at"])
    message["Message-ID"] = f"<{mail['_id']}@{smtp.sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(mail["text"])
    return message
