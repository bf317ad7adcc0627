"""What is refused of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.config.load import load
from service.config.problems import ConfigError, Problem


def problems(folder: Path, text: str = "", **variables: str) -> list[Problem]:
    file = folder / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(file), variables, folder)
    return list(caught.value.problems)


def problem(folder: Path, text: str = "", **variables: str) -> Problem:
    found = problems(folder, text, **variables)
    assert len(found) == 1, found
    return found[0]
