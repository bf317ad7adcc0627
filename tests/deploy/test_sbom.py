"""`make sbom`: the bill of materials lists what the image installs, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from devstack.sbom import bill

ROOT = Path(__file__).parents[2]
PROJECT = {"name": "shop", "version": "1.2", "description": "d", "license": "MIT"}
LOCKED = """# This file was made
aiohttp==3.14.5 \\
    --hash=sha256:00
no_such.Package==5.0.1 ; python_full_version < '3.11.3' \\
    --hash=sha256:01
"""


def test_it_lists_every_package_of_the_lock_file_with_its_version() -> None:
    locked = (ROOT / "requirements.txt").read_text("utf-8")
    listed = [f"{each['name']}=={each['version']}" for each in bill(locked, PROJECT)["components"]]

    assert sorted(listed) == sorted(re.findall(r"^[\w.-]+==[^\s;\\]+", locked, re.MULTILINE))
    assert len(listed) > 15


def test_a_package_has_its_address_and_the_licence_that_it_says() -> None:
    aiohttp, other = bill(LOCKED, PROJECT)["components"]

    assert aiohttp["purl"] == "pkg:pypi/aiohttp@3.14.5"
    assert aiohttp["licenses"] == [{"license": {"name": "Apache-2.0 AND MIT"}}]
    assert other["purl"] == "pkg:pypi/no-such-package@5.0.1"
    assert "licenses" not in other
    assert (aiohttp["scope"], other["scope"]) == ("required", "optional")


def test_it_is_the_same_for_the_same_lock_file_and_another_for_another() -> None:
    serial = bill(LOCKED, PROJECT)["serialNumber"]

    assert serial == bill(LOCKED, PROJECT)["serialNumber"]
    assert serial != bill(LOCKED.replace("3.14.5", "3.14.6"), PROJECT)["serialNumber"]


def test_each_reference_of_it_leads_to_a_component() -> None:
    made = bill(LOCKED, PROJECT)
    known = {each["bom-ref"] for each in [made["metadata"]["component"], *made["components"]]}
    [needs] = made["dependencies"]

    assert {needs["ref"], *needs["dependsOn"]} == known
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
