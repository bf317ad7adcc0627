"""The lines that a worker knows: those of its couriers, and those of other work that it is given.

A worker that starts with other credentials than were refused ends the pauses that those caused.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

from couriers.http.credentials import CourierSettings
from couriers.registry import Registry
from limits.admin.pause import Pauses
from limits.rules import Rules, RulesOf
from service.config.domain import rules_for
from service.config.schema import Config
from service.observe.events import Event
from service.observe.log import emit
from service.ports import Job, Lines, Mirror, Work
from tracking.line import TRACKING, Kind, Line, courier_line, line_of, slug_of
from tracking.request import TrackingRequest

ROUNDS = 50_000
"""About 20 ms: who reads Redis must not find a short password out by trying."""

LINES_MOST = 10_000
"""Lines of which a process keeps in mind who knows about them; they come and go."""


class LineWork(NamedTuple):
    """What is done on the lines of one kind; the wiring adds it to what is done for couriers.

    `read` reads a job of the tube `requests_flow` that asks on such a line, None of any other;
    raises MalformedJob.
    """

    kind: Kind
    lines: Lines
    work: Work
    read: Callable[[Job], TrackingRequest | None]


Works = Sequence[LineWork]


class KindLines(NamedTuple):
    """The lines of one kind; what is done there is chosen later, where all is connected."""

    kind: Kind
    lines: Lines


class CourierLines:
    """The lines of the kind TRACKING: one for each courier of the registry, as long as it runs."""

    def __init__(self, config: Config, registry: Registry) -> None:
        self._known = tuple(map(courier_line, registry.slugs))
        self._registry = registry
        self.rules_of: RulesOf = functools.cache(functools.partial(rules_for, config))
        self.mark_of: Callable[[Line], str] = functools.cache(
            lambda line: fingerprint_of(registry.settings(slug_of(line)))
        )

    def known(self) -> Sequence[Line]:
        """List the couriers' lines."""
        return self._known

    def is_marked(self, line: Line, mark: str) -> bool:
        """Whether the mark is of the addresses and credentials that are set now."""
        return is_of(mark, self._registry.settings(slug_of(line)))

    def removed(self) -> Sequence[Line]:
        """List none: a courier may be configured again."""
        return ()

    def cleared(self, line: Line) -> None:
        """Take no note: no courier's line is ever cleared."""


class _KeptRules(dict[Line, Rules]):
    """The rules of couriers' lines, which never change here; those of others are asked for."""

    def __init__(self, found: Callable[[Line], tuple[Kind | None, Lines]]) -> None:
        super().__init__()
        self._found = found

    def __missing__(self, line: Line) -> Rules:
        kind, lines = self._found(line)
        rules = lines.rules_of(line)
        if kind is TRACKING:
            self[line] = rules
        return rules


class AllLines:
    """The lines of every kind that a worker works on; implements `service.ports.Lines`."""

    def __init__(self, couriers: Lines, others: Sequence[LineWork | KindLines] = ()) -> None:
        self._kinds = [*((each.kind, each.lines) for each in others), (TRACKING, couriers)]
        self._couriers = couriers
        # Every step of a line asks, and a line keeps its kind.
        self._found = functools.lru_cache(LINES_MOST)(self._find)
        self.rules_of: RulesOf = _KeptRules(self._found).__getitem__
        self.yields: Callable[[Line], bool] = functools.lru_cache(LINES_MOST)(self._yields)
        """Whether calls of a line leave half of a process to others, by the rule of its kind."""

    def known(self) -> Sequence[Line]:
        """List all lines, of each kind."""
        return [line for _, lines in self._kinds for line in lines.known()]

    def knows(self, line: Line) -> bool:
        """Whether a line is among them."""
        return line in self._found(line)[1].known()

    def kind_of(self, line: Line) -> Kind | None:
        """Find the kind of a line; None where nothing of that kind is worked on: it waits."""
        return self._found(line)[0]

    def mark_of(self, line: Line) -> str:
        """Ask the lines of its kind."""
        return self._found(line)[1].mark_of(line)

    def is_marked(self, line: Line, mark: str) -> bool:
        """Ask the lines of its kind."""
        return self._found(line)[1].is_marked(line, mark)

    def removed(self) -> Sequence[Line]:
        """List all lines that were removed for good, of each kind."""
        return [line for _, lines in self._kinds for line in lines.removed()]

    def cleared(self, line: Line) -> None:
        """Pass it on to the lines of its kind."""
        self._found(line)[1].cleared(line)

    def _yields(self, line: Line) -> bool:
        kind = self._found(line)[0]
        return kind is not None and kind.yields

    def _find(self, line: Line) -> tuple[Kind | None, Lines]:
        for kind, lines in self._kinds:
            if kind.form.fullmatch(line):
                return kind, lines
        return None, self._couriers


class MirrorOfOperations:
    """A mirror of what waits and is an operation: of nothing else the archive learns its end."""

    def __init__(self, mirror: Mirror, lines: Lines) -> None:
        self._mirror, self._lines = mirror, lines

    async def add(self, request: TrackingRequest, job_key: str, at_us: int) -> None:
        """Write it down, if it is one. Raises ResultsDown: repeat it."""
        if self._lines.rules_of(line_of(request)).kind.operations:
            await self._mirror.add(request, job_key, at_us)


async def resume_where_changed(brakes: Pauses, lines: Lines) -> None:
    """Let the lines go on whose credentials were refused and are others now. Raises LimitsDown.

    A pause by hand stays.
    """
    for line, mark in (await brakes.marks(lines.known())).items():
        if not lines.is_marked(line, mark):
            await brakes.resume(line, by_hand=False)
            emit(Event.RESUMED, slug=line)


def fingerprint_of(settings: CourierSettings) -> str:
    """Take a fingerprint of a courier's addresses and credentials, salted: each is another text."""
    salt = secrets.token_hex(8)
    return f"{salt}:{_hash(salt, settings)}"


def is_of(fingerprint: str, settings: CourierSettings) -> bool:
    """Whether it was taken of these very addresses and credentials."""
    salt, _, found = fingerprint.partition(":")
    return hmac.compare_digest(found, _hash(salt, settings))


def _hash(salt: str, settings: CourierSettings) -> str:
    told = [settings.base_url, settings.token_url, sorted(settings.credentials.items())]
    written = json.dumps(told).encode()
    return hashlib.pbkdf2_hmac("sha256", written, salt.encode(), ROUNDS).hex()
