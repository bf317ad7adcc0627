"""All mutants, by the part of the system that they break: a text file for each part.

A text begins with what its mutants break. Each of them is a paragraph: a line with its name, what
it breaks and where, and "daily" where `make prove` tries it too; the lines that are replaced behind
a `-`, what they become behind a `+`; then the tests that must catch it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mutants.mutant import Mutant


def mutants_in(text: str) -> Iterator[Mutant]:
    """Read the mutants of a part, in their order."""
    for paragraph in text.split("\n\n")[1:]:
        head, *lines = paragraph.splitlines()
        name, breaks, where, *daily = head.split(" | ")
        old, new = ("\n".join(each[1:] for each in lines if each[0] == sign) for sign in "-+")
        tests = tuple(each for each in lines if each[0] not in "-+")
        yield Mutant(name, breaks, where, old, new, tests, daily=daily == ["daily"])


CATALOGUE: tuple[Mutant, ...] = tuple(
    mutant
    for part in sorted(Path(__file__).parent.glob("*.txt"))
    for mutant in mutants_in(part.read_text("utf-8"))
)
