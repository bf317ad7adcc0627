"""The tables: for a terminal, for programs, and for docs/reliability.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mutants.mutant import REPOSITORY
from mutants.trial import Trial

PAGE = REPOSITORY / "docs" / "reliability.md"
BEGIN, END = "<!-- mutants:begin -->", "<!-- mutants:end -->"


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


def page(trials: Sequence[Trial]) -> str:
    """The part of docs/reliability.md between its markers."""
    lines = ["| the code, changed so that | breaks | in | is caught by |", "|---|---|---|---|"]
    for trial in trials:
        mutant = trial.mutant
        lines.append(f"| {mutant.name} | {mutant.breaks} | `{mutant.where}` | {_cell(trial)} |")
    caught = sum(trial.caught_by is not None for trial in trials)
    lines += ["", f"{caught} of {len(trials)} caught: `make mutants`."]
    return "\n".join(lines)


def write(part: str, document: Path = PAGE) -> None:
    """Put the part between the markers of a page. Raises NoMarkers."""
    before, begin, rest = document.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoMarkers(f"there must be a line {BEGIN} and after it one {END}")
    document.write_text(f"{before}{BEGIN}\n{part}\n{END}{after}", "utf-8")


def _catcher(trial: Trial) -> str:
    if trial.caught_by is None:
        return "nothing"
    file, _, test = trial.caught_by.partition("::")
    return f"{file.removesuffix('.py')}: {test}"


def _cell(trial: Trial) -> str:
    if trial.caught_by is None:
        return "**nothing**"
    test = trial.caught_by.partition("::")[2].partition("[")[0]
    return test.removeprefix("test_").replace("_", " ")
