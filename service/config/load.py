"""config.toml and the environment, read, merged and checked."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import msgspec

from service.config import environment
from service.config.check import problems_of, shape
from service.config.cross_checks import incoherences
from service.config.document import Document, lines_of, read
from service.config.paths import Path
from service.config.problems import ConfigError
from service.config.schema import Config

NAME = "config.toml"


@dataclass(frozen=True)
class Loaded:
    """A checked configuration.

    `file` is None when there was none: every setting has a default. `text` is what it holds, and
    `variables` says which variables set a value.
    """

    config: Config
    file: File | None
    text: str = field(repr=False)
    variables: Mapping[Path, str]

    @functools.cached_property
    def origins(self) -> Mapping[Path, str]:
        """Where each value was set; the others are defaults. Only a person asks for that."""
        lines = lines_of(self.text)
        return {path: _line(self.file, line) for path, line in lines.items()} | {**self.variables}


def load(given: str | None, variables: Mapping[str, str], beside: File) -> Loaded:
    """Read the configuration. Raises ConfigError with its problems; start nothing then.

    Whether values make sense together is asked once each of them is right by itself.
    `given` is the file named on the command line. Without it: the one that TRACKER_CONFIG names,
    ./config.toml, or the one in the directory `beside`.
    """
    file = which_file(given, variables, beside)
    document = read(file) if file else Document()
    overlay = environment.read(variables)
    where_of = functools.partial(_where, file, document, overlay.origins)
    _lay_over(document.raw, overlay.values)
    if problems := [*overlay.problems, *problems_of(document.raw, Config, where_of)]:
        raise ConfigError(problems)
    config = msgspec.convert(shape(document.raw, Config), Config)
    if problems := list(incoherences(config, where_of)):
        raise ConfigError(problems)
    return Loaded(config, file, document.text, overlay.origins)


def which_file(given: str | None, variables: Mapping[str, str], beside: File) -> File | None:
    """Find the file that `load` reads; None when there is none."""
    if named := given or variables.get(environment.WHICH_FILE):
        return File(named)
    candidates = (File(NAME), beside / NAME)
    return next((file for file in candidates if file.is_file()), None)


def _lay_over(raw: dict[str, Any], values: Mapping[Path, Any]) -> None:
    for path, value in values.items():
        table: Any = raw
        for name in path[:-1]:
            table = table.setdefault(name, {}) if isinstance(table, dict) else None
        # A value where a table belongs is the file's own problem, and reported as such.
        if isinstance(table, dict):
            table[path[-1]] = value


def _where(file: File | None, document: Document, variables: Mapping[Path, str], path: Path) -> str:
    if path in variables:
        return variables[path]
    lines = document.lines
    if path in lines:
        return _line(file, lines[path])
    # An unknown table is known by what stands in it.
    below = [where for inner, where in lines.items() if inner[: len(path)] == path]
    if below:
        return _line(file, min(below))
    found = next((name for inner, name in variables.items() if inner[: len(path)] == path), "")
    # What is not set at all is missing in its table.
    return found or (_line(file, lines[path[:-1]]) if path[:-1] in lines else "")


def _line(file: File | None, number: int) -> str:
    return f"{file}:{number}"
