"""Worlds that are broken on purpose are found out: else the judges of the others prove nothing."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from rich.console import Console
from simulated import __main__ as command
from simulated.batch import Batch, Outcome, live
from simulated.scripting import Scripting
from simulated.world import Breakage

from limits.script_file import load
from service.ports import Job
from service.worker.deliveries import store as deliveries
from service.worker.deliveries.filler import Filler
from service.worker.deliveries.outbox import Inserted
from service.worker.deliveries.store import Found, read
from service.worker.flow.call import CallEnds, CallRunner, Stores, WorkOf
from service.worker.flow.handle import Handler
from service.worker.flow.tasks import CallSlots, Tasks
from service.worker.wiring import webhooks
from tracking.call import Call, TakeResult, Verdict

MOST_TRIED = 60
"""Seeds. A fault that the breakage needs may be off in many of them."""


class DeletesFirst(Handler):
    """Lets go of the last copy before it has made the next one."""

    async def handle(self, job: Job) -> None:
        await job.delete()
        await super().handle(job)


class StoresNothing(CallEnds):
    """Finishes calls as if their outcomes were durable."""

    async def durably(self, call: Call, store: Callable[[], Awaitable[None]]) -> None:
        assert call.id
        assert store


class NeverFinishes(CallEnds):
    """Keeps every slot until its lease ends."""

    async def finish(
        self, ends: Sequence[tuple[Call, Verdict]], *, last: bool = True
    ) -> TakeResult:
        assert last is not None
        assert all(call.id and verdict.state for call, verdict in ends)
        return TakeResult()


def with_ends(kind: type[CallEnds]) -> Breakage:
    """Wire runners of calls that end these in another way into every worker."""

    class Runner(CallRunner):
        def __init__(self, work_of: WorkOf, stores: Stores, tasks: Tasks, slots: CallSlots) -> None:
            super().__init__(work_of, stores, tasks, slots)
            self.ends = kind(work_of, stores, slots)

    return with_part("CallRunner", Runner)


def with_part(name: str, part: type) -> Breakage:
    """Wire a part of another kind into every worker."""
    return Breakage(parts=lambda parts: parts | {name: part})


def with_script(of: str, what: str) -> Breakage:
    """Change the scripts in which `of` stands."""
    assert any(of in script.text for script in load().values()), f"no script says: {of}"
    return Breakage(scripts=lambda text: text.replace(of, what))


BROKEN: dict[str, tuple[str, Any]] = {
    "the job is deleted before anything is durable": (
        "I1",
        lambda: with_part("Handler", DeletesFirst),
    ),
    "the answer is not stored": (
        "I1",
        lambda: with_ends(StoresNothing),
    ),
    "an id is answered with another parcel's result": (
        "I1",
        lambda: with_script("  if other then\n    tally", "  if false then\n    tally"),
    ),
    "finish is forgotten": (
        "I7",
        lambda: with_ends(NeverFinishes),
    ),
    "the rate is not looked at": (
        "I3",
        lambda: with_script("if free <= now + rules.ahead_us then", "if true then"),
    ),
    "calls in flight are not looked at": (
        "I2",
        lambda: with_script("if ends then return nil", "if false then return nil"),
    ),
    "a lease is shorter than a call": (
        "I2",
        lambda: with_script("LEASES, digits(now + rules.lease_us), id", "LEASES, now + 100000, id"),
    ),
    "the sweeper finds no lost call": (
        "I7",
        lambda: with_script("not leased[lead] and record_in(", "false and record_in("),
    ),
    "an end is counted twice": (
        "I8",
        lambda: with_script(
            "count_end(verdict.state)\n", "count_end(verdict.state) tally_end(operation, verdict)\n"
        ),
    ),
    "starts are kept for ever": (
        "I5",
        lambda: with_script("call('PEXPIRE', STARTS", "call('EXISTS', STARTS"),
    ),
    "a dying request is tried for ever": (
        "I9",
        lambda: with_script("record.deaths > rules.deaths or nil", "nil"),
    ),
}


def assert_broken(promise: str, first: int, *breakage: Breakage) -> None:
    """Live through worlds, from the `first` seed on, until the promise breaks in one."""
    scripting, told = Scripting(), list[str]()
    for seed in range(first, first + MOST_TRIED):
        told += live(seed, scripting, *breakage).breaches
        if any(promise in breach.partition(":")[0] for breach in told):
            return
    pytest.fail(f"none of {MOST_TRIED} worlds broke {promise}, only {told[:3]}")


@pytest.mark.prove
@pytest.mark.parametrize("name", BROKEN)
def test_a_world_that_is_broken_on_purpose_is_found_out(name: str) -> None:
    promise, broken = BROKEN[name]
    assert_broken(promise, 1, broken())


def read_without_rows(stores: Any, ids: Sequence[str]) -> list[Found | None]:
    """Find no attempt that is stored."""
    return [found and found._replace(row=None) for found in read(stores, ids)]


def insert_nothing(*_: object) -> Inserted:
    """Take a change for told of which nobody will hear."""
    return Inserted([], {})


OF_DELIVERIES: dict[str, tuple[str, int, Any, str, Any]] = {
    "a change loses its mark before anybody is to hear of it": (
        "H1",
        55,
        webhooks,
        "insert",
        insert_nothing,
    ),
    "an ordered service is filled like any other": (
        "H2",
        2004,
        Filler,
        "_fill_ordered",
        Filler._fill,  # noqa: SLF001 - what it is broken with
    ),
    "an attempt that is stored is not looked for": (
        "H4",
        201,
        deliveries,
        "read",
        read_without_rows,
    ),
}
"""The promise, the seed from which on it is looked for, and what is replaced."""


@pytest.mark.prove
@pytest.mark.parametrize("name", OF_DELIVERIES)
def test_a_world_with_broken_deliveries_is_found_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    promise, seed, owner, replaced, by = OF_DELIVERIES[name]
    monkeypatch.setattr(owner, replaced, by)

    assert_broken(promise, seed)


def outcome(*breaches: str) -> Outcome:
    nothing: Counter[str] = Counter()
    return Outcome(7, "", breaches, ("one", "two"), nothing, nothing, 1, 1, 1, 1.0, 1.0)


@pytest.mark.parametrize(("breaches", "code"), [((), 0), (("I1: lost",), 1)])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_fails_when_a_promise_was_broken(
    monkeypatch: pytest.MonkeyPatch, breaches: tuple[str, ...], code: int, form: list[str]
) -> None:
    def run(seeds: range, _: object) -> Batch:
        batch = Batch(real_seconds=1.0)
        for _ in seeds:
            batch.add(outcome(*breaches))
        return batch

    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr(command, "run", run)

    assert command.main(["--seed", "7", "--seeds", "1", *form]) == code


def test_a_batch_that_never_saw_a_fault_proves_little(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = Batch(real_seconds=1.0)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr(command, "run", lambda *_: calm)

    assert command.main(["--seeds", str(command.ENOUGH_SEEDS)]) == 1
    assert command.main(["--seeds", str(command.ENOUGH_SEEDS - 1)]) == 0


def test_a_broken_world_is_told_with_the_command_that_repeats_it() -> None:
    shown = io.StringIO()

    command.explain(outcome("I1: lost"), Console(file=shown, width=200))

    assert shown.getvalue().startswith(
        "one\ntwo\n\nseed 7: I1: lost\nagain: make simulate SEED=7 SEEDS=1\n"
    )
