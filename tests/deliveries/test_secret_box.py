"""How secrets of destinations are kept."""

from __future__ import annotations

import pytest

from service.worker.deliveries.secret_box import BadKeys, SecretBox, Unreadable, new_key

SECRET, OWNER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "service 1"

KEY = "a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


def test_what_was_closed_for_an_owner_opens_for_that_owner() -> None:
    box = SecretBox.of(new_key("a"))
    closed = box.closed(SECRET, OWNER)
    assert SECRET not in closed
    assert box.opened(closed, OWNER) == SECRET


def test_moved_to_another_owner_it_cannot_be_read() -> None:
    box = SecretBox.of(new_key("a"))
    with pytest.raises(Unreadable):
        box.opened(box.closed(SECRET, OWNER), "service 2")


def test_while_keys_change_the_first_encrypts_and_both_decrypt() -> None:
    old, new = new_key("old"), new_key("new")
    closed = SecretBox.of(old).closed(SECRET, OWNER)
    both = SecretBox.of(f"{new}\n{old}\n")
    assert both.opened(closed, OWNER) == SECRET
    assert not both.is_current(closed)
    assert both.is_current(both.closed(SECRET, OWNER))
    assert SecretBox.of(new).opened(both.closed(SECRET, OWNER), OWNER) == SECRET


def test_without_its_key_the_error_names_that_keys_id() -> None:
    closed = SecretBox.of(new_key("old")).closed(SECRET, OWNER)
    with pytest.raises(Unreadable, match="'old'") as error:
        SecretBox.of(new_key("new")).opened(closed, OWNER)
    assert error.value.key == "old"


def test_another_key_under_the_same_id_opens_nothing() -> None:
    closed = SecretBox.of(new_key("a")).closed(SECRET, OWNER)
    with pytest.raises(Unreadable):
        SecretBox.of(new_key("a")).opened(closed, OWNER)


@pytest.mark.parametrize("text", ["", "a", "a:", "a:!!!", "a:AAAA", "a:AAAA\x00", "no text at all"])
def test_what_nobody_closed_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        SecretBox.of(new_key("a")).opened(text, OWNER)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no key is set"),
        ("a", "key 1 is not ID:BASE64"),
        (f"{KEY} b:c2hvcnQ=", "key 2 is not ID:BASE64 of 32 bytes"),
        (f"{KEY} {KEY}", "two keys are called 'a'"),
    ],
)
def test_keys_that_cannot_be_used_are_refused_and_not_shown(text: str, said: str) -> None:
    with pytest.raises(BadKeys, match=said) as error:
        SecretBox.of(text)
    assert "c2hvcnQ" not in str(error.value)
