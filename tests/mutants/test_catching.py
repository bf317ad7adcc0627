"""The suite catches the most important mutants in `make prove`; `make mutants` tries all of them.

The tests that catch them run in a pytest of their own, two mutants at a time. That they pass
without a mutant is what they themselves tell, elsewhere in this run.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from mutants.catalogue import CATALOGUE
from mutants.mutant import Mutant
from mutants.trial import NotGreen, Trial, at_once, table, try_all, try_one

DAILY = [mutant for mutant in CATALOGUE if mutant.daily]
URLS = "couriers/test_addresses.py::test_a_segment_is_encoded_as_a_whole"
HARMLESS = Mutant(
    name="nothing is changed",
    breaks="I1",
    where="couriers/http/fetch.py",
    old='quote(segment, safe="")',
    new="quote(segment, safe=str())",
    tests=(URLS,),
)


@pytest.fixture(scope="module")
def trials() -> Iterator[dict[str, Future[Trial]]]:
    with ThreadPoolExecutor(at_once()) as pool:
        yield {mutant.name: pool.submit(try_one, mutant) for mutant in DAILY}


@pytest.mark.prove
@pytest.mark.parametrize("mutant", DAILY, ids=lambda mutant: mutant.name)
def test_the_suite_catches_a_mutant(mutant: Mutant, trials: dict[str, Future[Trial]]) -> None:
    trial = trials[mutant.name].result()

    assert trial.caught_by is not None, trial.why


def test_a_change_that_no_test_sees_is_a_survivor() -> None:
    trial = try_one(HARMLESS)

    assert (trial.caught_by, trial.why) == (None, "all its tests pass")
    assert "SURVIVED: nothing is changed: all its tests pass" in table([trial])


def test_code_that_stumbles_is_no_mutant_that_was_caught() -> None:
    trial = try_one(replace(HARMLESS, new="quote(no_such_name)"))

    assert trial.caught_by is None
    assert "NameError" in trial.why


def test_a_test_that_fails_without_any_mutant_tells_nothing() -> None:
    with pytest.raises(NotGreen):
        try_all([replace(HARMLESS, tests=("couriers/test_addresses.py::test_that_is_not_there",))])
