"""The shapes that the site serves, found by name: `tests/couriers/<module>/shape.py`.

======== =====================================================================================
member   is
======== =====================================================================================
read     `read(asked) -> Reply | None`: what the courier says, None for no such address
FAILURES how it fails, in its own form (`devstack.site.shapes.failures.forms`)
======== =====================================================================================

Whatever else a shape names is for the tests of every courier (`tests/acceptance/courier_cases.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from devstack.site.shapes import feed, hook

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "couriers"


def _loaded(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"shape_of_{path.parent.name}", path)
    assert spec is not None  # noqa: S101 - the path ends in .py
    assert spec.loader is not None  # noqa: S101 - as above
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHAPES: Mapping[str, Any] = MappingProxyType(
    {
        path.parent.name.replace("_", "-"): _loaded(path)
        for path in sorted(FOLDER.glob("*/shape.py"))
    }
    | {"feed": feed, "hook": hook}
)
"""By the first part of the path: a courier's slug, "feed" or "hook"."""
