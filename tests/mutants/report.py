"""The tables: for a terminal, for programs, and for docs/reliability.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mutants.mutant import REPOSITORY, Mutant
from mutants.trial import Trial

PAGE = REPOSITORY / "docs" / "reliability.md"
BEGIN, END = "<!-- mutants:begin -->", "<!-- mutants:end -->"
NOTHING, NOT_RUN = "**nothing**", "not run yet"
"""What stands in the place of the test that caught a mutant."""


class NoMarkers(Exception):
    """The page does not hold the two markers in their order."""


def text(trials: Sequence[Trial]) -> str:
    """For a terminal: the table, then a line for each survivor."""
    rows = [("mutant", "breaks", "caught by", "seconds")]
    rows += [
        (trial.mutant.name, trial.mutant.breaks, _catcher(trial), f"{trial.seconds:.1f}")
        for trial in trials
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    alive = [trial for trial in trials if trial.caught_by is None]
    lines += ["", f"{len(trials) - len(alive)} of {len(trials)} mutants were caught."]
    lines += [f"SURVIVED: {trial.mutant.name}: {trial.why}" for trial in alive]
    return "\n".join(lines) + "\n"


def as_json(trials: Sequence[Trial]) -> str:
    """For programs: one object for each mutant."""
    told = [
        {
            "name": trial.mutant.name,
            "breaks": trial.mutant.breaks.split(),
            "where": trial.mutant.where,
            "caught_by": trial.caught_by,
            "seconds": round(trial.seconds, 1),
            "why": trial.why,
        }
        for trial in trials
    ]
    return json.dumps(told, indent=2) + "\n"


def write(trials: Sequence[Trial], catalogue: Sequence[Mutant], document: Path = PAGE) -> None:
    """Bring the table between the markers of a page up to date. Raises NoMarkers.

    It has a row for each mutant of the catalogue: as it came out now, else as the page says it did
    before, else that it was not run yet.
    """
    before, begin, rest = document.read_text("utf-8").partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise NoMarkers(f"there must be a line {BEGIN} and after it one {END}")
    part = _table(_read(table) | {each.mutant.name: _cell(each) for each in trials}, catalogue)
    document.write_text(f"{before}{BEGIN}\n{part}\n{END}{after}", "utf-8")


def _table(catchers: Mapping[str, str], catalogue: Sequence[Mutant]) -> str:
    lines = ["| the code, changed so that | breaks | in | is caught by |", "|---|---|---|---|"]
    told = [catchers.get(mutant.name, NOT_RUN) for mutant in catalogue]
    for mutant, cell in zip(catalogue, told, strict=True):
        lines.append(f"| {mutant.name} | {mutant.breaks} | `{mutant.where}` | {cell} |")
    survived, not_run = told.count(NOTHING), told.count(NOT_RUN)
    counts = f"{len(told) - survived - not_run} caught, {survived} survived, {not_run} not run yet"
    lines += ["", f"Of {len(told)} mutants, each as it was last run by `make mutants`: {counts}."]
    return "\n".join(lines)


def _read(table: str) -> dict[str, str]:
    """The last cell of each row by its first."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {row[0]: row[-1] for row in rows}


def _catcher(trial: Trial) -> str:
    if trial.caught_by is None:
        return "nothing"
    file, _, test = trial.caught_by.partition("::")
    return f"{file.removesuffix('.py')}: {test}"


def _cell(trial: Trial) -> str:
    if trial.caught_by is None:
        return NOTHING
    test = trial.caught_by.partition("::")[2].partition("[")[0]
    return test.removeprefix("test_").replace("_", " ")
