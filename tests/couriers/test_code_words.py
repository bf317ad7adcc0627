"""A code's tag and the courier's own words for it agree, or somebody has said which is right."""

from __future__ import annotations

import ast
import csv
from collections.abc import Mapping
from pathlib import Path

import pytest
from code_words import by_words, differences, is_known, tag_of

from couriers import australia_post, bpost, chronopost_france, royal_mail, usps
from couriers.reading import statuses
from couriers.reading.statuses import Status, recognise_end, status_from_words
from tracking.checkpoint import Tag

FOLDER = Path(__file__).resolve().parents[2] / "couriers"

Key = tuple[str, str, str, str]


def verdicts() -> dict[Key, str]:
    path = Path(__file__).parent / "code_verdicts.tsv"
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {
            (row["courier"], row["code"], row["tag"], row["by_words"]): row["verdict"]
            for row in rows
        }


def test_every_difference_has_a_verdict_and_every_verdict_a_difference() -> None:
    found = {tuple(each[:4]): each.words for each in differences()}
    judged = verdicts()

    assert {key: words for key, words in found.items() if key not in judged} == {}
    assert judged.keys() - found.keys() == set()
    assert min(map(len, judged.values())) > 10


def test_a_wrong_code_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(chronopost_france.CODES, "SD", statuses.PROBLEM)
    monkeypatch.setitem(bpost.CODES, "T00", statuses.OUT_FOR_DELIVERY)
    tag_of.cache_clear()
    found = {each[:4] for each in differences()} - verdicts().keys()
    tag_of.cache_clear()

    assert found == {
        ("chronopost-france", "SD", "Exception", "InTransit"),
        ("bpost", "T00", "OutForDelivery", "InTransit"),
    }


WORDED: Mapping[str, Mapping[str, Status]] = {
    "usps": usps.CATEGORIES,
    "australia-post": australia_post.STATUSES,
    "royal-mail": {name.lower(): status for name, status in royal_mail.CATEGORIES.items()},
    "bpost": bpost.SENTENCES,
}
"""Tables of which the keys are words."""

RIGHT = {
    "delivered to agent": "somebody else has it, who is not the addressee",
    "alert": "something is wrong, in a word that no phrase knows",
    "created": "announced, in a word that no phrase knows",
    "initiated": "announced, in a word that no phrase knows",
    "sealed": "announced, in a word that no phrase knows",
    "item available at pick-up point": "waits to be fetched",
    "held by courier": "held: something is wrong",
    "unsuccessful pickup": "still at the sender's, where nobody could collect it",
    "cannot be delivered": "its address is wrong, says the table",
    "final shortage": "a part is missing for good",
    "on board for delivery": "on its round, in words that no phrase knows",
    "to be re-delivered": "an attempt failed before, says the table",
    "confirmation of preparation of the shipment received": "announced by the sender",
    "item is announced / landmark global (bpost) received the information": "announced",
    "the postman's delivery round for your item has started": "on its round",
}
"""Words that differ from what the phrases make of them, and why they are right."""


def test_tables_of_words_agree_with_the_phrases_or_have_a_verdict() -> None:
    differing = {
        words
        for table in WORDED.values()
        for words, status in table.items()
        if status.tag is not (recognise_end(words) or status_from_words(words)).tag
    }

    assert differing == RIGHT.keys()


def test_what_words_alone_may_end_is_the_same_for_both_opinions() -> None:
    assert by_words("ups", "Delivered") == Tag.DELIVERED
    assert by_words("brazil-correios", "Objeto entregue ao remetente") == "Exception_011"
    assert (is_known("ups", "011"), is_known("ups", "999")) == (True, False)


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_a_code_stands_once_in_its_table(path: Path) -> None:
    calls = [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)]

    for call in calls:
        if ast.unparse(call.func) == "statuses.by_code" and isinstance(call.args[0], ast.Dict):
            codes = " ".join(map(ast.literal_eval, call.args[0].values)).split()
            assert len(codes) == len(set(codes))
