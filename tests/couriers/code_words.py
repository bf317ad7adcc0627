"""Where a code's tag and the courier's own words for that code differ.

`python tests/couriers/code_words.py` prints the differences; test_code_words.py holds the verdicts.

`code_words.tsv` holds what couriers' own lists and recorded answers say beside a code; the lines of
`wordings.tsv` that have a code count too, but for those whose words say to whom. The tag of a code
is what its module makes of an answer that holds the code alone. The second opinion is that of the
phrases, which know no code; words in Portuguese and in French have phrases here.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

from parser_subjects import NUMBER, SUBJECTS, Subject  # noqa: E402 - found by the path above

from couriers.reading.statuses import recognise_end, status_from_words  # noqa: E402 - as above
from tracking.checkpoint import FINAL_SUBTAGS  # noqa: E402 - as above

AT = "2026-01-05T08:15:00"
ELSEWHERE = ("which says to whom", "statusCategory of its API")
"""How the sources end of words that are right to differ, or that are no event's."""

_PORTUGUESE = (
    (r"entregue ao remetente", "Exception_011"),
    (r"entregue ao destinatário", "Delivered"),
    (r"entregue na caixa|aguardando retirada|encaminhado para retirada", "AvailableForPickup"),
    (r"devol(?:vido|ução)", "Exception"),
    (r"remetente", "Exception"),
    (r"saiu para entrega ao destinatário", "OutForDelivery"),
    (r"não localizado no fluxo|roubado|extravi", "Exception_013"),
    (r"pagamento (?:não|do|encerrado)|aguardando pagamento|prazo de pagamento", "Exception"),
    (r"não atendido|nova tentativa", "AttemptFail"),
    (r"desbloque", "InTransit"),
    (r"apreen|refug|destru|incêndio|avariad|danificad|bloque|suspensão|recusou", "Exception"),
    (r"não|faltam|necessári|problemas|impossibilitando|desconhecida", "Exception"),
    (r"cancelada|desistência|aguardando órgão|verificando situação", "Exception"),
    (r"a coletar|coletando|pedido|tentativa de coleta|objeto na agência", "InfoReceived"),
    (r"fiscaliza|encaminhado|recebido|liberado|pagamento confirmado|destinado", "InTransit"),
)

_FRENCH = (
    (r"livraison effectuée", "Delivered"),
    (r"mis à disposition", "AvailableForPickup"),
    (r"^echec", "AttemptFail"),
    (r"retardé|reportée|en attente|en retour", "Exception"),
    (r"en cours de livraison$", "OutForDelivery"),
    (r"tri effectué|acheminement|pris en charge|entré", "InTransit"),
)


class Said(NamedTuple):
    """A courier's code, and its own words for it."""

    slug: str
    code: str
    words: str


class Difference(NamedTuple):
    """What a code means in its module, and what its words say; tags, or an end's subtag."""

    slug: str
    code: str
    tag: str
    by_words: str
    words: str


def said() -> Iterator[Said]:
    """Give every code with words of its courier's."""
    for name, column in (("code_words.tsv", "words"), ("wordings.tsv", "wording")):
        with (HERE / name).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                if row["code"] != "-" and not row["source"].endswith(ELSEWHERE):
                    yield Said(row["courier"], row["code"], row[column])


def differences() -> list[Difference]:
    """List every code whose words say another tag than its module."""
    found = set()
    for each in said():
        tag, words = tag_of(each.slug, each.code), by_words(each.slug, each.words)
        if tag != words:
            found.add(Difference(each.slug, each.code, tag, words, each.words))
    return sorted(found)


@cache
def tag_of(slug: str, code: str) -> str:
    """Tell what a module makes of a code alone."""
    told = [_tag(subject, code) for subject in _subjects(slug)]
    return next((tag for tag, known in told if known), told[0][0])


def is_known(slug: str, code: str) -> bool:
    """Whether a module has a meaning for a code."""
    return any(_tag(subject, code)[1] for subject in _subjects(slug))


def by_words(slug: str, words: str) -> str:
    """Tell what words say; those that no phrase knows say "in transit"."""
    for spoken, rules in (("brazil-correios", _PORTUGUESE), ("chronopost-france", _FRENCH)):
        found = [tag for rule, tag in rules if re.search(rule, words, re.IGNORECASE)]
        if slug == spoken and (found or slug == "brazil-correios"):
            return found[0] if found else "InTransit"
    return _meaning((recognise_end(words) or status_from_words(words)).subtag)


def _subjects(slug: str) -> list[Subject]:
    name = f"couriers.{slug.replace('-', '_')}"
    return [each for each in SUBJECTS if each.module.__name__ == name]


def _tag(subject: Subject, code: str) -> tuple[str, bool]:
    body = subject.encode(subject.answer([(AT, "", code)]))
    told = subject.module.parse(200, {}, body, NUMBER)
    [point] = told.checkpoints
    return _meaning(point.subtag), not told.unknown_codes


def _meaning(subtag: str) -> str:
    """Tell the tag, and apart from it the exceptions after which nothing happens any more."""
    return subtag if subtag in FINAL_SUBTAGS else subtag.partition("_")[0]


if __name__ == "__main__":
    for line in differences():
        sys.stdout.write("\t".join(line) + "\n")
