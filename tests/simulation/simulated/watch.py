"""What is judged after every script: expiries, counters, projections, ends (I5, I6, I8)."""

from __future__ import annotations

import json
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limits_invariants import check

from limits.rules import Rules
from limits.script_file import BATCH
from simulated.keyspace import Hash, Keyspace
from simulated.trace import Trace
from simulated.view import ENDS, View
from tracking.tally import tally_of

STATUS = "tracking:status:"
SPANS = "tracking:stats2:"
ALIKE = {"survey", "inspect", "started", "epoch", "again", "plan"}
"""Scripts that say the same each time that they ask."""


@dataclass(slots=True)
class Watch:
    """Called by the server after each script, at the instant at which it ran.

    `by_hand` are the numbers of a courier that somebody pushed; `names` the scripts by their hash.
    `listed`: every number that waits is in a list, because no operator deletes any.
    `clock_steps`: Redis' clock steps back in this world, and every expiry is later by that much.
    """

    space: Keyspace
    trace: Trace
    rules: Mapping[str, Rules]
    by_hand: Mapping[str, Collection[str]]
    names: Mapping[str, str]
    listed: bool
    clock_steps: bool
    ended: dict[str, str] = field(default_factory=dict)
    scripts: dict[str, int] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _spans: set[str] = field(default_factory=set)
    _broken: bool = False

    def __call__(self, sha: str, keys: Sequence[str], argv: Sequence[str]) -> None:
        name = self.names.get(sha, sha)
        if name == BATCH:
            argv = argv[1:]  # the latest that it can be is another one each time
            name = " ".join(argv[1].split()[::2])  # the kinds of its steps
        self.scripts[name] = self.scripts.get(name, 0) + 1
        self._note_repeats(name, argv)
        self._look_at_ends(name)
        if not self.listed or self._broken:
            return
        try:
            self._look_at_slugs(keys)
        except AssertionError as error:
            self._broken = True  # what is broken once stays so; one line tells it
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.trace.breach("I5, I6", f"after {name}: {place.line}: {error}")

    def counted(self) -> int:
        """How many operations the statistics of all couriers say have ended."""
        return sum(self.happened(end, slug) for slug in self.rules for end in sorted(ENDS))

    def happened(self, what: str, slug: str) -> int:
        """How often it happened to a courier, as its statistics tell."""
        spans = [each for each in self._spans if each.startswith(f"{SPANS}{slug}:")]
        return tally_of(self.space.of(Hash, each) or {} for each in spans).counts[what]

    def _note_repeats(self, name: str, argv: Sequence[str]) -> None:
        sent = hash((name, *argv))
        if sent in self._seen and name not in ALIKE:
            self.trace.repair("script sent again")
            if "finish" in name.split():
                self.trace.repair("finish repeated, and ignored")
        self._seen.add(sent)

    def _look_at_ends(self, name: str) -> None:
        counts = False
        for key in self.space.written:
            if key.startswith(SPANS):
                self._spans.add(key)
                counts = True
            if key.startswith(STATUS):
                self._look_at_status(key)
        if counts and self.counted() != len(self.ended):
            self.trace.breach("I8", f"{name} counted an end that was none, or twice")

    def _look_at_status(self, key: str) -> None:
        text = self.space.text(key)
        if text is None:
            return
        operation, state = key.removeprefix(STATUS), json.loads(text)["status"]
        before = self.ended.get(operation)
        if before not in (None, state):
            self.trace.breach("I8", f"{operation} was {before} and is {state}")
        if state in ENDS:
            self.ended[operation] = state

    def _look_at_slugs(self, keys: Sequence[str]) -> None:
        for slug, rules in self.rules.items():
            if f"wait_list:{slug}" in keys:
                view: Any = View(self.space, slug, clock_steps=self.clock_steps)
                check(view, rules, set(self.by_hand.get(slug, ())), flag_until=0.0)
