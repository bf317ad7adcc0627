"""AfterShip's official SDKs, as they are, against `worker.py api`: nothing but `domain` differs.

They run where somebody installed them, because the one of Python is a package called `tracking`:

    python -m venv ~/sdk && ~/sdk/bin/pip install aftership-tracking-sdk==10.0.1
    npm install --prefix ~/sdk @aftership/tracking-sdk@17.0.0
    AFTERSHIP_PYTHON=~/sdk/bin/python AFTERSHIP_NODE=~/sdk/node_modules \
        python -m pytest tests/examples/test_aftership_sdks.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import pymongo
import pytest

from devstack.command import run_to_end
from devstack.nursery import Nursery
from devstack.servers import Server, free_port

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SOON = 20.0
SLUG, NUMBER = "usps", "9405903699300184125060"
PARCEL: dict[str, Any] = {
    "_id": f"{SLUG}:{NUMBER}",
    "slug": SLUG,
    "tracking_number": NUMBER,
    "tag": "InTransit",
    "subtag": "InTransit_002",
    "active": True,
    "checkpoints": [
        {
            "checkpoint_time": "2026-05-04T10:00:01",
            "checkpoint_offset": "+02:00",
            "message": "Accepted",
            "tag": "InTransit",
            "subtag": "InTransit_002",
            "country_name": "Germany",
            "country_iso3": "DEU",
        }
    ],
}


class Key(NamedTuple):
    """A key, and what the SDKs get to sign with."""

    text: str
    signing: list[str]


@pytest.fixture
def settings(
    redis_url: str, mongo_uri: str, database: str, beanstalkd: Server, disk: Path
) -> dict[str, str]:
    return {
        **os.environ,
        "TRACKER_REDIS__URL": redis_url,
        "TRACKER_MONGODB__URI": mongo_uri,
        "TRACKER_MONGODB__DATABASE": database,
        "TRACKER_BEANSTALKD__SERVERS": json.dumps([beanstalkd.url]),
        "TRACKER_INGEST__SPOOL": str(disk / "spool.sqlite"),
        "TRACKER_INGEST__KEYS": str(disk / "keys.json"),
        "TRACKER_HTTP__PER_SECOND": "8",
        "TRACKER_API__LISTEN": f"127.0.0.1:{free_port()}",
    }


@pytest.fixture(params=["", "hmac", "rsa"])
def key(request: pytest.FixtureRequest, settings: dict[str, str], tmp_path: Path) -> Key:
    """A key without a signature, and with each kind of them."""
    made = [sys.executable, "worker.py", "key", "add", "main", "--scope", "read,ingest"]
    kind, pair = request.param, tmp_path / "pair.pem"
    if kind == "rsa":
        subprocess.run(["openssl", "genrsa", "-out", pair, "2048"], check=True)
        public = tmp_path / "public.pem"
        subprocess.run(["openssl", "rsa", "-in", pair, "-pubout", "-out", public], check=True)
        made += ["--public-key", str(public)]
    done = subprocess.run(
        made + (["--signature", kind] if kind else []),
        cwd=ROOT,
        env=settings,
        capture_output=True,
        text=True,
        check=True,
    )
    text, *secret = done.stdout.splitlines()
    signing = {"": [], "hmac": ["AES", *secret], "rsa": ["RSA"]}[kind]
    return Key(text, [*signing, pair.read_text()] if kind == "rsa" else signing)


@pytest.fixture
def address(settings: dict[str, str], key: Key, disk: Path) -> Iterator[str]:
    """A running `worker.py api` that knows the key."""
    del key  # made before it starts
    url = f"http://{settings['TRACKER_API__LISTEN']}"
    with Nursery() as nursery:
        command = [sys.executable, str(ROOT / "worker.py"), "api"]
        process = nursery.start(command, disk / "log", settings)
        try:
            deadline = time.monotonic() + SOON
            while not asks_for_a_key(url):
                assert time.monotonic() < deadline, (disk / "log").read_text()
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            process.wait()


def asks_for_a_key(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/tracking/2026-07/couriers", timeout=1.0).close()  # noqa: S310 - of this machine
    except urllib.error.HTTPError as error:
        return error.code == HTTPStatus.UNAUTHORIZED
    except OSError:
        return False
    return False


@pytest.fixture
def parcel(mongo_uri: str, database: str) -> None:
    """What a worker has stored of the number."""
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        client[database]["tracking"].insert_one(PARCEL)


@pytest.fixture
def python() -> str:
    if found := os.environ.get("AFTERSHIP_PYTHON"):
        return found
    pytest.skip("AFTERSHIP_PYTHON names no Python that has aftership-tracking-sdk")


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found and os.environ.get("AFTERSHIP_NODE"):
        return found
    pytest.skip("AFTERSHIP_NODE names no folder of modules that has @aftership/tracking-sdk")


@pytest.mark.usefixtures("parcel")
def test_the_python_sdk_tells_a_parcels_story(python: str, address: str, key: Key) -> None:
    story = told([python, "-I", str(HERE / "aftership_story.py"), address], key)

    refused = {"status": 400, "raised": "BadRequestError"}
    assert story["duplicate"] == refused | {"code": "TRACKING_ALREADY_EXIST", "meta_code": 4003}
    assert story["unknown"]["raised"] == story["gone"]["raised"] == "NotFoundError"
    assert story["not offered"]["raised"] == "ForbiddenError"
    assert story["limited"]["raised"] == "TooManyRequestsError"
    assert story["no key"]["raised"] == "UnauthorizedError"


@pytest.mark.usefixtures("parcel")
def test_the_node_sdk_tells_a_parcels_story(node: str, address: str, key: Key) -> None:
    story = told([node, str(HERE / "aftership_story.cjs"), address], key)

    refused = {"status": 400, "raised": "AftershipError"}
    assert story["duplicate"] == refused | {"code": "TRACKING_ALREADY_EXIST", "meta_code": 4003}
    assert story["unknown"]["code"] == story["gone"]["code"] == "TRACKING_DOES_NOT_EXIST"
    assert story["not offered"]["code"] == "REQUEST_NOT_ALLOWED"
    assert story["limited"]["code"] == "TOO_MANY_REQUEST"
    assert story["no key"]["code"] == "API_KEY_INVALID"


def told(command: list[str], key: Key) -> dict[str, dict[str, Any]]:
    """Run a story, and check of it what is the same through each SDK."""
    done = run_to_end(
        [*command, key.text, SLUG, NUMBER, *key.signing],
        {"PATH": os.environ["PATH"], "NODE_PATH": os.environ.get("AFTERSHIP_NODE", "")},
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    story = {each.pop("step"): each for each in steps}
    assert story["couriers"] == {"total": True}
    assert story["detect"] == {"slug": SLUG}
    assert story["create"] == {"slug": SLUG, "number": NUMBER, "title": "Order 7"}
    assert story["list"] == {"ids": [True], "total": 1}
    assert story["get"] == {
        "tag": "InTransit", "at": "2026-05-04T10:00:01+02:00", "name": "A. Buyer"
    }  # fmt: skip
    assert story["update"] == {"note": "fragile", "title": "Order 7"}
    assert story["complete"] == {"tag": "Delivered", "active": False}
    assert story["retrack"] == {"tag": "InTransit", "active": True}
    assert (story["limited"]["meta_code"], story["limited"]["remaining"]) == (429, ["0"])
    assert story["delete"] == {"id": True}
    assert story["unknown"]["meta_code"] == story["gone"]["meta_code"] == 4004
    assert (story["not offered"]["meta_code"], story["no key"]["meta_code"]) == (403, 401)
    unsigned = {"meta_code": 401} if key.signing else {"raised": None}
    assert story["unsigned"].items() >= unsigned.items()
    return story
