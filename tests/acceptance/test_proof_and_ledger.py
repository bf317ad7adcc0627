"""The proof, compared with the courier's own ledger, under load and through a killed worker."""

from __future__ import annotations

import http.client
import json
import sys

import pytest
from plant import REPOSITORY, WORKER, Plant
from running_worker import BOOT_SECONDS, until

from devstack import judge
from devstack.command import run_to_end
from devstack.servers import free_port

pytestmark = pytest.mark.prove

NUMBERS, CONCURRENT, PER_SECOND = 24, 4, 8
SHOWN_SECONDS = 20.0


def ask(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return answer.read()
    except ConnectionError:
        return b""
    finally:
        connection.close()


def test_the_page_says_what_the_courier_saw_through_a_killed_worker(plant: Plant) -> None:
    slug = plant.courier(concurrent=CONCURRENT, per_second=PER_SECOND, latency=0.8)
    port = free_port()
    plant.hire(
        command=(*WORKER, "api"),
        TRACKER_API__LISTEN=f"127.0.0.1:{port}",
        TRACKER_INGEST__SPOOL=str(plant.file("spool")),
        TRACKER_INGEST__KEYS=str(plant.file("keys")),
        TRACKER_WEB__PUBLIC_PROOF="true",
    )
    worker = plant.hire(processes=2).ready()
    for number in range(NUMBERS):
        plant.producer.put(slug, f"AB{number:06d}", id=f"{slug}-{number}")
    answered = until(lambda: worker.events("request answered"), 10.0, "calls are answered")
    during = json.loads(until(lambda: ask(port, "/proof.json"), BOOT_SECONDS, "the api serves"))
    worker.kill_child(int(answered[-1]["worker"].rsplit(":", 1)[1]))
    plant.endings.come(40.0)
    calls = plant.calls(slug)

    def shown() -> dict[str, object] | None:
        said = json.loads(ask(port, "/proof.json"))
        of_it = {each["courier"]: each for each in said["proof"]["calls"]["couriers"]}
        quiet = said["proof"]["operations"]["ended"]["SUCCESS"] == NUMBERS
        enough = slug in of_it and of_it[slug]["starts"] >= len(calls) - CONCURRENT
        return said if quiet and enough else None

    found = until(shown, SHOWN_SECONDS, "the proof shows all of it", step=1.0)
    proof = found["proof"]
    (courier,) = proof["calls"]["couriers"]
    plant.held_to_limits()
    operations = proof["operations"]
    assert during["proof"]["operations"]["missing"] == 0
    assert during["proof"]["operations"]["open"] > 0
    assert operations["admitted"] == NUMBERS == sum(operations["ended"].values())
    assert (operations["open"], operations["missing"], proof["calls"]["violations"]) == (0, 0, 0)
    assert len(calls) - CONCURRENT <= courier["starts"] <= len(calls)
    assert courier["peak_in_flight"] == judge.most_in_flight(calls) == CONCURRENT
    assert 1 < courier["worst_second"] <= courier["allowed_per_second"] == PER_SECOND
    assert slug in ask(port, "/proof").decode()
    files = {"json": json.dumps(found).encode(), "key": ask(port, "/proof.key")}
    for name, text in files.items():
        plant.file(name).write_bytes(text)
    verify = [sys.executable, str(REPOSITORY / "examples/verify_proof.py")]
    good = run_to_end([*verify, str(plant.file("json")), str(plant.file("key"))], {})
    plant.file("json").write_bytes(files["json"].replace(b'"violations": 0', b'"violations": 1'))
    bad = run_to_end([*verify, str(plant.file("json")), str(plant.file("key"))], {})
    assert (good.returncode, bad.returncode) == (0, 1)
