"""Mails: each is written down once, and sent once, as far as a mail server lets it."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult, LoginPassword
from msgspec import structs
from post_office import SHOP, Post, serving, waiting_mails

from service.config.schema import Mail
from service.worker.deliveries.mail import GIVE_UP_AFTER, LINKS, Mailer, MailText, write_mail
from service.worker.results.connection import Store

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)


def write(store: Store, name: str = "one") -> None:
    write_mail(store.mails, name, SHOP, MailText("Subject", "Text\n"))


async def test_a_mail_that_is_not_taken_is_tried_again_later(
    store: Store, smtp: Mail, post: Post
) -> None:
    mailer = Mailer(store, smtp)
    write(store)
    post.answer = "451 try again"
    await mailer.look()
    await mailer.look()

    [waiting] = waiting_mails(store.mails)
    assert (waiting["tries"], "451" in waiting["error"]) == (1, True)
    assert waiting["next_at"] > dt.datetime.now(dt.UTC) + dt.timedelta(seconds=50)
    store.mails.update_one({}, {"$set": {"next_at": NOW}})
    post.answer = "250 OK"
    await mailer.look()

    assert post.subjects == ["Subject"]
    assert waiting_mails(store.mails) == []


async def test_while_no_server_answers_mails_wait(store: Store, smtp: Mail) -> None:
    write(store)

    await Mailer(store, structs.replace(smtp, port=9)).look()

    [waiting] = waiting_mails(store.mails)
    assert waiting["error"]


async def test_a_mail_is_given_up_after_three_days_and_the_log_says_so(
    store: Store, smtp: Mail, post: Post, written: Callable[[], list[dict[str, Any]]]
) -> None:
    write(store)
    store.mails.update_one({}, {"$set": {"made_at": NOW - GIVE_UP_AFTER}})
    post.answer = "550 no such mailbox"

    await Mailer(store, smtp).look()

    assert waiting_mails(store.mails) == []
    assert [each["event"] for each in written()] == ["mail is given up"]


async def test_two_senders_at_once_send_each_mail_once(
    store: Store, smtp: Mail, post: Post
) -> None:
    for number in range(10):
        write(store, str(number))

    await asyncio.gather(Mailer(store, smtp).look(), Mailer(store, smtp).look())

    assert len(post.mails) == 10


async def test_a_mail_that_is_written_twice_is_sent_once_and_names_itself(
    store: Store, smtp: Mail, post: Post
) -> None:
    write(store)
    write(store)

    await Mailer(store, smtp).look()

    [mail] = post.mails
    assert mail["Message-ID"] == "<one@tracker.example>"
    assert (mail["From"], mail["To"]) == ("tracker@tracker.example", SHOP)
    assert mail["Auto-Submitted"] == "auto-generated"
    assert (mail.get_content_type(), mail.get_content()) == ("text/plain", "Text\r\n")


async def test_the_link_in_a_mail_is_not_kept_once_it_is_sent(
    store: Store, smtp: Mail, post: Post
) -> None:
    write(store, f"{LINKS}one")

    await Mailer(store, smtp).look()

    assert post.mails[0].get_content() == "Text\r\n"
    [kept] = store.mails.find()
    assert (kept["text"], kept["error"]) == ("", "")


@pytest.mark.filterwarnings("ignore:.*AUTH.*TLS")  # the server's: it is on loopback
async def test_a_server_that_asks_for_a_login_gets_it(store: Store, smtp: Mail) -> None:
    post = Post()
    logins: list[LoginPassword] = []

    def authenticate(*told: Any) -> AuthResult:
        logins.append(told[-1])
        return AuthResult(success=True)

    server = await serving(post, authenticator=authenticate, auth_require_tls=False)
    login = structs.replace(smtp, port=post.port, user="tracker", password="secret")  # noqa: S106
    write(store)

    await Mailer(store, login).look()
    server.close()

    assert post.subjects == ["Subject"]
    assert logins == [LoginPassword(b"tracker", b"secret")]


async def test_nothing_is_sent_in_the_clear_where_encryption_is_asked_for(
    store: Store, smtp: Mail, post: Post
) -> None:
    write(store)

    await Mailer(store, structs.replace(smtp, tls="starttls")).look()

    assert post.mails == []
    assert len(waiting_mails(store.mails)) == 1
