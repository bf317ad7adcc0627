"""`config show`: what holds, where it was set, secrets masked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from msgspec import structs, to_builtins

from service.cli.exit_codes import Exit
from service.cli.output import say, say_json, table
from service.cli.settings import loaded
from service.config.call_budget import call_budget
from service.config.load import Loaded
from service.config.paths import Path, values
from service.config.schema import Config, Courier
from service.config.secret import masked_value

DEFAULT = "default"


def run(options: argparse.Namespace) -> int:
    """Print the effective configuration."""
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


def _entry(value: Any, origin: str, options: argparse.Namespace) -> Any:
    return {"value": value, "source": origin} if options.sources else value


def _effective(setting: Loaded) -> Iterator[tuple[Path, Any, str]]:
    """List every value that holds, in the order of the schema; unset ones are left out."""
    for path, value in values(_as_tables(setting.config)):
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
