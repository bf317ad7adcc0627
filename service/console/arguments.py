"""The exit codes, the types of arguments and the options that several verbs share.

Imports nothing of weight, so that `--help` is instant.
"""

from __future__ import annotations

import argparse
import difflib
import math
import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NoReturn, TypeAlias, TypeVar

from service import REFUSED
from service.console.examples import epilog
from tracking.request import FIELDS, FIELDS_PREFIX, MAIN, Account, parse_account

WIDTH = 79
"""Of a description, whatever the terminal."""

UNITS: Mapping[str, int] = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""Of lengths of time, in seconds."""

STATES = ("open", "held", "delivered", "dead", "cancelled", "completed")
"""Of deliveries."""

Parser: TypeAlias = argparse.ArgumentParser
Options: TypeAlias = argparse.Namespace
P = TypeVar("P", bound=Parser)
Act = TypeVar("Act")
Run: TypeAlias = Callable[[Options], int]
"""Runs a verb or one of its actions; returns the exit code."""


class Exit(IntEnum):
    """The exit codes; `examples` says what they mean."""

    DONE = 0
    NEGATIVE = 1
    WRONG = REFUSED
    AWAY = 3
    WAITED = 4
    INTERRUPTED = 130


class UsageError(Exception):
    """The command line asks for something that cannot be; the text names it and the fix."""


class _Help(argparse.HelpFormatter):
    """Wraps a description when somebody reads it, and leaves the lines of an epilog alone."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002 - argparse's
        return text if "\n" in text else super()._fill_text(text, WIDTH, indent)


class Suggesting(argparse.ArgumentParser):
    """A parser that names the nearest verb, action or option where it does not know one."""

    def parse_known_args(self, *args: Any, **named: Any) -> Any:
        """Parse; an option that is none ends it here, where the others are known."""
        found, left = super().parse_known_args(*args, **named)
        for each in left:
            if each.startswith("--"):
                name = each.partition("=")[0]
                near = difflib.get_close_matches(name, self._option_string_actions, 1)
                hint = f"did you mean {near[0]}?" if near else f"`{self.prog} --help` lists them"
                self.error(f"there is no option {name}: {hint}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """End; argparse calls it."""
        if found := _NO_CHOICE.search(message):
            near = difflib.get_close_matches(found[2], _WORD.findall(found[3]), 1)
            hint = f"did you mean {near[0]}?" if near else f"`{self.prog} --help` lists them"
            message = f"there is no {found[1].lower()} {found[2]!r}: {hint}"
        super().error(message)


_NO_CHOICE = re.compile(r"(VERB|ACTION): invalid choice: '(.*)' \(choose from (.*)\)")
_WORD = re.compile(r"[a-z-]+")


def with_epilog(parser: P) -> P:
    """Tell examples and exit codes at the end of `--help`."""
    parser.epilog = epilog(parser.prog)
    parser.formatter_class = _Help
    return parser


def in_list(text: str) -> str:
    """Word what a verb or an action does for the list of all."""
    return text[0].lower() + text[1:].rstrip(".")


def below(parser: P) -> P:
    """Complete the parser of a verb or of an action."""
    # SUPPRESS: `--config` before the verb must not be overwritten by its absence after it.
    parser.add_argument(
        "--config", metavar="PATH", default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )
    return with_epilog(parser)


def add_actions(
    parser: Parser, actions: Mapping[str, tuple[str, Act]], runs: Callable[[Act], Run]
) -> dict[str, Parser]:
    """Add the actions of a verb, each with its help and its act, which `runs` makes run."""
    added = parser.add_subparsers(
        title="actions", metavar="ACTION", required=True, parser_class=Suggesting
    )
    parsers: dict[str, Parser] = {}
    for name, (text, act) in actions.items():
        parsers[name] = below(added.add_parser(name, help=in_list(text), description=text))
        parsers[name].set_defaults(run=runs(act))
    return parsers


def add_fields(parser: Parser) -> None:
    """Let what some couriers need besides the number be given."""
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"what some couriers need besides the number, like postal_code=8000; repeatable. "
        f"NAME is one of {', '.join(name.removeprefix(FIELDS_PREFIX) for name in FIELDS)}",
    )


def add_json(parser: Parser) -> None:
    """Offer to print JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON, one object per line")


def add_account(parser: Parser, what: str = "whose") -> None:
    """Let an account be named; `what` it says."""
    text = f"{what}; default: {MAIN}"
    parser.add_argument("--account", type=account_of, default=MAIN, metavar="NAME", help=text)


def add_yes(parser: Parser) -> None:
    """Offer not to ask."""
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def add_csv(parser: Parser, header: str) -> None:
    """Offer to read rows of a CSV file."""
    text = f"with a header: {header}; - is standard input"
    parser.add_argument("--csv", type=named, metavar="FILE", help=text)


def add_parcels(parser: Parser, alone: str = "") -> None:
    """Add the ways to name parcels; `alone` tells what --slug does without any number."""
    parser.add_argument("slug_and_numbers", nargs="*", metavar="SLUG NUMBER", help="which parcels")
    parser.add_argument("--slug", type=named, help=f"the courier of rows that name none{alone}")
    add_csv(parser, "slug,number,...")
    add_yes(parser)
    # What else a row may hold is of no meaning here.
    nothing = dict.fromkeys(("id", "origin", "max_age", "expires_in", "webhook"))
    parser.set_defaults(**nothing, field=[], from_row=1)


def add_delivery_filter(parser: Parser) -> None:
    """Add the options by which deliveries of all events are filtered."""
    parser.add_argument("--service", type=named, metavar="NAME", help="only to this service")
    text = f"only in this state: {', '.join(STATES)}"
    parser.add_argument("--state", choices=STATES, metavar="STATE", help=text)
    text = "only of the last 15m, 2h or 3d"
    parser.add_argument("--since", type=aged, metavar="DURATION", help=text)
    text = "only what is older than 15m, 2h or 3d"
    parser.add_argument("--until", type=aged, metavar="DURATION", help=text)


def add_end_with(parser: Parser) -> None:
    """Let a process end with another one, which the demo and tests start it for."""
    parser.add_argument("--end-with", type=int, metavar="PID", help=argparse.SUPPRESS)


def named(text: str) -> str:
    """Read a name; "" is a variable that is not set, and must not mean what no name means: all."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty: name one, or leave it out")
    return text


def account_of(text: str) -> Account:
    """Read the name of an account."""
    try:
        return parse_account(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def seconds_of(text: str) -> float:
    """Read a length of time of 0 or more in seconds; `--wait usps 9405…` is a frequent slip."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no length of time, like 90 (seconds), 15m, 2h or 3d; "
            "write options after SLUG NUMBER"
        )
    return seconds


def lasting(text: str) -> float:
    """Read a length of time in seconds, like `90s`; a bare number is seconds."""
    # Brings the driver of Redis, which `--help` does not need.
    from service.operator import pause  # noqa: PLC0415 - see above

    try:
        return pause.read_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def aged(text: str) -> float:
    """Read the age of what is to be cancelled: without a unit, 2026 may be meant as a year."""
    if text[-1:].isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} has no unit: write 90s, 15m, 2h or 3d")
    return lasting(text)


def from_one_on(text: str) -> int:
    """Read a whole number from 1 on."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
