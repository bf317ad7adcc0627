"""What a worker knows of lines, while lines of several kinds come and go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from flow_ports import REQUEST, USPS, Journal, Mirror, Scene

from couriers.http.credentials import CourierSettings
from couriers.registry import Registry
from limits.rules import Changes, RuleBook, Rules
from service.config.schema import Config
from service.worker.tubes.envelope import decode_drain, encode_drain
from service.worker.wiring.lines import AllLines, CourierLines, LineWork, MirrorOfOperations
from tracking.errors import UnknownLine
from tracking.line import TRACKING, Line
from tracking.request import Slug

SHOP, OTHER = Line("~shop"), Line("~other")
HOOKS = TRACKING._replace(name="hooks", form=re.compile("~[a-z]+"), operations=False)


@dataclass
class Hooks:
    """Lines of the kind HOOKS, each with a rate of its own."""

    rules: dict[Line, Rules] = field(default_factory=lambda: {SHOP: Rules(kind=HOOKS)})
    gone: list[Line] = field(default_factory=list)
    mark: str = "first"

    def known(self) -> Sequence[Line]:
        return list(self.rules)

    def rules_of(self, line: Line) -> Rules:
        return self.rules.get(line, UNSET)

    def mark_of(self, line: Line) -> str:
        return f"{self.mark} of {line}"

    def is_marked(self, line: Line, mark: str) -> bool:
        return mark == self.mark_of(line)

    def removed(self) -> Sequence[Line]:
        return self.gone

    def cleared(self, line: Line) -> None:
        self.gone.remove(line)


UNSET = Rules(kind=HOOKS)


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def lines(hooks: Hooks) -> AllLines:
    never: Any = None
    couriers = CourierLines(Config(), Registry([CourierSettings(USPS)]))
    return AllLines(couriers, [LineWork(HOOKS, hooks, never, never)])


async def nothing_set() -> Changes:
    return Changes(1, {"~shop": {"per_second": 7}})


def test_lines_are_those_of_every_kind_and_each_has_its_kind(lines: AllLines) -> None:
    assert {"usps", SHOP} <= set(lines.known())
    kinds = [lines.kind_of(Line(name)) for name in ("usps", "~shop", "hook:shop", "usps@acme")]
    assert kinds == [TRACKING, HOOKS, None, None]


def test_a_line_that_comes_is_known_from_then_on_and_one_that_goes_is_not(
    lines: AllLines, hooks: Hooks
) -> None:
    assert not lines.knows(OTHER)
    hooks.rules[OTHER] = Rules(kind=HOOKS)
    assert lines.knows(OTHER)

    del hooks.rules[SHOP]

    assert not lines.knows(SHOP)
    assert lines.kind_of(SHOP) is HOOKS


async def test_rules_are_those_of_the_line_now_and_the_same_object_while_they_stay(
    lines: AllLines, hooks: Hooks
) -> None:
    book = RuleBook(lines.rules_of, nothing_set)
    before = book.rules_of(SHOP)
    assert book.rules_of(SHOP) is before
    assert book.rules_of(Line("usps")).kind is TRACKING

    hooks.rules[SHOP] = Rules(concurrent=3, kind=HOOKS)
    assert book.rules_of(SHOP).concurrent == 3
    await book.learn()

    assert book.rules_of(SHOP) == replace(hooks.rules[SHOP], per_second=7)


def test_credentials_are_those_of_the_line_now(lines: AllLines, hooks: Hooks) -> None:
    mark = lines.mark_of(SHOP)
    assert lines.is_marked(SHOP, mark)

    hooks.mark = "second"

    assert not lines.is_marked(SHOP, mark)
    assert lines.is_marked(Line("usps"), lines.mark_of(Line("usps")))


def test_a_drain_job_of_a_line_is_read_where_the_line_is_known(
    lines: AllLines, hooks: Hooks
) -> None:
    body, resolve = encode_drain(OTHER), Registry([]).named
    with pytest.raises(UnknownLine):
        decode_drain(body, resolve, lines.knows)

    hooks.rules[OTHER] = Rules(kind=HOOKS)

    assert decode_drain(body, resolve, lines.knows) == OTHER


async def test_each_sweep_asks_which_lines_there_are() -> None:
    scene = Scene()
    await scene.sweeper.sweep()

    scene.lines.lines.append(SHOP)  # type: ignore[arg-type]
    await scene.sweeper.sweep()

    assert scene.journal.steps == ["sweep 1", "sweep 2"]


async def test_a_removed_line_is_listed_until_nothing_is_on_it() -> None:
    scene = Scene()
    scene.lines.gone = [SHOP, OTHER]  # type: ignore[list-item]
    scene.limits.busy = frozenset({SHOP})

    await scene.sweeper.sweep()
    assert scene.lines.gone == [SHOP]
    scene.limits.busy = frozenset()
    await scene.sweeper.sweep()

    assert scene.lines.gone == []


async def test_what_is_no_operation_is_not_mirrored(lines: AllLines) -> None:
    journal = Journal()
    mirror = MirrorOfOperations(Mirror(journal), lines)

    await mirror.add(REQUEST._replace(slug=Slug(SHOP)), "job-1", 7)
    assert journal.steps == []
    await mirror.add(REQUEST, "key-of-the-job", 7)

    assert journal.steps == ["mirror"]
