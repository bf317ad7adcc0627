"""The table in docs/reliability.md says of every mutant what came of it when it was last run."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants import report
from mutants.mutant import Mutant
from mutants.trial import Trial

FIRST, SECOND, THIRD = (
    Mutant(name, "I1", "worker.py", "", "", ()) for name in ("one is lost", "two", "three")
)
CATALOGUE = (FIRST, SECOND, THIRD)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    made = tmp_path / "page.md"
    made.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    return made


def caught(mutant: Mutant, test: str = "it_is_noticed") -> Trial:
    return Trial(mutant, f"couriers/test_addresses.py::test_{test}", 1.0, "")


def survived(mutant: Mutant) -> Trial:
    return Trial(mutant, None, 1.0, "all its tests pass")


def rows(page: Path) -> list[str]:
    return [line for line in page.read_text().splitlines() if line.startswith("| ")][1:]


def summary(page: Path) -> str:
    return page.read_text().partition(report.END)[0].splitlines()[-1]


def test_the_table_is_written_between_its_markers(page: Path) -> None:
    report.write([caught(FIRST, "a_step_upwards[..]")], [FIRST], page)

    text = page.read_text()
    assert rows(page) == ["| one is lost | I1 | `worker.py` | a step upwards |"]
    assert (text.startswith("before\n"), text.endswith("\nafter\n")) == (True, True)
    assert "old" not in text


def test_a_run_of_some_changes_no_row_of_the_others(page: Path) -> None:
    report.write([caught(FIRST), caught(SECOND, "this"), survived(THIRD)], CATALOGUE, page)
    before = rows(page)

    report.write([caught(SECOND, "that")], CATALOGUE, page)

    assert rows(page) == [before[0], "| two | I1 | `worker.py` | that |", before[2]]


def test_a_mutant_that_nobody_ran_yet_is_named_as_such(page: Path) -> None:
    report.write([caught(SECOND)], CATALOGUE, page)
    report.write([caught(SECOND)], CATALOGUE, page)

    assert rows(page) == [
        "| one is lost | I1 | `worker.py` | not run yet |",
        "| two | I1 | `worker.py` | it is noticed |",
        "| three | I1 | `worker.py` | not run yet |",
    ]


def test_the_rows_are_those_of_the_catalogue_in_its_order(page: Path) -> None:
    report.write([caught(each) for each in CATALOGUE], CATALOGUE, page)
    one, _, three = rows(page)

    report.write([], (THIRD, FIRST), page)

    assert rows(page) == [three, one]


def test_the_summary_counts_what_was_caught_what_survived_and_what_was_not_run(page: Path) -> None:
    report.write([caught(SECOND)], CATALOGUE, page)
    report.write([survived(THIRD)], CATALOGUE, page)

    assert summary(page) == (
        "Of 3 mutants, each as it was last run by `make mutants`: 1 caught, 1 survived,"
        " 1 not run yet."
    )


def test_a_page_without_its_markers_is_left_alone(page: Path) -> None:
    page.write_text("no markers")

    with pytest.raises(report.NoMarkers):
        report.write([caught(FIRST)], [FIRST], page)

    assert page.read_text() == "no markers"
