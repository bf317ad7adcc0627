"""The arguments of all verbs. Imports nothing of weight, so that `--help` is instant."""

from __future__ import annotations

import argparse
from pathlib import Path

from service import VERSION
from service.cli.arguments import (
    Verbs,
    a_verb,
    from_one_on,
    named,
    offer_json,
    seconds_of,
    with_epilog,
)
from service.cli.keeping import account_of, offer_accounts
from service.cli.looking import offer_looking
from service.cli.pausing import aged, offer_limits, offer_pausing
from service.cli.purging import offer_purging
from service.cli.repeating import offer_dead, offer_resend
from tracking.account import MAIN
from tracking.request import FIELDS, FIELDS_PREFIX

DEVSTACK = Path(__file__).parents[2] / "devstack"
"""The servers of `demo`, which is not offered where they are not: in the image."""


def parser() -> argparse.ArgumentParser:
    """Build the parser; `module` in its result names the verb's module in `service.cli`."""
    top = with_epilog(
        argparse.ArgumentParser(
            prog="worker.py",
            description="Track parcels through couriers' APIs. Without a verb: run a worker.",
        )
    )
    top.add_argument("--config", metavar="PATH", help="configuration file (see `config show`)")
    top.add_argument("--version", action="version", version=f"courier-tracking-worker {VERSION}")
    top.set_defaults(module="run", child=None, archiver=None, end_with=None)
    verbs = top.add_subparsers(title="verbs", metavar="VERB")
    _run(verbs)
    if DEVSTACK.is_dir():
        _demo(verbs)
    _put(verbs)
    _serve(verbs)
    _recover(verbs)
    offer_accounts(verbs)
    _show(verbs)
    _detect(verbs)
    _cancel(verbs)
    offer_resend(verbs)
    offer_pausing(verbs)
    offer_limits(verbs)
    _forget(verbs)
    offer_purging(verbs)
    offer_looking(verbs)
    offer_dead(verbs)
    _reparse(verbs)
    _check(verbs)
    _doctor(verbs)
    _config(verbs)
    return top


def _run(verbs: Verbs) -> None:
    made = a_verb(verbs, "run", "Run a worker until SIGTERM; the default verb.")
    made.add_argument("--child", type=int, metavar="DESCRIPTOR", help=argparse.SUPPRESS)
    made.add_argument("--archiver", type=int, metavar="DESCRIPTOR", help=argparse.SUPPRESS)
    _end_with(made)


def _demo(verbs: Verbs) -> None:
    made = a_verb(
        verbs,
        "demo",
        "Show the worker at work for half a minute: made-up couriers, a proof at the end.",
    )
    _end_with(made)


def _end_with(made: argparse.ArgumentParser) -> None:
    made.add_argument("--end-with", type=int, metavar="PID", help=argparse.SUPPRESS)


def _put(verbs: Verbs) -> None:
    made = a_verb(
        verbs, "put", "Put tracking requests: numbers, a CSV file, or lines of standard input."
    )
    made.add_argument(
        "slug_and_numbers", nargs="*", metavar="SLUG NUMBER", help="the courier and the numbers"
    )
    made.add_argument("--slug", type=named, help="the courier of rows that name none")
    _file(made, "slug,number,id,...")
    made.add_argument("--id", type=named, help="your own id for the request; default: made up")
    _wishes(made)
    made.add_argument(
        "--priority", type=int, default=65_536, help="of the job; 0 comes first; default: 65536"
    )
    made.add_argument(
        "--ttr", type=int, default=60, help="of the job in seconds, 1 or more; default: 60"
    )
    made.add_argument(
        "--wait",
        nargs="?",
        type=seconds_of,
        const=60.0,
        metavar="SECONDS",
        help="wait for the outcomes at most this long; default: 60",
    )
    made.add_argument(
        "--skip-bad", action="store_true", help="put the other rows when some are wrong"
    )
    made.add_argument(
        "--from-row",
        type=from_one_on,
        default=1,
        metavar="N",
        help="begin with this row or line of the input; an interrupted put says which",
    )
    offer_json(made)


def _file(made: argparse.ArgumentParser, header: str) -> None:
    text = f"with a header: {header}; - is standard input"
    made.add_argument("--csv", type=named, metavar="FILE", help=text)


def _serve(verbs: Verbs) -> None:
    texts = {
        "ingest": "Take requests over HTTP, and nothing else, until SIGTERM.",
        "api": "Serve all of HTTP until SIGTERM: docs/http.md lists the routes.",
    }
    for verb, text in texts.items():
        made = a_verb(verbs, verb, text, module="serve")
        made.set_defaults(verb=verb)
        _end_with(made)


def _recover(verbs: Verbs) -> None:
    made = a_verb(
        verbs,
        "recover",
        "Put again what a door spooled, out of its saved output, or what an emptied Redis held.",
    )
    made.add_argument(
        "files", nargs="*", metavar="FILE", help="saved output; default: standard input"
    )
    made.add_argument(
        "--redis",
        action="store_const",
        const="recover_redis",
        dest="module",
        help="what waited in a Redis that was emptied, as MongoDB has it ([redis] mirror)",
    )
    made.add_argument("--dry-run", action="store_true", help="list the requests, put none")
    offer_json(made)


def _wishes(made: argparse.ArgumentParser) -> None:
    """Add what a request may say besides its slug, number and id."""
    made.add_argument(
        "--origin",
        choices=("MANUAL", "AUTOMATIC"),
        help="AUTOMATIC gets one turn in four while MANUAL requests wait; default: MANUAL",
    )
    made.add_argument(
        "--max-age",
        type=seconds_of,
        metavar="SECONDS",
        help="take an answer at most this old instead of calling the courier; 0 always calls",
    )
    made.add_argument(
        "--expires-in",
        type=seconds_of,
        metavar="SECONDS",
        help="cancel the request if no call has begun this long after the put",
    )
    made.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"what some couriers need besides the number, like postal_code=8000; repeatable. "
        f"NAME is one of {', '.join(name.removeprefix(FIELDS_PREFIX) for name in FIELDS)}",
    )


def _show(verbs: Verbs) -> None:
    made = a_verb(verbs, "show", "Show what is known about a number, or about a request by its id.")
    made.add_argument("slug", type=named, nargs="?", metavar="SLUG", help="the courier")
    made.add_argument("number", type=named, nargs="?", metavar="NUMBER", help="the tracking number")
    made.add_argument(
        "--id",
        type=named,
        help="show one request instead, by its id: as it was put with, or as SLUG NUMBER lists it",
    )
    made.add_argument(
        "--account",
        type=account_of,
        default=MAIN,
        metavar="NAME",
        help="whose document of the parcel; default: main",
    )
    offer_json(made)


def _detect(verbs: Verbs) -> None:
    made = a_verb(verbs, "detect", "List the couriers that may have a number, likeliest first.")
    made.add_argument("number", metavar="NUMBER", help="a tracking number")
    offer_json(made)


def _cancel(verbs: Verbs) -> None:
    made = a_verb(
        verbs, "cancel", "Cancel requests that wait; calls that run already are not cut off."
    )
    _parcels(made, alone="; alone: cancel all that waits for this courier")
    made.add_argument("--id", type=named, help="cancel only the request with this id")
    made.add_argument(
        "--older-than",
        type=aged,
        metavar="DURATION",
        help="of all that waits, for --slug or for any courier, only what came so long ago or "
        "before, like 90s, 15m, 2h or 3d",
    )
    made.add_argument(
        "--origin", choices=("MANUAL", "AUTOMATIC"), help="the same: only requests of this origin"
    )
    offer_json(made)


def _forget(verbs: Verbs) -> None:
    made = a_verb(
        verbs, "forget", "Delete all that is stored about parcels, and what calls of now bring."
    )
    _parcels(made)
    offer_json(made)


def _parcels(made: argparse.ArgumentParser, alone: str = "") -> None:
    """Add the ways to name parcels; `alone` tells what --slug does without any number."""
    made.add_argument("slug_and_numbers", nargs="*", metavar="SLUG NUMBER", help="which parcels")
    made.add_argument("--slug", type=named, help=f"the courier of rows that name none{alone}")
    _file(made, "slug,number,...")
    made.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    # What else a row may hold is of no meaning here.
    nothing = dict.fromkeys(("id", "origin", "max_age", "expires_in"))
    made.set_defaults(**nothing, field=[], from_row=1)


def _reparse(verbs: Verbs) -> None:
    made = a_verb(
        verbs,
        "reparse",
        "Read stored answers again that could not be read, after a module was fixed.",
    )
    made.add_argument("--slug", type=named, help="only answers of this courier")
    made.add_argument("--dry-run", action="store_true", help="show the outcome, change nothing")
    offer_json(made)


def _check(verbs: Verbs) -> None:
    made = a_verb(verbs, "check", "Check the settings, and tell in one line how the servers are.")
    made.add_argument(
        "--worker",
        action="store_const",
        const="check_worker",
        dest="module",
        help="tell instead whether a worker lives on this machine, whatever the servers do",
    )
    offer_json(made)


def _doctor(verbs: Verbs) -> None:
    made = a_verb(verbs, "doctor", "Explain servers, settings and credentials, with fixes.")
    offer_json(made)


def _config(verbs: Verbs) -> None:
    made = a_verb(verbs, "config", "Show the configuration.")
    actions = made.add_subparsers(title="actions", metavar="ACTION", required=True)
    text = "Print the settings in force, secrets masked; wrong ones are named instead, with exit 2."
    show = a_verb(actions, "show", text, module="config_show")
    show.add_argument("--sources", action="store_true", help="also show where each value was set")
    offer_json(show)
