"""The names of keys: scripts name them as limits/keys.py does, for any name of a line."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import pytest
from limits_bench import FAST, Hire, Worker, state
from redis.asyncio import Redis

from limits import keys
from limits.admin.cancel import Cancelled, Canceller, NotCancelled
from limits.admin.forget import Forgetter
from limits.admin.running import running_calls
from limits.admin.snapshot import LineSnapshots
from limits.admin.view import View
from limits.admin.violations import Violations
from limits.keys import MEASURED, TO_ARCHIVE, LineKeys, of_line
from limits.limiter import Policy
from service.http.backend.operation_view import placed, view_of_members
from tracking.line import TRACKING, Line
from tracking.operation import State
from tracking.request import Account, Number, Slug, anonymous_in

LINE = Line("some-courier")
SCRIPT = (files("limits") / "lua/lib/context.lua").read_text()
SHARED = ("lines", "epoch", "status", "forgotten", "history")


@pytest.mark.parametrize("field", [each for each in LineKeys._fields if each not in SHARED])
def test_scripts_name_a_lines_keys_as_we_do(field: str) -> None:
    before, _, behind = getattr(of_line(LINE), field).partition(LINE)
    name = "slug" if field == "answer" else "line"
    written = f"'{before}'" if field == "wait_list" else f"'{before}' .. {name}"

    assert (written + (f" .. '{behind}'" if behind else "")) in SCRIPT


@pytest.mark.parametrize("field", SHARED)
def test_scripts_name_the_keys_of_all_lines_as_we_do(field: str) -> None:
    assert f"'{getattr(of_line(LINE), field)}'" in SCRIPT


def test_an_end_names_the_set_of_what_is_to_be_archived_as_we_do() -> None:
    state = (files("limits") / "lua/lib/state.lua").read_text()

    assert f"'{TO_ARCHIVE}'" in state


def test_what_was_measured_goes_to_the_stream_that_we_read() -> None:
    batch = (files("limits") / "lua/lib/batch.lua").read_text()

    assert f"'{MEASURED}'" in batch


@pytest.mark.parametrize(("script", "keys"), [("survey", 2), ("inspect", 11)])
def test_what_looks_before_a_sweep_names_a_lines_keys_as_we_do(script: str, keys: int) -> None:
    text = (files("limits") / f"lua/{script}.lua").read_text()
    named = set(re.findall(r"'([a-z_]+:)' \.\. line", text))
    ours = {getattr(of_line(LINE), field).partition(LINE)[0] for field in LineKeys._fields}

    assert len(named) == keys
    assert named <= ours


SHOP = Line("~shop")
HOOKS = TRACKING._replace(name="hooks", form=re.compile("~[a-z]+"))
RULES = replace(FAST, concurrent=1, kind=HOOKS)
OF_SHOP = Slug(SHOP)
N001 = Number("N001")


@pytest.fixture
async def worker(hire: Hire) -> Worker:
    """A worker whose only slot is taken, on the line of the shop."""
    hired = await hire(RULES, Policy(kind_of=lambda _: HOOKS))
    await hired.granted("BUSY", slug=OF_SHOP)
    return hired


@pytest.fixture
async def view(redis: Redis) -> View:
    return View(redis, lambda _: RULES)


async def test_an_operation_of_it_is_found_by_its_id_and_has_a_place(
    worker: Worker, view: View
) -> None:
    await worker.parked("N001", slug=OF_SHOP, id="acme/op-1")

    found = view_of_members("acme/op-1", await view.operation("acme/op-1") or {})
    assert (found.slug, found.number) == (SHOP, "N001")
    place = (await placed(view, found)).place

    assert place is not None
    assert (place.list, place.ahead, place.state) == ("manual", 0, State.WAITING)


async def test_a_request_of_it_without_an_id_is_found_by_what_names_it(
    worker: Worker, redis: Redis, view: View
) -> None:
    await worker.parked("N001", job="job-1", slug=OF_SHOP)
    assert anonymous_in("~shop:N001:job-1") == (SHOP, "N001", "job-1")

    canceller = Canceller(redis, lambda _: RULES)
    came = await canceller.cancel(OF_SHOP, N001, "~shop:N001:job-1")

    assert came == Cancelled(1)
    assert await state(redis, "~shop:N001:job-1") == "CANCELLED"
    assert await view.place(SHOP, N001) is None


async def test_an_account_has_its_own_number_and_history_there(
    worker: Worker, redis: Redis, view: View
) -> None:
    await worker.parked("N001", slug=OF_SHOP, id="acme/op-1")
    await worker.parked("N001", slug=OF_SHOP, id="op-1")
    canceller = Canceller(redis, lambda _: RULES)

    await canceller.cancel(OF_SHOP, N001, "acme/op-1")

    assert await redis.exists("tracking:operations:~shop:N001@acme")
    (own,) = await view.operations_of(OF_SHOP, N001, Account("acme"))
    assert (own["id"], own["status"]) == ("acme/op-1", "CANCELLED")
    assert await redis.lrange("wait_list:~shop", 0, -1) == ["N001"]


async def test_people_see_what_runs_and_waits_there(
    worker: Worker, redis: Redis, view: View
) -> None:
    await worker.parked("N001", slug=OF_SHOP)

    (line,) = await view.lines()
    (running,) = await running_calls(redis)

    assert (line.line, line.running, line.waiting_manual) == (SHOP, 1, 1)
    assert (running.line, running.number) == (SHOP, "BUSY")


async def test_figures_and_the_judge_of_limits_leave_out_a_kind_that_they_do_not_know(
    worker: Worker, redis: Redis
) -> None:
    await worker.parked("N001", slug=OF_SHOP)
    violations = Violations(lambda _: RULES)

    assert await LineSnapshots(redis, lambda _: RULES).busy([]) == []
    violations.note(1, "e", [(1, "~shop c-1")])

    assert violations.counts == {}


async def test_it_is_no_courier_whose_requests_are_cancelled_together(
    worker: Worker, redis: Redis
) -> None:
    await worker.parked("N001", slug=OF_SHOP)

    assert await Canceller(redis, lambda _: RULES).couriers() == []


@pytest.mark.usefixtures("worker")
async def test_a_call_that_runs_there_is_not_cut_off_and_may_be_forgotten(redis: Redis) -> None:
    canceller, forgetter = (each(redis, lambda _: RULES) for each in (Canceller, Forgetter))
    call = (await running_calls(redis))[0]

    kept = await canceller.cancel(OF_SHOP, Number("BUSY"), call.operations[0])
    forgotten = await forgetter.forget(OF_SHOP, Number("BUSY"))

    assert kept.kept is NotCancelled.RUNNING
    assert (forgotten.ended, forgotten.calls) == (1, (call.call,))
    assert not await redis.keys(f"{keys.HISTORY}~shop:BUSY")
