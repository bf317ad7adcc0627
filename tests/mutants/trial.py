"""Tries mutants: each in a pytest of its own, a few at a time; and tells what came of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from devstack.kinds import BEANSTALKD, MONGODB, REDIS
from mutants.mutant import REPOSITORY, Mutant, written
from mutants.plugin import FILE, Failure
from mutants.serving import WHICH

PATIENCE = 120.0
"""Seconds for one mutant's tests; they have shorter deadlines of their own."""

ALL_PATIENCE = 1_200.0
"""Seconds for all tests without a mutant."""

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one mutant. `caught_by` is the first test that failed, None for a survivor."""

    mutant: Mutant
    caught_by: str | None
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class _Run:
    code: int | None
    failures: list[Failure]
    seconds: float
    output: str


class NotGreen(Exception):
    """The tests fail without any mutant too, so they cannot tell."""


def at_once() -> int:
    """How many trials may run together: servers that are not ours are one for all of them."""
    shared = any(os.environ.get(kind.variable) for kind in (BEANSTALKD, REDIS, MONGODB))
    return 1 if shared else 2


def try_all(
    mutants: Sequence[Mutant], ended: Callable[[int], None] = lambda _: None
) -> list[Trial]:
    """Try every mutant, and all their tests without one. Raises NotGreen.

    `ended` hears how many are done.
    """
    with ThreadPoolExecutor(at_once()) as pool:
        control = pool.submit(_pytest, _tests_of(mutants), None)
        begun = [pool.submit(try_one, mutant) for mutant in mutants]
        trials = []
        for trial in begun:
            trials.append(trial.result())
            ended(len(trials))
        plain = control.result()
    if plain.code != 0:
        failed = "".join(f"\n  {each.test}: {each.why}" for each in plain.failures)
        raise NotGreen(f"without a mutant the tests end with {plain.code}:{failed or plain.output}")
    return trials


def try_one(mutant: Mutant) -> Trial:
    """Run one mutant's tests until the first fails."""
    ran = _pytest(mutant.node_ids, mutant)
    first = next((failure for failure in ran.failures), None)
    if first is not None and first.checked:
        return Trial(mutant, first.test.removeprefix("tests/"), ran.seconds, first.why)
    if first is not None:
        why = f"the replacement is broken: {first.why}"
    elif ran.code is None:
        why = f"not over after {PATIENCE:g} s"
    elif ran.code == 0:
        why = "all its tests pass"
    else:
        why = f"pytest ended with {ran.code}: {ran.output}"
    return Trial(mutant, None, ran.seconds, why)


def table(trials: Sequence[Trial]) -> str:
    """Tell what came of all: a row for each, then a line for each survivor."""
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


def _catcher(trial: Trial) -> str:
    if trial.caught_by is None:
        return "nothing"
    file, _, test = trial.caught_by.partition("::")
    return f"{file.removesuffix('.py')}: {test}"


def _tests_of(mutants: Iterable[Mutant]) -> list[str]:
    return list(dict.fromkeys(test for mutant in mutants for test in mutant.node_ids))


def _pytest(tests: Sequence[str], mutant: Mutant | None) -> _Run:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        endings = Path(folder, "endings.json")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants.plugin"]
        command += ["-p", "no:cacheprovider", "--basetemp", str(Path(folder, "tests"))]
        command += ["--tb=short", *(["-x"] if mutant else []), *tests]
        try:
            done = subprocess.run(
                command,
                cwd=REPOSITORY,
                env=_environment(mutant, endings),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=PATIENCE if mutant else ALL_PATIENCE,
            )
        except subprocess.TimeoutExpired:
            return _Run(None, [], time.monotonic() - began, "")
        told = json.loads(endings.read_text()) if endings.exists() else []
    failures = [Failure(**each) for each in told]
    return _Run(done.returncode, failures, time.monotonic() - began, done.stdout[-2000:])


def _environment(mutant: Mutant | None, endings: Path) -> dict[str, str]:
    before = {name: text for name, text in os.environ.items() if name != WHICH}
    path = os.pathsep.join([str(HERE / "at_start"), str(HERE.parent)])
    named = {WHICH: written(mutant)} if mutant else {}
    thorough = {"PORTION": "10", "TIMES": "1"}
    return before | named | thorough | {"PYTHONPATH": path, FILE: str(endings)}
