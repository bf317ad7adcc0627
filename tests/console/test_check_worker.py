"""`check --worker`: a worker of this machine lives when its parent answers and a child beats."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run
from family import Family, Start, until

from service import VERSION
from service.worker.supervisor import pulse as pulses_module
from service.worker.supervisor.pulse import Pulse, pulses

ROOT = Path(__file__).parents[2]


def beating(family: Family, processes: int) -> Pulse:
    """Wait until so many of its processes beat."""

    def beat() -> bool:
        return any(each.beating == processes for each in pulses(family.installation))

    until(beat, f"{processes} processes beat")
    (found,) = pulses(family.installation)
    return found


def test_a_parent_tells_itself_and_how_many_of_its_processes_beat(start: Start) -> None:
    family = start(processes=2)

    found = beating(family, 2)

    assert (found.pid, found.version, found.processes) == (family.parent.pid, VERSION, 2)


def test_a_process_that_has_not_beaten_yet_is_no_sign_of_life(start: Start) -> None:
    family = start("slow", processes=1)
    family.await_started(1)

    (found,) = pulses(family.installation)

    assert (found.processes, found.beating) == (1, 0)


def test_nothing_is_left_of_a_killed_parent_and_the_other_worker_is_found(start: Start) -> None:
    first, second = start(processes=1), start(processes=1)
    until(lambda: len(list(pulses(first.installation))) == 2, "both answer")

    first.parent.kill()
    first.parent.wait()

    assert [each.pid for each in pulses(first.installation)] == [second.parent.pid]


def test_a_parent_that_hangs_does_not_answer(start: Start) -> None:
    family = start(processes=1)
    beating(family, 1)
    os.kill(family.parent.pid, signal.SIGSTOP)
    try:
        found = list(pulses(family.installation, patience=0.2))
    finally:
        os.kill(family.parent.pid, signal.SIGCONT)

    assert found == [Pulse(family.parent.pid)]
    assert beating(family, 1), "those that asked and went away do no harm"


def test_check_worker_is_well_while_every_server_is_away(offline: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.touch()
    started = [sys.executable, "worker.py", "--config", str(config)]
    nobody = offline("check", "--worker", "--config", str(config))
    with subprocess.Popen(started, cwd=ROOT, stdout=subprocess.DEVNULL) as worker:
        try:

            def lives() -> bool:
                return offline("check", "--worker", "--config", str(config)).code == 0

            until(lives, "the worker lives")
            config.write_text("this is [ no TOML")
            one = offline("check", "--worker", "--json", "--config", str(config))
        finally:
            worker.terminate()

    assert (nobody.code, nobody.lines) == (1, [f"not ok: no worker runs here with {config}"])
    assert (one.code, one.json[0]["ok"]) == (0, True)
    assert [each["pid"] for each in one.json[0]["workers"]] == [worker.pid]


@pytest.mark.parametrize(
    ("pulse", "words"),
    [
        (Pulse(7), "worker 7 does not answer"),
        (Pulse(7, "0.1.0", 0.0, 4, 3), "3 of 4 processes beat"),
    ],
)
def test_each_worker_is_told_in_words(
    pulse: Pulse, words: str, offline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulses_module, "pulses", lambda _: iter([pulse]))

    done = offline("check", "--worker")

    assert words in done.out
    assert (done.code, len(done.lines)) == (0 if pulse.beating else 1, 1)
