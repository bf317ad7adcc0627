"""The bill of materials of the image: what `requirements.txt` locks, as CycloneDX 1.6 in JSON.

`python -m devstack.sbom` prints it. The same lock file gives the same text, byte for byte, so that
two builds can be compared. A licence is what the package itself says, where it is installed here.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)( ;[^\\]*)?", re.MULTILINE)
NAMESPACE = uuid.UUID("6f4f3d0e-5d0b-4d57-9a6c-0f4b6f2f3b11")
"""Of the serial numbers: each is made of what the bill lists."""


def bill(locked: str, project: dict[str, Any]) -> dict[str, Any]:
    """List what `locked`, the text of a lock file, puts beside `project` of pyproject.toml."""
    components = [_component(*found) for found in sorted(LOCKED.findall(locked))]
    name, version = project["name"], project["version"]
    itself = {
        "type": "application",
        "bom-ref": f"{name}@{version}",
        "name": name,
        "version": version,
        "description": project["description"],
        "licenses": _licences(project["license"]),
    }
    needs = {"ref": itself["bom-ref"], "dependsOn": [each["bom-ref"] for each in components]}
    serial = uuid.uuid5(NAMESPACE, json.dumps([itself, components], sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": itself},
        "components": components,
        "dependencies": [needs],
    }


def _component(name: str, version: str, marker: str) -> dict[str, Any]:
    """One package; a marker says that only some Pythons or systems get it."""
    address = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"
    found: dict[str, Any] = {"type": "library", "bom-ref": address, "name": name}
    found |= {"version": version, "purl": address, "scope": "optional" if marker else "required"}
    try:
        said = metadata(name)
    except PackageNotFoundError:
        return found
    named = [said[key] for key in ("License-Expression", "License") if said[key]]
    licence = named[0].partition("\n")[0] if named else ""
    return found | ({"licenses": _licences(licence)} if licence else {})


def _licences(said: str) -> list[dict[str, Any]]:
    """A licence as a name: not all packages say theirs by an identifier of SPDX."""
    return [{"license": {"name": said.strip()}}]


def main() -> None:
    """Print the bill of this folder's lock file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    made = bill((ROOT / "requirements.txt").read_text("utf-8"), project)
    sys.stdout.write(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main()
