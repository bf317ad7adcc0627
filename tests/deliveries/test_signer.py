"""Who signs attempts: by the secrets of the service, as the keys of this process open them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from service.config import schema
from service.config.schema import Config, Webhooks
from service.worker.deliveries.destination import NOTHING_MORE, allowed_of, parse_destination
from service.worker.deliveries.secret_box import SecretBox, Unreadable, new_key
from service.worker.deliveries.service import Format, SealedSecret, Service
from service.worker.deliveries.signing import BadSecret, Signer, aftership, new_secret, standard
from tracking.request import MAIN

KEYS = new_key("a")
AT = dt.datetime(2026, 11, 26, 4, 0, 0, 250_000, tzinfo=dt.UTC)
NEW, OLD = new_secret(), new_secret()
BODY = b'{"type": "parcel.changed"}'
PLAIN = Service("s" * 16, MAIN, "erp", "https://a.example/", (), made_at=AT)
BOX = SecretBox.of(KEYS)


def having(*secrets: tuple[str, dt.datetime | None], owner: str = PLAIN.id) -> Service:
    sealed = (SealedSecret(BOX.closed(text, owner), ends_at) for text, ends_at in secrets)
    return replace(PLAIN, secrets=tuple(sealed))


def test_all_secrets_sign_that_are_live_at_the_attempt() -> None:
    service = having((NEW, None), (OLD, AT + dt.timedelta(seconds=1)), (new_secret(), AT))

    signed = Signer(BOX)(service, "ID", AT, BODY)

    assert signed == standard([NEW, OLD], "ID", int(AT.timestamp()), BODY)


def test_aftership_s_format_is_signed_by_the_newest_secret() -> None:
    service = replace(having((NEW, None), (OLD, None)), format=Format.AFTERSHIP)

    assert Signer(BOX)(service, "ID", AT, BODY) == aftership(NEW, BODY)


@pytest.mark.parametrize("box", [None, SecretBox.of(new_key("b")), SecretBox.of(new_key("a"))])
def test_a_process_without_the_right_key_signs_nothing(box: SecretBox | None) -> None:
    with pytest.raises(Unreadable) as caught:
        Signer(box)(having((NEW, None)), "ID", AT, BODY)

    assert caught.value.key == "a"


def test_the_secret_of_another_service_signs_nothing() -> None:
    with pytest.raises(Unreadable):
        Signer(BOX)(having((NEW, None), owner="another"), "ID", AT, BODY)


@pytest.mark.parametrize("format", Format)
def test_a_service_without_a_secret_is_never_served_unsigned(format: Format) -> None:  # noqa: A002
    with pytest.raises(BadSecret):
        Signer(BOX)(replace(PLAIN, format=format), "ID", AT, BODY)


def test_what_an_operator_allows_an_account_is_allowed_to_no_other() -> None:
    allowed = schema.Allowed(networks=("10.1.0.0/16",), http=True, ports=(8080,))
    config = Config(webhooks=Webhooks(allowed={"shop": allowed}))

    found = allowed_of(config, "shop")

    assert parse_destination("http://10.1.2.3:8080/", found)
    assert allowed_of(config, "main") == NOTHING_MORE
