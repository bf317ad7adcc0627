"""What the runbook tells an operator to type fits the deployment, and works."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from devstack.kinds import REDIS, Durability
from devstack.servers import Server, running

ROOT = Path(__file__).parents[2]
WAITING = 1_000


@pytest.fixture(scope="module")
def runbook() -> str:
    return (ROOT / "docs" / "runbook.md").read_text("utf-8")


def test_its_volumes_are_those_of_the_compose_file(compose: dict[str, Any], runbook: str) -> None:
    named = set(re.findall(r"-v ([\w-]+):", runbook))

    assert named
    assert named <= {f"{compose['name']}_{volume}" for volume in compose["volumes"]}


def test_its_services_are_those_of_the_compose_file(compose: dict[str, Any], runbook: str) -> None:
    named = re.findall(r"docker compose (?:exec|stop|start|build)((?: -[\w-]+)*) (\w+)", runbook)

    found = {service for _, service in named}
    always = {name for name, each in compose["services"].items() if "profiles" not in each}
    assert always <= found <= set(compose["services"])


def test_its_users_are_those_of_the_images(
    compose: dict[str, Any], stages: dict[str, Any], runbook: str
) -> None:
    worker, broker = (stages[image].all("USER")[-1] for image in ("worker", "beanstalkd"))

    assert f"readable for user {worker.partition(':')[0]}." in runbook
    store = compose["services"]["redis"]["user"]
    assert f"({broker.partition(':')[0]} for beanstalkd, {store} for Redis)" in runbook


def test_its_override_adds_a_secret_to_the_worker(compose: dict[str, Any], runbook: str) -> None:
    yaml = pytest.importorskip("yaml")
    override = yaml.safe_load(
        re.findall(r"^```yaml\n(.*?)^```", runbook, re.DOTALL | re.MULTILINE)[0]
    )

    assert override["services"].keys() <= compose["services"].keys()
    worker = override["services"]["worker"]
    mounted = {f"/run/secrets/{name}" for name in worker["secrets"]}
    assert worker["secrets"] == list(override["secrets"])
    assert set(worker["environment"].values()) == mounted
    assert all(name.endswith("_FILE") for name in worker["environment"])


@pytest.fixture
def restored(composed_redis: Server, tmp_path: Path) -> Iterator[Server]:
    """A second Redis, started on a copy that was made as the runbook says while the first ran."""
    with redis.Redis.from_url(composed_redis.url) as client:
        folder = Path(client.config_get("dir")["dir"])
        client.rpush("wait_list:usps", *range(WAITING))
        client.config_set("auto-aof-rewrite-percentage", 0)
        assert client.info("persistence")["aof_rewrite_in_progress"] == 0
    copy = shutil.copytree(folder / "appendonlydir", tmp_path / "appendonlydir")

    def arguments(port: int, folder: Path, durability: Durability) -> list[str]:
        shutil.copytree(copy, folder / "appendonlydir")
        return REDIS.arguments(port, folder, durability)

    with running(replace(REDIS, arguments=arguments)) as server:
        yield server


def test_its_copy_of_a_running_redis_holds_everything_that_waited(restored: Server) -> None:
    with redis.Redis.from_url(restored.url) as client:
        assert client.llen("wait_list:usps") == WAITING
