"""Webhooks at a plant: services, their receivers, and the API by which people make them."""

from __future__ import annotations

import datetime as dt
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from plant import WORKER, Plant
from running_worker import BOOT_SECONDS, until
from standardwebhooks import Webhook

from devstack import judge
from devstack.receiver import Received, Receiver
from devstack.servers import free_port
from service.config.load import load
from service.operator.audit import Operator
from service.operator.connections import collections_of
from service.operator.services import Made, Services
from service.worker.deliveries.secret_box import new_key
from tracking.request import MAIN, Account

WHO = Operator()
ANY: dict[str, Any] = {"per_second": 50, "events": ["parcel.changed"]}


def numbers_of(count: int, first: int = 0) -> list[str]:
    return [f"AB{number:06}" for number in range(first, first + count)]


class Hooks:
    """The services of a plant, and who receives there."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        allowed = "webhooks.allowed.main"
        plant.settings |= {
            "webhooks.keys": new_key("a"),
            "webhooks.timeout_seconds": 2.0,
            f"{allowed}.networks": ["127.0.0.0/8"],
            f"{allowed}.http": True,
            f"{allowed}.ports": [plant.site.port],
        }
        self.slug = plant.courier(per_second=50)

    def receiver(self, name: str) -> Receiver:
        return Receiver(self.plant.site, f"{self.slug}-{name}")

    def wait_until_heard(self, hears_from: str | None) -> None:
        """Wait until every worker knows a service; one that just swept says so a little later."""
        if hears_from:
            left = dt.datetime.fromisoformat(hears_from) - dt.datetime.now(dt.UTC)
            time.sleep(max(0.0, left.total_seconds()))

    def make(self, name: str, account: Account = MAIN, **wishes: Any) -> Made:
        wished = ANY | {"destination": self.receiver(name).url} | wishes
        with self.services() as services:
            return services.make(WHO, account, name, wished)

    @contextmanager
    def services(self) -> Iterator[Services]:
        config = load(None, self.plant.environment, Path.cwd()).config
        with collections_of(config) as stores:
            yield Services(config, stores)

    def arrived(self, name: str) -> list[str]:
        """The numbers of parcels of which a receiver heard."""
        return [each.json["data"].get("number", "") for each in self.receiver(name).received()]

    def keys(self, made: Made) -> list[str]:
        """What Redis holds of a service."""
        return list(self.plant.redis.scan_iter(f"*{made.service.line}*"))

    def states(self, name: str) -> dict[str, int]:
        """How many deliveries of a service are in each state."""
        service = self.plant.collection("services").find_one({"name": name})
        assert service is not None
        grouped = self.plant.collection("deliveries").aggregate(
            [{"$match": {"service": service["_id"]}}, {"$sortByCount": "$state"}]
        )
        return {each["_id"]: each["count"] for each in grouped}

    def all_delivered(self, name: str, count: int, seconds: float) -> None:
        """Wait until so many deliveries of a service are delivered, and none is left."""
        until(
            lambda: self.states(name) == {"delivered": count},
            seconds,
            f"{count} are delivered",
        )

    def judge_attempts(self, name: str, doubles: int = 0) -> None:
        """Assert by the receiver's log what holds whatever dies.

        Of a delivery no two attempts run at once, and none begins behind a stored success. There
        are as many as it has rows, but for `doubles`: calls that ran as their process died.
        """
        calls = [each.call for each in self.receiver(name).received()]
        found = self.plant.collection("attempts").find()
        noted = judge.noted_in(found, time.time_ns() - time.monotonic_ns())
        assert list(judge.wrong_attempts(calls, noted)) == []
        made = judge.calls_of_numbers(calls)
        assert 0 <= len(calls) - sum(noted[each].attempts for each in made) <= doubles

    def api(self) -> Api:
        """Start `worker.py api`, which asks for no key on this machine."""
        listen = f"127.0.0.1:{free_port()}"
        environment = {
            "TRACKER_API__LISTEN": listen,
            "TRACKER_INGEST__KEYS": str(self.plant.file("keys.json")),
            "TRACKER_INGEST__SPOOL": str(self.plant.file("spool.sqlite")),
        }
        self.plant.hire(command=[*WORKER, "api"], **environment)
        api = Api(f"http://{listen}")
        until(api.is_open, BOOT_SECONDS, "the API is open")
        return api


def verified(secret: str, received: Received) -> Any:
    """Read a body as receivers do: by the official verifier, which raises for a bad signature."""
    return Webhook(secret).verify(received.body, dict(received.headers))


class Api:
    """The HTTP API at one address."""

    def __init__(self, url: str) -> None:
        self._url = url

    def is_open(self) -> bool:
        """Whether it answers."""
        try:
            return self.get("/livez")[0] == HTTPStatus.OK
        except OSError:
            return False

    def get(self, path: str) -> tuple[int, Any]:
        """GET; the status, and the JSON of the answer."""
        return self.ask("GET", path)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """POST JSON; the same."""
        return self.ask("POST", path, body)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """Ask for anything."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        request = urllib.request.Request(self._url + path, data, headers, method=method)  # noqa: S310 - of this machine
        try:
            with urllib.request.urlopen(request, timeout=20.0) as answer:  # noqa: S310 - as above
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode()
