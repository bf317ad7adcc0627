"""How well statuses are read out of words: measured on the couriers' own wordings.

`python tests/couriers/phrase_precision.py` prints the table; test_phrase_precision.py holds it.

`wordings.tsv` holds a wording a line, with the subtag that its code has in the courier's own list
and where both stand. No line comes from the phrases: where a courier has only words, the line is
one of its module's whole sentences. Some couriers give one code to a delivery, to a shop's and to
the sender's; there the subtag is what the kept answer was written to be.

Half of the wordings, chosen by a hash, are for tuning; the others only for measuring.
"""

from __future__ import annotations

import csv
import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))

from couriers.reading.statuses import (  # noqa: E402 - found by the path above
    Status,
    recognise,
    recognise_end,
    whole,
)
from tracking.checkpoint import FINAL_SUBTAGS, Tag  # noqa: E402 - as above


class Wording(NamedTuple):
    """A sentence, and the subtag that its code has; the same from several couriers counts once."""

    sentence: str
    subtag: str


class Measured(NamedTuple):
    """Of how many wordings something was said, of how many rightly, and of how many it was due."""

    said: int
    right: int
    due: int

    @property
    def precision(self) -> float:
        """The share of what was said that is right."""
        return self.right / self.said if self.said else 0.0


def wordings() -> list[Wording]:
    """All wordings, each once with each meaning it has."""
    with (HERE / "wordings.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return sorted({Wording(whole(row["wording"]), row["subtag"]) for row in rows})


def is_for_tuning(wording: Wording) -> bool:
    """Whether a wording is of the half that the phrases may be tuned on."""
    return hashlib.sha256(wording.sentence.encode()).digest()[0] % 2 == 0


def ends(subtag: str) -> bool:
    """Whether a parcel with this subtag is not asked about again."""
    return subtag in FINAL_SUBTAGS or subtag.startswith((Tag.DELIVERED, Tag.EXPIRED))


def of_ends(among: Iterable[Wording]) -> Measured:
    """Measure what ends a journey: deliveries, returns that have ended."""
    return _measured(among, recognise_end, ends)


def of_all(among: Iterable[Wording]) -> Measured:
    """Measure every status that words give, the ends first."""
    return _measured(among, lambda said: recognise_end(said) or recognise(said), lambda _: True)


def _measured(
    among: Iterable[Wording], read: Callable[[str], Status | None], due: Callable[[str], bool]
) -> Measured:
    listed = [(wording, read(wording.sentence)) for wording in among]
    said = [(wording.subtag, status.subtag) for wording, status in listed if status]
    right = sum(_meaning(told) == _meaning(read) for told, read in said)
    return Measured(len(said), right, sum(due(wording.subtag) for wording, _ in listed))


def _meaning(subtag: str) -> str:
    """Tell the tag, and apart from it the exceptions after which nothing happens any more."""
    return subtag if subtag in FINAL_SUBTAGS else subtag.partition("_")[0]


def table() -> str:
    """Both halves, for a person."""
    lines = [f"{'half':<9} {'what':<15} {'wordings':>8} {'said':>5} {'right':>5} {'precision':>9}"]
    for name, tuned in (("tuned on", True), ("measured", False)):
        half = [each for each in wordings() if is_for_tuning(each) == tuned]
        for what, measured in (("ends", of_ends(half)), ("all statuses", of_all(half))):
            said, right, due = measured
            share = f"{measured.precision:.3f}"
            lines.append(f"{name:<9} {what:<15} {due:>8} {said:>5} {right:>5} {share:>9}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
