"""The verbs of the command line: their names, their modules, and the parser that knows them.

The module of a verb is imported when the command line names the verb, and what that module takes
from `service` or `asyncio` is loaded when it is first used: so `--help` is instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from service import NAME, VERSION
from service.console.arguments import Options, Parser, Suggesting, below, in_list, with_epilog

DEVSTACK = Path(__file__).parents[2] / "devstack"
"""The servers of `demo`, which is not offered where they are not: in the image."""

VERBS: Mapping[str, str] = MappingProxyType(
    {
        "run": "Run a worker until SIGTERM; the default verb.",
        "demo": "Show the worker at work for half a minute: made-up couriers, a proof at the end.",
        "put": "Put tracking requests: numbers, a CSV file, or lines of standard input.",
        "ingest": "Take requests over HTTP, and nothing else, until SIGTERM.",
        "api": "Serve all of HTTP until SIGTERM: docs/http.md lists the routes.",
        "recover": "Put again what a door spooled, out of its saved output, or what an emptied "
        "Redis held.",
        "account": "Add, list or remove accounts, to which API keys belong.",
        "key": "Add, list, revoke or rotate the API keys of accounts.",
        "user": "Add, list, invite or remove users of the pages; let them choose passwords.",
        "service": "Make, list, change or remove services: where an account has webhooks sent.",
        "delivery": "List, show, resend or cancel what is sent to services.",
        "inbox": "List, show, resend, edit or delete what other systems sent to relays.",
        "list": "List an account's parcels: by tag, courier, age or label, or by a search.",
        "show": "Show what is known about a number, or about a request by its id.",
        "detect": "List the couriers that may have a number, likeliest first.",
        "cancel": "Cancel requests that wait; calls that run already are not cut off.",
        "resend": "Ask again, now, for requests that are dead or have ended: each as a new "
        "request.",
        "proof": "Prove that limits are kept and no request is lost, by what was measured.",
        "pause": "Pause a courier: nobody calls it, and its requests wait.",
        "resume": "Let a courier that is paused be called again, at once.",
        "limits": "Show or change a courier's limits while workers run.",
        "forget": "Delete all that is stored about parcels, and what calls of now bring.",
        "purge": "Remove what was kept for longer than the settings say, now; workers do it by "
        "themselves.",
        "info": "Show what runs and waits per courier, what the tubes hold, and which workers "
        "live.",
        "events": "Print the ends of requests as they come, until Ctrl-C.",
        "stats": "Draw what happened lately: operations by their ends, calls, waiting and call "
        "times.",
        "dead": "List, show, put again or delete requests that got no answer.",
        "reparse": "Read stored answers again that could not be read, after a module was fixed.",
        "check": "Check the settings, and tell in one line how the servers are.",
        "doctor": "Explain servers, settings and credentials, with fixes.",
        "config": "Show the configuration.",
        "completion": "Print what completes the command line in a shell, by the Tab key.",
    }
)
"""The verbs and their help. `VERB_arguments` adds the arguments of a verb, `run_VERB` runs it."""

MODULES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("demo", "ingest", "api"), "run"),
        **dict.fromkeys(("detect", "reparse"), "couriers"),
        "key": "account",
        "list": "parcels",
        "resume": "pause",
        "resend": "dead",
        "purge": "forget",
        "completion": "config",
    }
)
"""The modules of verbs in `service.console`, where a module has not the name of the verb."""


class VerbParser(Suggesting):
    """The parser of a verb; it is made, with its arguments, when the command line names the verb.

    To make them all takes as long as to load what most verbs need.
    """

    def __init__(self, **named: Any) -> None:
        """Remember only; `prog` ends with the verb."""
        self.prog = named["prog"]
        self._named = named

    def __repr__(self) -> str:
        return self.prog  # a parser has not learnt yet what its own tells

    def learn(self) -> None:
        """Make the parser and add the arguments of the verb, once."""
        if named := self._named:
            self._named = {}
            super().__init__(**named)
            verb = self.prog.split()[-1]
            module = verb_module(verb)
            self.set_defaults(run=getattr(module, f"run_{verb}", None))  # actions have their own
            getattr(module, f"{verb}_arguments")(below(self))

    def parse_known_args(self, *args: Any, **named: Any) -> Any:
        """Learn, then parse."""
        self.learn()
        return super().parse_known_args(*args, **named)


def parser() -> Parser:
    """Build the parser; `run` in its result runs the verb."""
    top = with_epilog(
        Suggesting(
            prog=NAME,
            description="Track parcels through couriers' APIs. Without a verb: run a worker.",
        )
    )
    top.add_argument("--config", metavar="PATH", help="configuration file (see `config show`)")
    top.add_argument("--version", action="version", version=f"courier-tracking-worker {VERSION}")
    verbs = top.add_subparsers(title="verbs", metavar="VERB", dest="verb", parser_class=VerbParser)
    for name, text in VERBS.items():
        if name != "demo" or DEVSTACK.is_dir():
            verbs.add_parser(name, help=in_list(text), description=text)
    return top


def parse(arguments: Sequence[str]) -> Options:
    """Read a command line; without a verb it means `run`."""
    top = parser()
    if "_ARGCOMPLETE" in os.environ:
        _complete(top)
    options = top.parse_args(arguments)
    return options if options.verb else top.parse_args([*arguments, "run"])


def _complete(top: Parser) -> None:
    """Answer a shell, which asks for the Tab key, and end."""
    named = set(os.environ.get("COMP_LINE", "").split())
    for action in top._actions:  # noqa: SLF001 - argparse tells its verbs nowhere else
        for verb, parser in dict(action.choices or {}).items():
            if verb in named:
                parser.learn()
    import_module("argcomplete").autocomplete(top)


def verb_module(verb: str) -> ModuleType:
    """Import the module of a verb; what it imports is loaded when it is first used."""
    later = _Later(f"service.console.{MODULES.get(verb, verb)}")
    sys.meta_path.insert(0, later)
    try:
        return import_module(later.module)
    finally:
        sys.meta_path.remove(later)


class _Later:
    """Finds what the module of a verb imports, and has it loaded when it is first used.

    A name out of a module is a use of it, so verbs write `from service.operator import look`. A
    finder of `sys.meta_path`.
    """

    def __init__(self, module: str) -> None:
        self.module = module

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module to load later; None for one that is loaded now."""
        if name == self.module or not name.startswith(("service.", "asyncio")):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec and spec.loader:
            spec.loader = LazyLoader(spec.loader)
        return spec
