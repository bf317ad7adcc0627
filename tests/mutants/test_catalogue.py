"""The catalogue fits today's source, and breaks everything that is promised."""

from __future__ import annotations

import re

import pytest
from redis import Redis

from limits.script_file import ALONE, BATCH, LIBRARY, OF_LINE, load
from mutants.catalogue import CATALOGUE
from mutants.mutant import REPOSITORY, DoesNotApply, Mutant

EACH = pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)

INVARIANTS = {f"I{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12)}
"""The invariants have no I10."""

FLAWS = {f"F{number}" for number in range(1, 21)}


@EACH
def test_a_mutant_applies_to_todays_source_and_changes_it(mutant: Mutant) -> None:
    source = mutant.file.read_text("utf-8")

    assert mutant.applied(source) != source


@EACH
def test_the_tests_that_a_mutant_names_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.node_ids:
        file, _, name = test.partition("::")
        text = (REPOSITORY / file).read_text("utf-8")
        assert not name or re.search(rf"def {name}\(", text), test


def test_a_text_that_is_not_there_exactly_once_does_not_apply() -> None:
    mutant = Mutant("", "I1", "worker.py", "twice", "never", ())

    for source in ("", "twice twice"):
        with pytest.raises(DoesNotApply):
            mutant.applied(source)


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in CATALOGUE]

    assert sorted(names) == sorted(set(names))


def test_every_invariant_and_every_flaw_of_the_original_is_broken_by_some_mutant() -> None:
    broken = {each for mutant in CATALOGUE for each in mutant.breaks.split()}

    assert broken == INVARIANTS | FLAWS


def test_every_script_and_every_part_of_their_library_has_its_mutant() -> None:
    broken = {mutant.where.removeprefix("limits/lua/") for mutant in CATALOGUE if mutant.is_lua}
    scripts = {f"{name}.lua" for name in (*OF_LINE, *ALONE)}
    parts = {f"lib/{name}.lua" for name in LIBRARY}

    # `started` is nothing but the reports that lib/batch.lua notes for every script.
    assert (scripts | parts) - broken == {"started.lua"}


@pytest.mark.parametrize(
    "mutant", [each for each in CATALOGUE if not each.is_lua], ids=lambda each: each.name
)
def test_a_replaced_module_is_still_python(mutant: Mutant) -> None:
    # Not ast.parse: before Python 3.11.8 it fails where something else parses meanwhile.
    assert compile(
        mutant.applied(mutant.file.read_text("utf-8")), mutant.where, "exec", dont_inherit=True
    )


@pytest.mark.parametrize(
    "mutant", [each for each in CATALOGUE if each.is_lua], ids=lambda each: each.name
)
def test_a_replaced_script_is_still_lua(mutant: Mutant, redis_url: str) -> None:
    scripts, part = load(), mutant.file.read_text("utf-8")
    whole = scripts[mutant.file.stem if mutant.file.stem in ALONE else BATCH].text

    with Redis.from_url(redis_url) as redis:
        assert redis.script_load(whole.replace(part, mutant.applied(part)))
