"""How deliveries are signed."""

from __future__ import annotations

import base64

import pytest

from service.worker.deliveries.signing import BadSecret, aftership, key_of, new_secret, standard

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - published
NAME, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
"""The example that the libraries of Standard Webhooks and its forerunner test themselves with."""


def test_a_delivery_is_signed_as_the_standards_own_example() -> None:
    assert standard([SECRET], NAME, AT, BODY) == {
        "webhook-id": NAME,
        "webhook-timestamp": str(AT),
        "webhook-signature": SIGNATURE,
    }


def test_all_live_secrets_sign_the_newest_first() -> None:
    newer = new_secret()
    both = standard([newer, SECRET], NAME, AT, BODY)["webhook-signature"].split(" ")
    assert both == [standard([newer], NAME, AT, BODY)["webhook-signature"], SIGNATURE]


@pytest.mark.parametrize(
    "change", [{"name": "msg_other"}, {"sent_at": AT + 1}, {"body": BODY + b" "}]
)
def test_name_time_and_every_byte_are_signed(change: dict[str, object]) -> None:
    what: dict[str, object] = {"name": NAME, "sent_at": AT, "body": BODY} | change
    signed = standard([SECRET], what["name"], what["sent_at"], what["body"])  # type: ignore[arg-type]
    assert signed["webhook-signature"] != SIGNATURE


def test_nothing_goes_unsigned() -> None:
    with pytest.raises(BadSecret, match="unsigned"):
        standard([], NAME, AT, BODY)
    with pytest.raises(BadSecret, match="unsigned"):
        aftership("", BODY)


@pytest.mark.parametrize(
    "text",
    ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_no base64!"],
)
def test_a_text_that_is_no_secret_is_refused(text: str) -> None:
    with pytest.raises(BadSecret, match="whsec_"):
        key_of(text)


def test_each_new_secret_is_another_one_of_32_bytes() -> None:
    one, other = new_secret(), new_secret()
    assert one != other
    assert len(key_of(one)) == 32


def test_aftership_signs_the_body_by_the_secrets_text() -> None:
    (signature,) = aftership("Jefe", b"what do ya want for nothing?").values()
    # RFC 4231, test case 2.
    wanted = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert base64.b64decode(signature).hex() == wanted
