"""`config show`: the settings in force, secrets masked, and their sources. And `completion`."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from msgspec import structs, to_builtins

from service import NAME
from service.config import address, load, machine, paths, schema
from service.console import settings
from service.console.arguments import Exit, Options, Parser, add_actions, add_json
from service.console.output import say, say_json, table

DEFAULT = "default"


def config_arguments(parser: Parser) -> None:
    """Add the action of `config`."""
    text = "Print the settings in force, secrets masked; wrong ones are named instead, with exit 2."
    parsers = add_actions(parser, {"show": (text, show)}, lambda run: run)
    also = "also show where each value was set"
    parsers["show"].add_argument("--sources", action="store_true", help=also)
    add_json(parsers["show"])


def show(options: Options) -> int:
    """Print the settings in force, secrets masked."""
    setting = settings.loaded(options)
    here = machine.call_budget(setting.config.worker)
    found = [*_effective(setting), (("here", "concurrency"), here.calls, here.bound_by)]
    if options.json:
        say_json({".".join(path): _entry(value, origin, options) for path, value, origin in found})
        return Exit.DONE
    say(f"# file: {setting.file or 'none; all defaults'}")
    say(
        f"# here.concurrency, calls in flight per process on this machine: bound by {here.bound_by}"
    )
    headers = ("setting", "value", "set in")[: 3 if options.sources else 2]
    rows = [(".".join(path), json.dumps(value), origin) for path, value, origin in found]
    table(headers, [row[: len(headers)] for row in rows])
    return Exit.DONE


def _entry(value: Any, origin: str, options: Options) -> Any:
    return {"value": value, "source": origin} if options.sources else value


def _effective(setting: load.Loaded) -> Iterator[tuple[paths.Path, Any, str]]:
    """List every value that holds, in the order of the schema; unset ones are left out."""
    for path, value in paths.values(_as_tables(setting.config)):
        if value is not None and value != {}:
            yield path, address.masked_value(path, value), setting.origins.get(path, DEFAULT)


def _as_tables(config: schema.Config) -> dict[str, Any]:
    raw: dict[str, Any] = to_builtins(config)
    raw["couriers"] = {slug: _courier(courier) for slug, courier in config.couriers.items()}
    return raw


def _courier(courier: schema.Courier) -> dict[str, Any]:
    table = structs.asdict(courier)
    credentials: dict[str, Any] = table.pop("credentials")
    return table | credentials


SHELLS = ("bash", "zsh", "fish")


def completion_arguments(parser: Parser) -> None:
    """Add the arguments of `completion`."""
    text = 'bash and zsh: eval "$(tracker completion bash)"; fish: tracker completion fish | source'
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=text)


def run_completion(options: Options) -> int:
    """Print it."""
    argcomplete = importlib.import_module("argcomplete")
    sys.stdout.write(argcomplete.shellcode([NAME], shell=options.shell) + "\n")
    return Exit.DONE
