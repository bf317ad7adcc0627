"""The configuration that a command line names: read for all verbs, printed by `config show`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins

import service
from service.config import paths
from service.config.address import masked_value
from service.config.load import Loaded, load, which_file
from service.config.machine import call_budget
from service.config.schema import Config, Courier
from service.console.arguments import Exit, Options, Parser, add_actions, add_json
from service.console.output import say, say_json, table

HOME = Path(service.__file__).parents[1]
"""Where worker.py and the shipped config.toml are."""

DEFAULT = "default"


def config_arguments(parser: Parser) -> None:
    """Add the action of `config`."""
    text = "Print the settings in force, secrets masked; wrong ones are named instead, with exit 2."
    parsers = add_actions(parser, {"show": (text, show)})
    also = "also show where each value was set"
    parsers["show"].add_argument("--sources", action="store_true", help=also)
    add_json(parsers["show"])


def loaded(options: Options) -> Loaded:
    """Read the configuration of `--config` and the environment. Raises ConfigError."""
    return load(options.config, os.environ, HOME)


def installation(options: Options) -> str:
    """Name what a worker was started with: its configuration file, or the folder without one.

    `check --worker` finds the workers of the same name. Reads nothing, so that a file that is being
    edited makes no worker unhealthy.
    """
    return str((which_file(options.config, os.environ, HOME) or HOME).resolve())


def show(options: Options) -> int:
    """Print the settings in force, secrets masked."""
    setting = loaded(options)
    here = call_budget(setting.config.worker)
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


def _effective(setting: Loaded) -> Iterator[tuple[paths.Path, Any, str]]:
    """List every value that holds, in the order of the schema; unset ones are left out."""
    for path, value in paths.values(_as_tables(setting.config)):
        if value is not None and value != {}:
            yield path, masked_value(path, value), setting.origins.get(path, DEFAULT)


def _as_tables(config: Config) -> dict[str, Any]:
    raw: dict[str, Any] = to_builtins(config)
    raw["couriers"] = {slug: _courier(courier) for slug, courier in config.couriers.items()}
    return raw


def _courier(courier: Courier) -> dict[str, Any]:
    table = structs.asdict(courier)
    credentials: dict[str, Any] = table.pop("credentials")
    return table | credentials
